"""Execs and refusals that a process tries to keep out of the journal are in it, or counted as lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from backends.boxes.layout import BoxPaths
from backends.evidence import journal
from backends.keeper.budget import Losses
from backends.keeper.callers import Caller
from backends.keeper.client import KeeperClient
from backends.keeper.execs import Execs
from backends.keeper.inside import Inside, Untold
from backends.keeper.loop import Loop
from tests.keeper import boxes
from tests.keeper.boxes import run
from tests.keeper.test_gate import PYTHON, denials, execs

CALLS = (
    "import ctypes, os, sys, threading\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "libc.syscall.restype = ctypes.c_long\n"
    "def spawn(call):\n"
    "    pid = os.fork()\n"
    "    if not pid:\n"
    "        try: call()\n"
    "        except OSError as e: os._exit(100)\n"
    "        os._exit(101)\n"
    "    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
    "def execve(name, *more): return spawn(lambda: os.execv(name, [os.path.basename(name), *more]))\n"
    "def execveat(fd, name, flags=0):\n"
    "    argv = (ctypes.c_char_p * 2)(b'at', None)\n"
    "    return spawn(lambda: libc.syscall(322, fd, ctypes.c_char_p(name), argv, None, flags))\n"
)


def python(keeper: KeeperClient, code: str) -> list[str]:
    """What ``code`` printed inside, word by word."""
    ran = run(keeper, PYTHON, "-c", CALLS + code, limit=60)
    assert (ran.exit, ran.err) == (0, b"")
    return ran.out.decode().split()


def executed(box: BoxPaths, keeper: KeeperClient) -> list[tuple[str, str]]:
    """(path, first word) of every exec but that of the session's own."""
    keeper.call("stop")
    return [(one["path"], one["argv"][0] if one["argv"] else "") for one in execs(box)][1:]


# ---------------------------------------------------------------- names that mean what their caller is


@pytest.mark.boundary
def test_execs_through_links_of_procfs_are_journalled(box: BoxPaths, keeper: KeeperClient) -> None:
    printed = python(
        keeper,
        "fd = os.open('/usr/bin/true', os.O_RDONLY); os.set_inheritable(fd, True); os.chdir('/usr/bin')\n"
        "os.symlink('/proc/self/cwd/true', '/work/way')\n"
        "names = ['/proc/self/root/usr/bin/true', f'/proc/self/fd/{fd}', f'/dev/fd/{fd}',\n"
        "         '/proc/self/cwd/true', f'/proc/{os.getpid()}/root/usr/bin/true', '/work/way',\n"
        "         '/proc/thread-self/root/usr/bin/true', '../../proc/self/cwd/true']\n"
        "print(*[execve(name) for name in names], execveat(fd, b'', 0x1000))\n",
    )
    assert printed == ["0"] * 9
    found = [path for path, _ in executed(box, keeper)]
    assert len(found) == 9
    assert found[0] == "/proc/self/root/usr/bin/true"
    assert found[5] == "/work/way"
    assert found[-1] == "/usr/bin/true"
    assert boxes.records(box, "lost") == []


