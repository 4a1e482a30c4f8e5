"""The name and arguments under which a process shows itself, and the environment that it was started with.

Source: proc_pid_cmdline(5), proc_pid_environ(5): the kernel shows the stack area that execve filled, whatever
the program made of it since. A fork shows its parent's, so a long-lived child writes its own.
"""

from __future__ import annotations

import ctypes
import os

from backends.kernel.syscalls import prctl

PR_SET_NAME = 15
_ARG_START, _ARG_END, _ENV_START, _ENV_END = (
    45,
    46,
    47,
    48,
)  # proc_pid_stat(5) fields 48 to 51, after the name

_arguments: tuple[int, int] | None = None  # where ours lie, and our parent's, once they were looked up


def replace(name: str, arguments: str) -> None:
    """Shows ``name`` (15 bytes) and ``arguments`` from now on, and wipes the environment area.

    A process that was forked from one that did so finds its areas where its parent did, the one of the
    environment wiped.
    """
    global _arguments
    prctl(PR_SET_NAME, name.encode()[:15])
    if _arguments is None:
        fields = _fields()
        _fill(int(fields[_ENV_START]), int(fields[_ENV_END]), b"")
        _arguments = int(fields[_ARG_START]), int(fields[_ARG_END])
    _fill(*_arguments, arguments.encode("utf-8", "surrogateescape"))


def _fields() -> list[bytes]:
    fd = os.open("/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096).rpartition(b")")[2].split()
    finally:
        os.close(fd)


def _fill(start: int, end: int, data: bytes) -> None:
    """Overwrites our own memory between two addresses; zero where the kernel does not tell them."""
    size = end - start
    if start <= 0 or size <= 0:
        return
    ctypes.memset(start, 0, size)
    ctypes.memmove(start, data[: size - 1], min(len(data), size - 1))
