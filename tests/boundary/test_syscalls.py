"""Attacks by system call: every refused one is tried inside, and the ones that must stay are used (P3)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backends.kernel import syscalls
from backends.kernel.denied import DENIED
from tests.boundary import harness
from tests.boundary.harness import Box

ATTEMPTS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 7
libc.syscall.restype = ctypes.c_long
for number in map(int, sys.argv[1:]):
    result = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    print(number, "WENT" if result >= 0 else ctypes.get_errno())
"""


def test_every_call_of_the_table_is_refused_inside_and_counted() -> None:
    numbers = {row.name: syscalls.number(row.name) for row in DENIED}
    # reboot(0), vhangup() and their like must not be tried where they could go through.
    tried = {number: name for name, number in numbers.items() if number is not None}
    with harness.box() as box:
        result = box.python(ATTEMPTS, *map(str, tried))
        got = {tried[int(line.split()[0])]: line.split()[1] for line in result.out.splitlines()}
        assert got == {row.name: str(row.errno) for row in DENIED if numbers[row.name] is not None}
        for row in DENIED:
            if row.counted and numbers[row.name] is not None:
                assert box.refused["syscall", row.name] == 1


def test_new_namespaces_are_refused_by_every_way(confined: Box) -> None:
    result = confined.python(
        """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80, 0x10020000):
    print("WENT unshare %x" % flag if libc.unshare(flag) == 0 else ctypes.get_errno())
    if flag != 0x80:
        pid = libc.syscall(56 if os.uname().machine == "x86_64" else 220, flag | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0: os._exit(0)
        print("WENT clone %x" % flag if pid > 0 else ctypes.get_errno())
print(open("/proc/self/uid_map").read().split())
"""
    )
    lines = result.out.splitlines()
    assert set(lines[:-1]) == {"1"}, result.out
    assert lines[-1] in ("['1000', '1000', '1']", "['1000', '0', '1']")  # by root, by anybody else
    assert "cannot" in confined.sh("unshare -Ur id 2>&1 | sed s/failed/cannot/").out


INJECT = """
import ctypes, fcntl, os, termios
libc = ctypes.CDLL(None, use_errno=True)
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p]
def attempt(request):
    ctypes.set_errno(0)
    result = libc.ioctl(0, request, b"x")
    print("WENT" if result == 0 else ctypes.get_errno())
for bits in (0, 1 << 32, 1 << 63, 0xFFFFFFFF << 32):
    attempt(0x5412 | bits)
    attempt(0x541C | bits)
    attempt(0x5423 | bits)
print(os.isatty(0))
"""


def test_nothing_can_be_typed_into_a_terminal_that_the_box_did_not_open(confined: Box) -> None:
    """P3, on the session's own terminal: the worst case of what a shell would be given."""
    number, _, fds = confined.start([harness.PYTHON, "-c", INJECT], pty=(24, 80))
    os.close(fds[0])
    out = b""
    try:
        while chunk := os.read(fds[1], 4096):
            out += chunk
    except OSError:  # EIO: the last process has closed the terminal
        pass
    os.close(fds[1])
    confined.wait(number)
    assert out.decode().split() == ["1"] * 12 + ["True"]
    assert confined.refused["syscall", "ioctl TIOCSTI"] == 4
    assert confined.refused["syscall", "ioctl TIOCLINUX"] == 4


def test_the_workbenchs_terminal_is_not_in_the_box(confined: Box) -> None:
    master, slave = os.openpty()
    name = os.ttyname(slave)
    try:
        result = confined.sh(f"ls /dev/pts; echo x > {name}; echo x > /dev/tty")
        assert result.out == "ptmx\n"
        assert f"{name}: No such file" in result.err or f"{name}: Permission denied" in result.err
    finally:
        os.close(master)
        os.close(slave)


def test_foreign_call_tables_are_closed(confined: Box) -> None:
    if os.uname().machine != "x86_64":
        return
    result = confined.python(
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(0x40000000 | 39), ctypes.get_errno())
"""
    )
    assert result.out.split() == ["-1", "38"]


def test_32_bit_calls_end_the_process(confined: Box, tmp_path: Path) -> None:
    if os.uname().machine != "x86_64":
        return
    code = bytes.fromhex("b814000000cd80c3")  # mov eax, 20 (getpid); int 0x80; ret
    result = confined.python(
        f"""
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write({code!r})
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
print("WENT")
"""
    )
    assert (result.exit, result.out) == (-31, "")  # SIGSYS


@pytest.mark.parametrize("debug", [False, True])
def test_ptrace_works_within_the_box_only_with_debug(debug: bool) -> None:
    with harness.box(harness.policy(debug=debug)) as box:
        result = box.python(
            """
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    time.sleep(30); os._exit(0)
print(libc.ptrace(16, pid, 0, 0), ctypes.get_errno())
os.kill(pid, 9)
"""
        )
        assert result.out.split() == (["0", "0"] if debug else ["-1", "1"])


def test_personality_serves_setarch(confined: Box) -> None:
    result = confined.sh("setarch -R echo fine; setarch --uname-2.6 uname -r")
    assert "fine" in result.out
    assert "Operation not permitted" in result.err


def test_everything_else_that_programs_call_stays(confined: Box) -> None:
    result = confined.python(
        """
import fcntl, os, select, signal, threading, time
t = threading.Thread(target=lambda: time.sleep(0.01)); t.start(); t.join()
ep = select.epoll(); ep.close()
os.memfd_create("x"); os.eventfd(0) if hasattr(os, "eventfd") else None
os.pidfd_open(os.getpid())
os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1)
fcntl.flock(open("/work/lock", "w"), fcntl.LOCK_EX)
fcntl.lockf(open("/work/lock", "w"), fcntl.LOCK_EX)
os.posix_fallocate(os.open("/work/big", os.O_CREAT | os.O_RDWR), 0, 1 << 20)
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.mkfifo("/work/fifo"); os.link("/work/lock", "/work/hard"); os.symlink("lock", "/work/soft")
os.setxattr("/work/lock", "user.key", b"v"); os.utime("/work/lock")
os.copy_file_range(os.open("/work/big", os.O_RDONLY), os.open("/work/copy", os.O_CREAT | os.O_WRONLY), 100)
open("/proc/self/oom_score_adj", "w").write("500")
print(open("/proc/self/oom_score_adj").read().strip())
"""
    )
    assert result.out == "500\n", result.err
