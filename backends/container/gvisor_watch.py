"""Processes on the host beside a box under gVisor: one watches its end, one stands for what is left.

gVisor's own processes are none of the box's: which of them runs for what cannot be told from outside.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import NoReturn

from backends.container.plan import UID
from backends.kernel import title
from backends.kernel.syscalls import close_from

LOOK = 500  # milliseconds between two looks at the memory
OVER = "over"  # file of the launch's folder: why the box was ended
_MEMORY = "/memfd:runsc-memory"  # the file that holds all memory of the box's processes
_SLOWEST = 10.0  # seconds between two looks for what is left
_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def watch(death: int, pid: int, memory: int | None, folder: str) -> int:
    """The pid of a process, the caller's parent's child, that ends the sandbox ``pid`` when ``death`` closes.

    The steward does so too; this one is for when it was killed before. It also ends the box when the memory
    of all its processes goes beyond ``memory`` bytes, and writes into ``folder`` that it did.
    """
    first = os.pidfd_open(pid)
    told, tell = os.pipe2(os.O_CLOEXEC)
    between = os.fork()
    if between == 0:
        try:
            child = os.fork()
            if child == 0:
                _watching(death, first, pid, memory, folder)
            os.write(tell, b"%d" % child)
        finally:
            os._exit(0)
    os.close(first)
    os.close(tell)
    os.waitpid(between, 0)
    with os.fdopen(told, "rb") as file:
        return int(file.read())


def _watching(death: int, first: int, pid: int, memory: int | None, folder: str) -> NoReturn:
    try:
        _alone((death, first), "cloche watch of a gVisor box")
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(1, select.POLLIN)
        used = _memory_of(pid) if memory is not None else ""
        while not (ready := {fd for fd, _ in poll.poll(LOOK if used else None)}):
            held = os.stat(used).st_blocks * 512
            if memory is not None and held > memory:
                with open(os.path.join(folder, OVER), "w", encoding="ascii") as file:
                    file.write(f"its processes hold {held >> 20} MiB, the limit is {memory >> 20} MiB")
                break
        if 1 not in ready:
            signal.pidfd_send_signal(1, signal.SIGKILL)
    finally:
        os._exit(0)


def _alone(fds: tuple[int, ...], words: str) -> None:
    """This process in a session of its own, with ``fds`` as 0, 1, ... and nothing else."""
    os.setsid()
    high = [os.dup(fd) for fd in fds]
    for target, fd in enumerate(high):
        os.dup2(fd, target)
    close_from(len(fds))
    title.replace(words.replace(" ", "-")[:15], words)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _memory_of(pid: int) -> str:
    """The path of the file that holds the sandbox's memory, "" where it cannot be told."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{name}").startswith(_MEMORY):
                    return f"/proc/{pid}/fd/{name}"
    return ""


def stand_for_the_rest(words: list[str]) -> int:
    """The pid of a child that lives while ``words``, a ``runsc ps``, names a process of the box's user."""
    pid = os.fork()
    if pid == 0:
        try:
            _alone((), "gvisor: what ended commands left running")
            pause = 1.0
            while processes(words):
                time.sleep(pause)
                pause = min(pause * 1.5, _SLOWEST)
        finally:
            os._exit(0)
    return pid


def processes(words: list[str]) -> int:
    """How many processes of the box's user there are inside; 0 where the sandbox does not answer."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate((null, writer, null))]
    pid = os.posix_spawn(words[0], words, _ENV, file_actions=actions, setsigmask=())
    os.close(writer)
    os.close(null)
    with os.fdopen(reader, "rb") as file:
        text = file.read(1 << 20)
    os.waitpid(pid, 0)
    return counted(text)


def counted(table: bytes) -> int:
    """The rows of ``runsc ps`` (UID PID PPID C TTY STIME TIME CMD) that are the box's user's."""
    rows = [line.split(None, 2) for line in table.splitlines()[1:]]
    return sum(row[:1] == [b"%d" % UID] for row in rows)
