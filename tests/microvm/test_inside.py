"""Attacks from inside a guest, its terminals and limits; each is looked at from outside."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from backends.keeper import client
from backends.keeper.client import KeeperClient
from backends.kernel import namespaces
from tests import support
from tests.container.test_proxy_inside import Hello, _own
from tests.keeper.boxes import shell
from tests.microvm.world import Guests, monitors

PYTHON = True
SHELL = ("/bin/sh", "-i")


@pytest.fixture(scope="module")
def servers(world: Guests) -> Iterator[tuple[Hello, Hello]]:
    """One on the host's own address, which the box may reach, and one on its loopback."""
    listed, loopback = Hello(_own()), Hello("127.0.0.1")
    yield listed, loopback
    for one in (listed, loopback):
        one.shutdown()
        one.server_close()


@pytest.fixture(scope="module")
def box(world: Guests, servers: tuple[Hello, Hello]) -> Path:
    world.profile(
        "listed",
        f'net.mode = "allow"\nnet.egress = ["{_own()}:{servers[0].port}"]\n'
        'resources = { mem = "320M", procs = 40, tmp = "8M", file_size = "4M", wall = "12s" }',
    )
    made = world.new("listed", profile="listed")
    assert world.run("listed", "true").code == 0
    return made


@pytest.fixture
def keeper(world: Guests, box: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeeperClient]:
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, world.env[name])
    with client.connect(BoxPaths(box)) as found:
        yield found


# ---- the host's files


def test_nothing_that_a_guest_makes_is_a_link_or_a_device_outside(world: Guests, box: Path) -> None:
    script = (
        "mkdir deep; cd deep; ln -s / root; ln -s ../../../../../etc/passwd up; mknod fifo p; "
        "mknod null c 1 3; mknod disk b 8 0; mkdir dir; ln -s dir dirlink; chmod 7777 dir; "
        "echo x >suid; chmod 4755 suid; ln suid hard; mv root renamed; ls -a"
    )
    made = world.run("listed", script).out.split()
    assert {"renamed", "up", "fifo", "dir", "suid"} <= set(made)
    owner = (box / "tree").stat().st_uid
    for folder, folders, files in os.walk(box / "tree" / "deep"):
        for name in (*folders, *files):
            status = os.lstat(os.path.join(folder, name))
            assert stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode), name
            assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX), name
            assert status.st_uid == owner, name


def test_links_and_dots_lead_to_the_guests_own_files(world: Guests, box: Path) -> None:
    marker = world.root / "marker"
    marker.write_text("the host's")
    script = (
        f"ln -s {marker} out; cat out; ln -s /work/../../../../../..{marker} above; cat above; "
        f"cat /work/..{marker}; cat /work/../manifest.json /work/../policy.json; ls /work/.."
    )
    done = world.run("listed", script)
    assert "the host's" not in done.out
    assert "manifest" not in done.out


_ATTRIBUTES = """
import json, os, stat
open("claim", "w").write("/etc/shadow")
told = {}
for name in ("user.virtfs.mode", "user.virtfs.uid", "security.capability", "trusted.x", "user.plain"):
    try:
        os.setxattr("claim", name, bytes([255, 161, 0, 0]))
        told[name] = "set"
    except OSError as error:
        told[name] = error.strerror
print(json.dumps([told, os.listxattr("claim"), stat.S_IFMT(os.lstat("claim").st_mode)]))
"""
_SWAPS = """
import json, os, threading, time
os.makedirs("a/b")
open("a/b/secret", "w").write("own")
os.symlink(MARKER, "l")
until = time.time() + 3
def swap():
    while time.time() < until:
        for old, new in (("a/b", "a/c"), ("l", "a/b"), ("a/b", "l"), ("a/c", "a/b")):
            os.rename(old, new)
thread = threading.Thread(target=swap)
thread.start()
seen = set()
while time.time() < until:
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT):
        try:
            fd = os.open("a/b/secret", flags)
            seen.add(os.read(fd, 99).decode() if flags == os.O_RDONLY else str(os.write(fd, b"own")))
            os.close(fd)
        except OSError as error:
            seen.add(error.strerror)
thread.join()
print(json.dumps(sorted(seen)))
"""


def test_a_guest_cannot_say_in_attributes_what_its_files_are_to_the_host(world: Guests, box: Path) -> None:
    told = world.python("listed", _ATTRIBUTES)
    assert told[2] == stat.S_IFREG
    path = box / "tree" / "claim"
    assert set(os.listxattr(path)) <= {"user.virtfs.mode", "user.virtfs.uid", "user.virtfs.gid", "user.plain"}
    assert stat.S_ISREG(int.from_bytes(os.getxattr(path, "user.virtfs.mode"), "little"))


def test_files_swapped_under_the_monitor_lead_nowhere_else(world: Guests, box: Path) -> None:
    marker = world.root / "swapped"
    marker.mkdir()
    (marker / "secret").write_text("the host's")
    told = world.python("listed", f"MARKER = {str(marker)!r}\n{_SWAPS}")
    assert "the host's" not in told
    assert (marker / "secret").read_text() == "the host's"
    assert os.listdir(marker) == ["secret"]


def test_the_image_and_the_guests_own_program_are_out_of_reach(world: Guests, box: Path) -> None:
    script = (
        "for f in /etc/passwd /bin/busybox /new /dev/vda /dev/vport1p1 /proc/sys/kernel/hostname "
        "/proc/1/root/init; do (echo x >>$f) 2>/dev/null && echo wrote $f; done; "
        "kill -9 1 2>/dev/null && echo killed; mount -t tmpfs x /tmp 2>/dev/null && echo mounted; "
        "grep -E 'CapEff|NoNewPrivs' /proc/self/status"
    )
    assert world.run("listed", script).out.split() == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1"]


