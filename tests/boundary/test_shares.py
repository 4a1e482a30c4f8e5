"""Attacks on what the kernel counts for a whole user or a whole host: one box gets a share of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import socket
from collections.abc import Iterator

import pytest

from backends.kernel import mounts, syscalls
from tests.boundary import harness
from tests.boundary.harness import Box

MIB = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)

INOTIFY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
held = 0
while libc.inotify_init1(0o2000000) >= 0:
    held += 1
print(held, ctypes.get_errno(), flush=True)
input()
"""


@contextlib.contextmanager
def holding(box: Box, script: str) -> Iterator[str]:
    """Runs ``script`` inside until it has said a line, and lets it hold what it took meanwhile."""
    stdin, keep = os.pipe2(os.O_CLOEXEC)
    answer, stdout = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    for fd in (stdin, stdout):
        if box.spec.payload_uid != os.geteuid():
            os.fchown(fd, box.spec.payload_uid, box.spec.payload_gid)
    number, _, got = box.start([harness.PYTHON, "-I", "-S", "-c", script], fds=(stdin, stdout, null))
    for fd in (stdin, stdout, null, *got):
        os.close(fd)
    try:
        with open(answer) as told:
            yield told.readline().strip()
    finally:
        os.close(keep)
        box.wait(number)


def test_a_box_takes_a_quarter_of_the_persons_inotify_instances(confined: Box) -> None:
    with open("/proc/sys/fs/inotify/max_user_instances") as file:
        limit = int(file.read())
    with holding(confined, INOTIFY) as told:
        held, code = map(int, told.split())
        assert (held, code) == (max(16, limit // 4), 24)
        fd = libc.inotify_init1(0o2000000)
        assert fd >= 0
        os.close(fd)


def test_everyday_watchers_find_enough(confined: Box) -> None:
    script = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0)
for n in range(4000):
    os.makedirs(f"/tmp/watched/{n}", exist_ok=True)
    assert libc.inotify_add_watch(fd, f"/tmp/watched/{n}".encode(), 0x100) > 0, ctypes.get_errno()
print("watched")
"""
    assert confined.python(script).out == "watched\n"
    confined.sh("rm -r /tmp/watched")


def test_the_settings_cannot_be_changed_inside(confined: Box) -> None:
    for name in ("user/max_inotify_instances", "kernel/shmall", "kernel/sem", "user/max_user_namespaces"):
        assert confined.sh(f"echo 999999 > /proc/sys/{name}").exit != 0, name


SHARED = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
size, segments = 16 << 20, 0
while True:
    ident = libc.shmget(0, ctypes.c_size_t(size), 0o1600)
    if ident < 0:
        break
    address = libc.shmat(ident, None, 0)
    ctypes.memset(address, 1, size)
    libc.shmdt(ctypes.c_void_p(address))
    segments += 1
print(segments, ctypes.get_errno())
print(libc.shmget(0, ctypes.c_size_t(65 << 20), 0o1600), ctypes.get_errno())
queues = 0
while libc.msgget(0, 0o1600) >= 0:
    queues += 1
print(queues, ctypes.get_errno())
sets = 0
while libc.semget(0, 10000, 0o1600) >= 0:
    sets += 1
print(sets, ctypes.get_errno())
"""


def test_system_v_memory_queues_and_semaphores_are_bounded() -> None:
    with harness.box(harness.policy(shm=64 * MIB)) as box:
        row = next(row for row in box.live.enforcement if row.key == "shares")
        if row.missing:
            pytest.skip(row.missing)
        lines = [tuple(map(int, line.split())) for line in box.python(SHARED).out.splitlines()]
        assert lines == [(4, 28), (-1, 22), (64, 28), (3, 28)]


def test_terminals_of_one_box_are_bounded_and_others_still_get_theirs(confined: Box) -> None:
    script = """
import os
held = 0
try:
    while True:
        os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        held += 1
except OSError as error:
    print(held, error.errno, flush=True)
input()
"""
    with holding(confined, script) as told, harness.box() as other:
        assert tuple(map(int, told.split())) == (mounts.TERMINALS, 28)
        assert other.python("import os; print(len(os.openpty()))").out == "2\n"


FLIGHT = """
import array, os, resource, socket
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
null = os.open("/dev/null", os.O_RDONLY)
sent, pairs = 0, []
try:
    while True:
        pairs.append(socket.socketpair())
        for _ in range(8):
            block = array.array("i", [null] * 250)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, block)]
            pairs[-1][0].sendmsg([b"x"], rights, socket.MSG_DONTWAIT)
            sent += 250
except OSError as error:
    print(sent, hard, error.errno, flush=True)
input()
"""


def test_descriptors_in_flight_leave_room_for_what_a_person_sends() -> None:
    """Counted for the user, held against the sender's limit: who has the hard limit outside can send."""
    with harness.box() as box, holding(box, FLIGHT) as told:
        sent, hard, _ = map(int, told.split())
        ours = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert hard <= ours[1] // 2
        assert sent <= hard + 250
        left, right = socket.socketpair()
        resource.setrlimit(resource.RLIMIT_NOFILE, (ours[1], ours[1]))
        try:
            socket.send_fds(left, [b"x"], [0])
            assert len(socket.recv_fds(right, 1, 1)[1]) == 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, ours)
            left.close()
            right.close()


def test_queued_signals_and_message_queues_are_a_share_of_the_users(confined: Box) -> None:
    for kind, letter in ((resource.RLIMIT_SIGPENDING, "i"), (resource.RLIMIT_MSGQUEUE, "q")):
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            assert confined.sh(f"ulimit -H{letter}").out.strip() == str(hard // 4)


def test_the_hosts_pressure_takes_no_trigger(confined: Box) -> None:
    script = """
import os
for name in sorted(os.listdir("/proc/pressure")) if os.path.isdir("/proc/pressure") else ():
    try:
        os.open(f"/proc/pressure/{name}", os.O_RDWR)
    except OSError as error:
        if error.errno not in (1, 13, 30): print(name, error)
    else:
        print(name, "WENT")
"""
    assert confined.python(script).out == ""


def test_no_asynchronous_request_of_the_hosts_is_taken(confined: Box) -> None:
    number = syscalls.number("io_setup")
    script = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 7
context = ctypes.c_ulong(0)
print(libc.syscall({number}, 2000, ctypes.addressof(context), 0, 0, 0, 0), ctypes.get_errno())
"""
    assert confined.python(script).out == "-1 38\n"
