"""Attacks on the box's init: what it is told, what it is allowed, what its sessions inherit (S8)."""

from __future__ import annotations

import os
import resource
import signal
import struct

import pytest

from backends.keeper import init
from backends.kernel import syscalls
from tests.boundary import harness
from tests.boundary.harness import Box

FORGE = """
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 7
def call(name, *args):
    longs = [ctypes.addressof(arg) if isinstance(arg, ctypes.Array) else arg for arg in args]
    return libc.syscall(NUMBERS[name], *longs, *[0] * (6 - len(longs)))
for code in (-1, -2, -3, -4, -5, -60, 0, 1, -6):
    info = ctypes.create_string_buffer(128)
    struct.pack_into("=iiiiiI", info, 0, 15, 0, code, 0, 0, 0)
    sent = [call("rt_sigqueueinfo", 1, 15, info), call("rt_tgsigqueueinfo", 1, 1, 15, info)]
    pidfd = os.pidfd_open(1)
    sent.append(call("pidfd_send_signal", pidfd, 15, info, 0))
    os.close(pidfd)
    print(code, sent)
    time.sleep(0.02)
for number in (15, 9, 19, 1, 2, 3):
    os.kill(1, number)
"""
SEND = {
    "x86_64": {"rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "pidfd_send_signal": 424},
    "aarch64": {"rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "pidfd_send_signal": 424},
}


def test_no_forged_sender_ends_the_box(confined: Box) -> None:
    """rt_sigqueueinfo(2) lets a sender claim to be process 0, which is how init sees those outside."""
    numbers = SEND[syscalls.architecture()]
    result = confined.python(f"NUMBERS = {numbers!r}\n{FORGE}")
    assert "-1 [0, 0, 0]" in result.out, result
    assert confined.alive()
    assert confined.sh("echo still here").out == "still here\n"


@pytest.mark.parametrize(
    ("number", "code", "sender", "namespaced", "expected"),
    [
        (signal.SIGTERM, 0, 0, True, True),
        (signal.SIGTERM, 0, 7, True, False),
        (signal.SIGTERM, -1, 0, True, False),
        (signal.SIGTERM, -6, 0, True, False),
        (signal.SIGTERM, 0x80, 0, True, False),
        (signal.SIGCHLD, 0, 0, True, False),
        (signal.SIGTERM, 0, 7, False, True),
    ],
)
def test_only_the_kernels_word_about_a_sender_counts(
    number: int, code: int, sender: int, namespaced: bool, expected: bool
) -> None:
    data = struct.pack("=IiiI112x", number, 0, code, sender)
    assert init.ends(data, namespaced=namespaced) is expected


CHANGE = """
import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.argtypes = [ctypes.c_long] * 7
def attempt(name, call, *args):
    try:
        call(*args)
    except OSError as error:
        print(name, error.errno)
    else:
        print(name, "WENT")
def raw(number, *args):
    if libc.syscall(number, *args, *[0] * (6 - len(args))) < 0:
        raise OSError(ctypes.get_errno(), "")
high = 1 << 32
attempt("prlimit", resource.prlimit, 1, resource.RLIMIT_NOFILE, (5, 5))
attempt("cpu", resource.prlimit, 1, resource.RLIMIT_CPU, (1, 1))
attempt("nice", os.setpriority, os.PRIO_PROCESS, 1, 19)
attempt("nice user", os.setpriority, os.PRIO_USER, 0, 19)
attempt("nice user", os.setpriority, os.PRIO_USER, os.getuid(), 19)
attempt("idle", os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
attempt("param", os.sched_setparam, 1, os.sched_param(0))
attempt("cpus", os.sched_setaffinity, 1, [0])
attempt("prlimit, high bits", raw, N["prlimit64"], high | 1, 7, 0, 0)
attempt("nice, high bits", raw, N["setpriority"], high, high | 1, 19)
attempt("io", raw, N["ioprio_set"], 1, 1, 3 << 13)
attempt("io user", raw, N["ioprio_set"], 3, os.getuid(), 3 << 13)
attempt("attr", raw, N["sched_setattr"], 1, 0, 0)
child = os.fork()
if child == 0:  # what stays
    os.setpgid(0, 0)
    os.setpriority(os.PRIO_PROCESS, 0, 5)
    os.setpriority(os.PRIO_PGRP, 0, 6)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, (50, 50))
    resource.setrlimit(resource.RLIMIT_CPU, (9, 9))
    os._exit(0)
print("stays", os.waitpid(child, 0)[1])
"""


def test_nothing_in_the_box_changes_inits_limits_or_priority(confined: Box) -> None:
    names = ("prlimit64", "setpriority", "ioprio_set", "sched_setattr")
    numbers = {name: syscalls.number(name) for name in names}
    pid = confined.live.init.pid
    before = _state(pid)
    result = confined.python(f"N = {numbers!r}\n{CHANGE}")
    lines = result.out.splitlines()
    assert len(lines) == 14, result
    assert [line for line in lines if not line.endswith(" 1")] == ["stays 0"]
    assert _state(pid) == before
    assert confined.refused["syscall", "prlimit64 of the box's init"] >= 2
    assert confined.sh("ulimit -t; nice").out.split() == ["unlimited", "0"]


def _state(pid: int) -> tuple[object, ...]:
    limits = [resource.prlimit(pid, kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)]
    nice = os.getpriority(os.PRIO_PROCESS, pid)
    return (*limits, nice, os.sched_getscheduler(pid), os.sched_getaffinity(pid))


def test_a_box_that_tried_all_of_it_starts_further_sessions() -> None:
    with harness.box() as box:
        box.python(f"NUMBERS = {SEND[syscalls.architecture()]!r}\n{FORGE}")
        for _ in range(3):
            assert box.sh("echo here").out == "here\n"
