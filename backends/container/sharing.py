"""A container's share of what the kernel counts for a whole user: Podman sets none, so we do."""

from __future__ import annotations

import os

from backends.kernel import shares
from backends.kernel.shares import Share
from backends.kernel.syscalls import libc

_CLONE_NEWUSER, _CLONE_NEWIPC = 0x10000000, 0x08000000


def hold(first: int, wanted: tuple[Share, ...]) -> tuple[str, ...]:
    """Set ``wanted`` in the user and IPC namespace of process ``first``; the paths of what cannot be set.

    All of them where the namespaces cannot be entered.
    """
    opened = [
        (os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), flag)
        for name, flag in (("user", _CLONE_NEWUSER), ("ipc", _CLONE_NEWIPC))
    ]
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            if all(libc.setns(fd, flag) == 0 for fd, flag in opened):
                os.setresgid(0, 0, 0)
                os.setresuid(0, 0, 0)  # IPC settings belong to the namespace's root (Linux 6.9)
                os.write(writer, "\n".join(("entered", *shares.take("/proc", wanted))).encode())
        finally:
            os._exit(0)
    os.close(writer)
    for fd, _ in opened:
        os.close(fd)
    said = os.read(reader, 65536).decode()
    os.close(reader)
    os.waitpid(child, 0)
    words = said.split("\n")
    return tuple(words[1:]) if words[0] == "entered" else tuple(one.path for one in wanted)
