"""Who asks a zygote and how, and what lies at the paths of its files."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths, runtime_dir
from backends.keeper import protocol, start
from tests import support
from tests.conftest import Home
from tests.keeper import boxes, zygotes
from tests.keeper.boxes import sh
from tests.keeper.test_peers import CLONE_NEWPID, CLONE_NEWUSER, answer_to_a_child
from tests.keeper.zygotes import ROOT_ONLY, forked, gone, log, only
from tests.support import settled, wait_until

pytestmark = pytest.mark.usefixtures("program")


# ---- who asks, and how


@pytest.mark.boundary
def test_the_same_uid_in_another_user_namespace_gets_no_keeper(zygote: int) -> None:
    assert answer_to_a_child(start.zygote_path(), CLONE_NEWUSER, fork=False) == b"hung up"
    assert answer_to_a_child(start.zygote_path(), CLONE_NEWUSER | CLONE_NEWPID, fork=True) == b"hung up"
    wait_until(lambda: "another user namespace" in log(), "it says why")


@ROOT_ONLY
@pytest.mark.boundary
def test_another_pid_namespace_gets_no_keeper(zygote: int) -> None:
    assert answer_to_a_child(start.zygote_path(), CLONE_NEWPID, fork=True) == b"hung up"
    wait_until(lambda: "another pid namespace" in log(), "it says why")


@pytest.mark.boundary
def test_a_box_reaches_neither_its_socket_nor_its_process(box: BoxPaths, zygote: int) -> None:
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(start.zygote_path())!r})"
    with boxes.started(box) as keeper:
        ran = boxes.run(keeper, "/usr/bin/python3", "-c", code)
        assert ran.exit == 1 and b"FileNotFoundError" in ran.err
        assert b"zygote" not in sh(keeper, "cat /proc/[0-9]*/comm").out
        assert sh(keeper, f"kill -9 {zygote}; cat /proc/{zygote}/maps").exit != 0
    assert not gone(zygote)


def ask(data: bytes, fds: int, *, finish: bool = True) -> bytes:
    """Send what is no proper request; the answer."""
    reader, writer = os.pipe()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(str(start.zygote_path()))
        try:
            sock.sendmsg([data], protocol.rights([writer] * fds))
            if finish:
                sock.shutdown(socket.SHUT_WR)
            return sock.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            return b""
        finally:
            os.close(reader)
            os.close(writer)


PROPER = protocol.encode({"root": "/nonexistent/box", "env": {}})
MALFORMED: dict[str, tuple[bytes, int]] = {
    "no descriptors": (PROPER, 0),
    "one descriptor": (PROPER, 1),
    "three descriptors": (PROPER, 3),
    "many descriptors": (PROPER, 200),
    "garbage": (b"\xff\xfe\0\n", 2),
    "no object": (b"[1]\n", 2),
    "deep": (b"[" * 60000 + b"\n", 2),
    "half a line": (PROPER[:-1], 2),
    "nothing in it": (b"{}\n", 2),
    "no text": (protocol.encode({"root": 1, "env": {}}), 2),
    "no environment": (protocol.encode({"root": "/x", "env": []}), 2),
    "a variable of no name": (protocol.encode({"root": "/x", "env": {"a=b": "c"}}), 2),
    "a variable with a NUL": (protocol.encode({"root": "/x", "env": {"a": "\0"}}), 2),
    "a variable that is no text": (protocol.encode({"root": "/x", "env": {"a": "\ud83d"}}), 2),
    "a huge line": (b"x" * 150_000 + b"\n", 2),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_request_neither_ends_nor_holds_it(box: BoxPaths, zygote: int, name: str) -> None:
    zygotes.spare(zygote)
    held = len(os.listdir(f"/proc/{zygote}/fd"))
    assert ask(*MALFORMED[name], finish=False) == b""
    assert forked(box, zygote)
    wait_until(lambda: len(os.listdir(f"/proc/{zygote}/fd")) <= held, "no descriptor stays")


def test_a_root_with_a_nul_or_without_a_box_is_the_keeper_s_failure_alone(box: BoxPaths, zygote: int) -> None:
    for root in ("/nonexistent/\0box", "/nonexistent/box", ""):
        assert ask(protocol.encode({"root": root, "env": {}}), 2, finish=False) in (b'{"ok":true}\n', b"")
    assert forked(box, zygote)


def test_a_client_that_says_nothing_delays_the_others_and_no_more(box: BoxPaths, zygote: int) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(start.zygote_path()))
        assert forked(box, zygote)


def test_two_hundred_requests_leave_no_descriptor_and_no_child(box: BoxPaths, zygote: int) -> None:
    zygotes.spare(zygote)
    held = len(os.listdir(f"/proc/{zygote}/fd"))
    kinds = list(MALFORMED.values())
    for number in range(180):
        ask(*kinds[number % len(kinds)], finish=False)
    for _ in range(20):
        assert ask(PROPER, 2, finish=False) == b'{"ok":true}\n'
    wait_until(lambda: zygotes.keepers(zygote) == [], "no keeper and no zombie is left")
    wait_until(lambda: len(os.listdir(f"/proc/{zygote}/fd")) <= held, "no descriptor stays")
    assert forked(box, zygote)
    wait_until(lambda: zygotes.keepers(zygote) == [], "an ended keeper is nobody's zombie")


def test_a_starter_keeps_no_zombie(box: BoxPaths, zygote: int) -> None:
    assert start._started == []
    assert zygote not in support.children(), "it left its starter for good"


# ---- its files


@pytest.mark.parametrize("suffix", [".sock", ".lock", ".log"])
@pytest.mark.parametrize("how", ["folder", "link", "hanging link", "pipe"])
def test_what_lies_at_its_paths_is_not_followed(
    box: BoxPaths, tmp_path: Path, suffix: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "ZYGOTE_PATIENCE", 1.0)
    victim = tmp_path / "victim"
    path = start.zygote_path().with_suffix(suffix)
    if how == "folder":
        path.mkdir()
        (path / "kept").touch()
    elif how == "pipe":
        os.mkfifo(path)
    else:
        if how == "link":
            victim.write_text("mine")
        path.symlink_to(victim)
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
    if how == "link":
        assert victim.read_text() == "mine"
    elif how == "hanging link":
        assert not victim.exists()
    elif how == "folder":
        assert (path / "kept").exists()
        if suffix != ".sock":
            assert "no zygote" in box.keeper_log.read_text()
    start.sweep()


def test_files_of_ended_ones_are_swept_away_and_those_of_living_ones_stay(box: BoxPaths, zygote: int) -> None:
    names = {path.suffix for path in runtime_dir().glob("zygote-*")}
    assert names == {".sock", ".lock", ".log"}
    assert start.sweep() == 0
    assert {path.suffix for path in runtime_dir().glob("zygote-*")} == names
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: gone(zygote), "it is gone")
    (runtime_dir() / "probe-1").mkdir()
    assert start.sweep() == 1
    assert [path.name for path in runtime_dir().iterdir() if path.name.startswith("zygote")] == []
    assert (runtime_dir() / "probe-1").is_dir()
    assert start.sweep() == 0
    with boxes.started(box):
        assert only() != zygote


def test_a_lock_that_is_swept_away_before_it_is_had_is_not_taken(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runtime_dir() / "zygote-0.lock"
    real = fcntl.flock
    swept: list[int] = []

    def flock(fd: int, kind: int) -> None:
        real(fd, kind)
        if not swept:
            swept.append(fd)
            path.unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    fd = start._lock(path)
    assert os.path.samestat(os.fstat(fd), path.stat()), "the one that the next starter finds"
    assert start._lock(path) == -1
    os.close(fd)


def test_commands_that_list_and_collect_pay_no_heed_to_it(
    cli: Callable[..., support.Done], box: BoxPaths, zygote: int
) -> None:
    assert cli("gc").out == ""
    assert "zygote" not in cli("ls", "--json").out
    assert "zygote" not in cli("doctor", box.name).out
    assert not gone(zygote)
    assert forked(box, zygote)
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: gone(zygote), "it is gone")
    assert cli("gc").out == ""
    assert not list(runtime_dir().glob("zygote-*"))


def test_silence_is_waited_for_without_work(zygote: int) -> None:
    """In poll(2), with nothing to do: its processor time stands still."""

    def used() -> bytes:
        return b" ".join(Path(f"/proc/{zygote}/stat").read_bytes().rpartition(b")")[2].split()[11:13])

    settled(used, 1.0)