@pytest.mark.boundary
def test_an_exec_below_a_folder_with_a_path_too_long_is_journalled(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    printed = python(
        keeper,
        "for _ in range(60): os.mkdir('d' * 90); os.chdir('d' * 90)\n"
        "import shutil; shutil.copy('/usr/bin/true', 'tt'); os.symlink('tt', 'link')\n"
        "fd = os.open('.', os.O_RDONLY)\n"
        "print(execve('./tt'), execve('./link'), execveat(fd, b'tt'), execve('./none'))\n",
    )
    assert printed == ["0", "0", "0", "100"]
    found = executed(box, keeper)
    assert [word for _, word in found] == ["tt", "link", "at"]
    assert all(path.startswith("/work/dddd") and "/…/" in path for path, _ in found)


@pytest.mark.boundary
def test_writes_outside_are_counted_however_their_place_is_named(keeper: KeeperClient) -> None:
    python(
        keeper,
        "def write(name, **more):\n"
        "    try: os.open(name, os.O_WRONLY | os.O_CREAT, **more)\n"
        "    except OSError: return\n"
        "    raise SystemExit(9)\n"
        "fd = os.open('/usr', os.O_RDONLY)\n"
        "write('/proc/self/root/usr/by-root'); write(f'/proc/self/fd/{fd}/by-fd')\n"
        "write(f'/dev/fd/{fd}/by-dev'); write(f'/proc/{os.getpid()}/root/usr/by-number')\n"
        "os.symlink('/proc/self/root/usr/by-link', '/work/l'); write('/work/l')\n"
        "for _ in range(60): os.mkdir('d' * 90); os.chdir('d' * 90)\n"
        "write('../' * 61 + 'usr/from-below')\n"
        "open('fine', 'w')\n",
    )
    names = ("by-root", "by-fd", "by-dev", "by-number", "by-link", "from-below")
    assert denials(keeper) == {("fs-write", f"/usr/{name}"): 1 for name in names}


# ---------------------------------------------------------------- races


@pytest.mark.boundary
def test_every_exec_of_a_race_with_renames_is_journalled(box: BoxPaths, keeper: KeeperClient) -> None:
    printed = python(
        keeper,
        "import signal\n"
        "for one in 'abx': os.mkdir('/work/' + one)\n"
        "os.symlink('../a/../b/../../usr/bin/true', '/work/b/raced')\n"
        "def flip(one, two):\n"
        "    pid = os.fork()\n"
        "    if pid: return pid\n"
        "    while True: os.rename(one, two); os.rename(two, one)\n"
        "racers = [flip('/work/x', '/work/y'), flip('/work/a', '/work/c')]\n"
        "print(*[execve('/work/b/raced') for _ in range(200)])\n"
        "for pid in racers: os.kill(pid, signal.SIGKILL)\n",
    )
    ran = printed.count("0")
    assert ran > 10
    assert set(printed) <= {"0", "100"}
    recorded = sum(path == "/work/b/raced" for path, _ in executed(box, keeper))
    assert recorded >= ran


@pytest.mark.boundary
def test_a_name_that_is_exchanged_after_the_look_is_not_executed_unseen(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    printed = python(
        keeper,
        "import mmap, signal\n"
        "page = mmap.mmap(-1, 4096)\n"
        "good, bad = b'/usr/bin/true\\0', b'/usr/bin/nope\\0'\n"
        "flipper = os.fork()\n"
        "if not flipper:\n"
        "    while True: page[:14] = good; page[:14] = bad\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "argv = (ctypes.c_char_p * 2)(b'raced', None)\n"
        "def go():\n"
        "    libc.syscall(59, ctypes.c_void_p(at), argv, None)\n"
        "    raise OSError\n"
        "print(*[spawn(go) for _ in range(300)])\n"
        "os.kill(flipper, signal.SIGKILL)\n",
    )
    ran = printed.count("0")
    assert sum(word == "raced" for _, word in executed(box, keeper)) >= ran


# ---------------------------------------------------------------- memory that is closed to the keeper


@pytest.mark.boundary
def test_a_process_that_closed_its_memory_leaves_its_execs_and_refusals(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    python(
        keeper,
        "assert libc.prctl(4, 0, 0, 0, 0) == 0\n"
        "assert execve('/bin/sleep', '0.2') == 0\n"
        "for _ in range(5): assert execve('/bin/true') == 0\n"
        "try: open('/usr/planted', 'w')\n"
        "except OSError: pass\n",
    )
    found = executed(box, keeper)
    lost = {one["what"]: one["count"] for one in boxes.records(box, "lost")}
    assert any(path.endswith("/sleep") for path, _ in found)
    assert len(found) + lost.get("execs", 0) >= 6
    refused = [one for one in boxes.records(box, "denial") if one["object"] == "/usr/planted"]
    assert len(refused) + lost.get("opens", 0) >= 1


def test_an_exec_that_could_not_be_read_is_told_by_what_then_runs_or_lost() -> None:
    """Its parent may be init, as of a session's first process or of an orphan: nobody else tells of it."""
    told: list[tuple[str, dict[str, Any]]] = []
    loop = Loop(lambda where, error: pytest.fail(f"{where}: {error}"))

    def record(kind: str, data: Mapping[str, object]) -> None:
        told.append((kind, dict(data)))

    losses = Losses(record)
    found = Execs(loop, 1, record, losses, lambda path, status: False)
    child = subprocess.Popen(["/bin/sleep", "60"])
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    try:
        found.unread(Caller(child.pid, 1, 7, "sh", "sh"))
        found.unread(Caller(gone.pid, 2, 8, "sh", "sh"))
        loop.later(0.1, loop.stop)
        loop.run()
        losses.tick()
    finally:
        child.kill()
        child.wait()
    path = told[0][1]["path"]
    assert path.endswith(("/sleep", "/coreutils", "/busybox"))
    assert told == [
        (
            "exec",
            {"pid": child.pid, "parent": 1, "path": path, "argv": ("/bin/sleep", "60"), "comm": "sh"},
        ),
        ("lost", {"what": "execs", "count": 1}),
    ]
    assert found.inside_pids == {7: child.pid}


# ---------------------------------------------------------------- the walk


def test_the_first_program_of_a_session_that_is_gone_is_told_by_init() -> None:
    told: list[tuple[str, Mapping[str, Any]]] = []
    losses = Losses(lambda kind, data: told.append((kind, data)))
    loop = Loop(lambda where, error: pytest.fail(f"{where}: {error!r}"))
    found = Execs(loop, 1, lambda kind, data: told.append((kind, data)), losses, lambda _path, _status: False)
    with subprocess.Popen(["/bin/true"]) as gone:
        gone.wait()
    found.unread(Caller(gone.pid, 1, 8, "cloche-init", ""))
    loop.later(0.1, loop.stop)
    loop.run()
    found.ended(8, ("true", "--help"))
    found.close()
    losses.tick()
    row = {"pid": gone.pid, "parent": 1, "path": "true", "argv": ("true", "--help"), "comm": "cloche-init"}
    assert told == [("exec", row)]


@pytest.mark.boundary
def test_programs_that_end_at_once_are_each_journalled_and_none_is_lost(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    for _ in range(30):
        assert run(keeper, "true").exit == 0
    assert [argv for _, argv in [("", "true"), *executed(box, keeper)]] == ["true"] * 30
    assert [record.data for record in journal.read(box.journal) if record.kind == "lost"] == []


def test_the_walk_from_outside_stays_in_the_root_and_says_what_it_cannot_tell(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_bytes(b"x")
    (root / "bin" / "tool").chmod(0o755)
    (root / "bin" / "plain").write_bytes(b"x")
    (root / "abs").symlink_to("/bin/tool")
    (root / "up").symlink_to("../../../../bin/tool")
    (root / "loop").symlink_to("loop")
    (root / "self").symlink_to("/proc/self/exe")
    os.symlink("/proc", root / "proc")
    inside = Inside(os.open(root, os.O_PATH | os.O_DIRECTORY))
    base = os.open(root / "bin", os.O_PATH | os.O_DIRECTORY)
    try:
        for name in (b"/bin/tool", b"/abs", b"/up", b"/../../bin/./tool", b"tool", b"../abs", b"../../../up"):
            assert inside.program(name, base) == 0, name
        assert inside.program(b"/bin/none") == 2
        assert inside.program(b"/bin/tool/below") == 20
        assert inside.program(b"/bin/plain") == 13
        assert inside.program(b"/bin") == 13
        assert inside.program(b"/loop") is None
        assert inside.program(b"/" + b"bin/../" * 1200 + b"none") is None
        assert inside.program(b"", base) == 13
        assert inside.resolve(b"/abs") == os.fsencode(root / "bin" / "tool")
    finally:
        os.close(base)
        inside.close()
    live = Inside(os.open("/", os.O_PATH | os.O_DIRECTORY))
    try:
        with pytest.raises(Untold):
            live.open(b"/proc/self/exe")
        assert live.program(b"/dev/fd/0") is None
    finally:
        live.close()
