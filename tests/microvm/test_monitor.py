"""A monitor: whose child it is, what it holds, what binds it, and that it does not outlive its keeper."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.errors import Refused
from backends.kernel import landlock
from backends.kernel.syscalls import PR_SET_CHILD_SUBREAPER, prctl
from backends.microvm import confining, links, monitor
from tests import support

ENV = {"PATH": "/usr/bin:/bin"}
SLEEP = ("/bin/sleep", "4720")


@pytest.fixture(autouse=True)
def reaper() -> Iterator[None]:
    """As a keeper is one; afterwards nothing is left to reap."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    yield
    prctl(PR_SET_CHILD_SUBREAPER, 0)


def ended(made: monitor.Monitor) -> int:
    select.select([made.pidfd], [], [], 20)
    os.close(made.pidfd)
    return os.waitpid(made.pid, 0)[1]


def test_a_monitor_is_its_keepers_child_and_not_its_starters(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    starter = os.fork()
    if starter == 0:
        made = monitor.start(SLEEP, ENV, str(tmp_path / "log"))
        os.write(writer, b"%d" % made.pid)
        signal.pause()
    pid = int(os.read(reader, 20))
    os.close(reader)
    os.close(writer)
    status = Path(f"/proc/{pid}/status").read_text()
    assert f"PPid:\t{os.getpid()}\n" in status
    assert "NoNewPrivs:\t1\n" in status
    assert sorted(map(int, os.listdir(f"/proc/{pid}/fd"))) == [0, 1, 2]
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_monitor_dies_with_its_keeper(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        made = monitor.start(SLEEP, ENV, str(tmp_path / "log"))
        os.write(writer, b"%d" % made.pid)
        signal.pause()
    pid = int(os.read(reader, 20))
    os.close(reader)
    os.close(writer)
    start = support.start_time(pid)
    assert start is not None
    os.kill(keeper, signal.SIGKILL)
    os.waitpid(keeper, 0)
    support.wait_until(lambda: not support.is_alive({"pid": pid, "start": start}), "it has ended", timeout=20)
    os.waitpid(pid, 0)


def test_a_program_that_cannot_be_executed_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="/no/such: No such file") as caught:
        monitor.start(("/no/such",), ENV, str(tmp_path / "log"))
    assert caught.value.errno == errno.ENOENT
    support.wait_until(lambda: not _children(), "what was forked has ended")


def _children() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def test_it_is_given_what_it_keeps_in_order_and_what_it_prints_is_in_the_log(tmp_path: Path) -> None:
    first, second = socket.socketpair()
    code = (
        "import os; os.write(3, b'three'); os.write(4, b'four'); print('said')\n"
        "print(len(os.listdir('/proc/self/fd')))"
    )
    made = monitor.start(
        (sys.executable, "-I", "-c", code), ENV, str(tmp_path / "log"), keep=(second.fileno(), first.fileno())
    )
    assert ended(made) == 0
    assert first.recv(10) == b"three"
    assert second.recv(10) == b"four"
    assert (tmp_path / "log").read_text().split() == ["said", "6"]  # 0 to 4, and that of the listing
    first.close()
    second.close()


_TRIED = """
import json, os, socket, sys
given, readable, outside = sys.argv[1:]
told = {}
def tried(name, act):
    try:
        act()
        told[name] = "done"
    except OSError as error:
        told[name] = error.strerror
tried("write", lambda: open(given + "/file", "w").close())
tried("rename", lambda: os.rename(given + "/file", given + "/other"))
tried("folder", lambda: os.mkdir(given + "/folder"))
tried("link", lambda: os.symlink("/", given + "/link"))
tried("pipe", lambda: os.mkfifo(given + "/pipe"))
tried("read", lambda: open(readable + "/file").close())
tried("write what is read", lambda: open(readable + "/file", "w").close())
tried("read outside", lambda: open(outside + "/file").close())
tried("write outside", lambda: open(outside + "/made", "w").close())
tried("network", lambda: socket.create_connection(("127.0.0.1", PORT), 3))
print(json.dumps(told))
"""


@pytest.mark.boundary
def test_a_confined_monitor_opens_what_it_was_given_makes_no_link_and_has_no_network(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("given", "readable", "outside")}
    for place in places.values():
        place.mkdir()
        (place / "file").write_text("text")
    with socket.create_server(("127.0.0.1", 0)) as server:
        fds = {name: os.open(place, os.O_RDONLY | os.O_DIRECTORY) for name, place in places.items()}
        bound = confining.plan((fds["readable"],), (fds["given"],))
        assert bound.words == f"Landlock ABI {landlock.abi()}, no network"
        code = _TRIED.replace("PORT", str(server.getsockname()[1]))
        made = monitor.start(
            ("/usr/bin/python3", "-I", "-S", "-c", code, *map(str, places.values())),
            ENV,
            str(tmp_path / "log"),
            confine=bound.enter,
        )
        assert ended(made) == 0, (tmp_path / "log").read_text()
        for fd in fds.values():
            os.close(fd)
    told = json.loads((tmp_path / "log").read_text())
    done = {name for name, what in told.items() if what == "done"}
    assert done == {"write", "rename", "folder", "read"}
    assert told["link"] == told["pipe"] == told["read outside"] == "Permission denied"


def test_where_files_keep_no_attributes_a_launch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(Refused) as caught:
        links.map_links(str(tmp_path), None)
    assert caught.value.code == "no-xattr"
