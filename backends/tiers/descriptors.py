"""What a launched process keeps of its caller's descriptors: the way to the keeper, and nothing else."""

from __future__ import annotations

import _socket
import os
import socket

from backends.kernel.syscalls import close_from

_FIRST = 3


def keep_only(control: socket.socket, *others: int) -> tuple[_socket.socket, list[int]]:
    """Closes all descriptors but the control socket and ``others``, and gives 0 to 2 to /dev/null.

    Returns them under their new numbers; the objects given here are spent. The socket is one of the plain
    class: whoever calls this is to become an init, and what it does not run costs its memory nothing.
    """
    beyond = _FIRST + 1 + len(others)
    high = []
    for fd in (os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), control.detach(), *others):
        while fd < beyond:
            fd = os.dup(fd)
        high.append(fd)
    for target in (0, 1, 2):
        os.dup2(high[0], target)
    for target, fd in enumerate(high[1:], _FIRST):
        os.dup2(fd, target, inheritable=False)
    close_from(beyond)
    return _socket.socket(fileno=_FIRST), list(range(_FIRST + 1, beyond))
