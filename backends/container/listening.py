"""A listener inside a container's network namespace, made from outside and served by the keeper.

Nothing is added to the image, no route is made and no port of the host's loopback is opened: the namespace
stays empty but for this socket, whose descriptor is all that crosses. Source: network_namespaces(7), unix(7).
"""

from __future__ import annotations

import os
import socket

from backends.kernel.syscalls import libc

_CLONE_NEWNET = 0x40000000
_BACKLOG = 128


def hand_over(first: int, address: str, port: int, to: socket.socket) -> None:
    """Listen on ``address``:``port`` in the network namespace of process ``first`` and send the descriptor.

    By a child, since whoever entered a namespace of a container may not come back. ``OSError``: it failed.
    """
    namespace = os.open(f"/proc/{first}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            if libc.setns(namespace, _CLONE_NEWNET) == 0:
                listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
                listener.bind((address, port))
                listener.listen(_BACKLOG)
                socket.send_fds(to, [b"l"], [listener.fileno()])
                os._exit(0)
        finally:
            os._exit(1)
    os.close(namespace)
    _, status = os.waitpid(child, 0)
    if status:
        raise OSError("no listener could be made in the container's network namespace")


def taken(sock: socket.socket) -> socket.socket:
    """The listener that :func:`hand_over` sent; ``OSError`` where none came."""
    data, fds, _, _ = socket.recv_fds(sock, 1, 1)
    if data != b"l" or len(fds) != 1:
        raise OSError("the steward sent no listener")
    os.set_inheritable(fds[0], False)
    return socket.socket(fileno=fds[0])
