"""What a launched process keeps of its caller's descriptors: the way to the keeper, and nothing else."""

from __future__ import annotations

import os
import socket

from backends.kernel.syscalls import close_from

_CONTROL, _DEATH = 3, 4


def keep_only(control: socket.socket, death: int) -> tuple[socket.socket, int]:
    """Closes all descriptors but the control socket and the death pipe, and gives 0 to 2 to /dev/null.

    Returns both under their new numbers; the objects given here are spent.
    """
    high = []
    for fd in (os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), control.detach(), death):
        while fd <= _DEATH:
            fd = os.dup(fd)
        high.append(fd)
    for target in (0, 1, 2):
        os.dup2(high[0], target)
    os.dup2(high[1], _CONTROL, inheritable=False)
    os.dup2(high[2], _DEATH, inheritable=False)
    close_from(_DEATH + 1)
    return socket.socket(fileno=_CONTROL), _DEATH