def test_the_monitor_is_bound_itself(world: Guests, box: Path) -> None:
    [pid] = monitors(world.root)
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert set(status["Uid"].split()) == {str((box / "tree").stat().st_uid)}
    assert namespaces.inode(pid, "net") != namespaces.inode("self", "net")
    bound = world.live(box)["facts"]["monitor"]
    assert bound.startswith("its own filter, Landlock ABI ")
    assert bound.endswith(", no network")


# ---- the network


def test_the_list_is_reached_by_the_proxy_and_the_rest_is_refused_and_counted(
    world: Guests, box: Path, servers: tuple[Hello, Hello]
) -> None:
    listed, loopback = servers
    own = f"{_own()}:{listed.port}"
    done = world.run("listed", f"wget -qO- http://{own}/by-wget")
    assert (done.code, done.out) == (0, "hello")
    assert listed.asked[-1] == ("/by-wget", own)
    targets = (f"127.0.0.1:{loopback.port}", f"{_own()}:1", "counted.example:80")
    script = "; ".join(
        f"printf 'GET http://{one}/ HTTP/1.1\\r\\nHost: {one}\\r\\n\\r\\n' | nc 127.0.0.1 3128"
        for one in targets
    )
    assert world.run("listed", script).out.count("HTTP/1.1 403") == 3
    assert loopback.accepted == 0
    rows = world.cloche("denials", "listed", "--json").json()
    assert isinstance(rows, dict)
    assert [one["lane"] for one in rows["rows"] if one["object"] == "counted.example:80"] == ["proxy"]
    assert {"fs-read", "exec", "syscall"} <= {one["kind"] for one in rows["not_observed"]}


def test_a_program_that_ignores_the_proxy_reaches_nothing(
    world: Guests, box: Path, servers: tuple[Hello, Hello]
) -> None:
    before = [one.accepted for one in servers]
    hosts = [(_own(), servers[0].port), ("10.0.2.2", servers[1].port), ("10.0.2.3", 53), ("1.1.1.1", 53)]
    script = "; ".join(f"nc -w 3 {host} {port} </dev/null && echo reached" for host, port in hosts)
    done = world.run("listed", f"{script}; ls /sys/class/net; ip route")
    assert done.out.split() == ["lo"]
    assert [one.accepted for one in servers] == before


# ---- terminals and signals


def test_a_terminal_has_a_size_that_changes_job_control_and_an_end(keeper: KeeperClient) -> None:
    session, screen = shell(keeper, *SHELL, rows=30, cols=101)
    screen.type(b"stty size; test -t 0 && echo is''-a-tty\n")
    assert b"30 101\r\n" in screen.until(b"is-a-tty\r\n")
    keeper.call("resize", session=session, rows=50, cols=132)
    time.sleep(0.3)
    screen.type(b"stty size\n")
    screen.until(b"50 132\r\n")
    screen.type(b"sleep 60; echo woke''-up\n")
    time.sleep(0.5)
    screen.type(b"\x03")
    screen.type(b"echo still''-here\n")
    screen.until(b"still-here\r\n")
    screen.type(b"exit 6\n")
    assert keeper.wait_event("exit", 60, session=session)["exit"] == 6
    assert screen.ended()


def test_a_signal_reaches_the_command_and_a_kill_all_that_it_left(
    world: Guests, box: Path, keeper: KeeperClient
) -> None:
    session, screen = shell(
        keeper, "/bin/sh", "-c", "trap 'echo caught; exit 9' USR1; echo up; sleep 30 & wait"
    )
    screen.until(b"up\r\n")
    keeper.call("signal", session=session, signal=10)
    screen.until(b"caught\r\n")
    assert keeper.wait_event("exit", 60, session=session)["exit"] == 9


# ---- limits


def test_a_session_ends_at_its_wall_limit_with_all_that_it_left(world: Guests, box: Path) -> None:
    done = world.run("listed", "(setsid sleep 4715 &) ; sleep 4715", timeout=90)
    assert done.code == 124
    support.wait_until(lambda: world.run("listed", "pidof sleep").out == "", "it is gone", timeout=30)


def test_limits_are_the_guests_own_kernels(world: Guests, box: Path) -> None:
    script = (
        "head -c 20000000 /dev/zero >/tmp/big 2>/dev/null; stat -c %s /tmp/big; rm /tmp/big; "
        "(head -c 5000000 /dev/zero >large) 2>/dev/null; stat -c %s large; "
        "(i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done) 2>&1 | grep -c fork; "
        "grep MemTotal /proc/meminfo"
    )
    done = world.run("listed", script)
    words = done.out.split()
    assert int(words[0]) <= 8 << 20
    assert int(words[1]) == 4 << 20
    assert words[2] == "1"
    assert int(words[-2]) * 1024 < 320 << 20
    assert world.run("listed", "echo still").out == "still\n"


def test_a_box_that_takes_all_memory_loses_its_processes_and_lives(world: Guests, box: Path) -> None:
    done = world.run("listed", "tail /dev/zero", timeout=120)
    assert done.code in (124, 128 + 9, 1)
    assert world.run("listed", "echo lives").out == "lives\n"


def test_a_stop_leaves_nothing(world: Guests, box: Path) -> None:
    assert world.cloche("stop", "listed").code == 0
    assert world.left() == []
    shown = json.loads((box / "live.json").read_text())
    assert not support.is_alive(shown["init"])
