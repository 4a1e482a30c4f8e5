"""Who is at the other end of a unix socket: same user, same user namespace, same pid namespace.

SO_PEERCRED alone is not enough: a process in a box that maps to the same user shows the same uid (security
rule S10). The peer is held by a pidfd while its namespaces are compared, so that its pid cannot be reused
under the comparison.
"""

from __future__ import annotations

import os
import select
import socket
import struct

from backends.record import NamedTuple

SO_PEERPIDFD = 77  # Linux 6.5, include/uapi/asm-generic/socket.h; not in Python's socket module
_UCRED = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
NAMESPACES = ("user", "pid")


class Peer(NamedTuple):
    """A peer that was let in."""

    pid: int
    uid: int


class Foreign(Exception):
    """The peer is not one of ours; the text says in what."""


def identify(sock: socket.socket) -> Peer:
    """The peer of a connected socket. Raises Foreign unless it runs as our user in our namespaces."""
    pid, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    if uid != os.geteuid():
        raise Foreign(f"it runs as user {uid}")
    if pid <= 0:
        raise Foreign("it runs in a pid namespace that is not below ours")
    try:
        pidfd = _pidfd(sock, pid)
    except (ProcessLookupError, OSError) as error:
        raise Foreign(f"process {pid} is gone: {error.strerror}") from error
    try:
        for name in NAMESPACES:
            if _namespace(str(pid), name) != _namespace("self", name):
                raise Foreign(f"process {pid} is in another {name} namespace")
        poller = select.poll()  # not select(2): the descriptor may have a high number
        poller.register(pidfd, select.POLLIN)
        if poller.poll(0):
            raise Foreign(f"process {pid} ended while it was looked at")
    finally:
        os.close(pidfd)
    return Peer(pid, uid)


def pid(sock: socket.socket) -> int:
    """Who connected to a socket, or who last called listen(2) on what it is connected to."""
    found: int = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[0]
    return found


def _pidfd(sock: socket.socket, pid: int) -> int:
    try:
        return struct.unpack("i", sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4))[0]  # type: ignore[no-any-return]
    except OSError:  # a kernel before 6.5: the pid may have been reused before this line, not after it
        return os.pidfd_open(pid)


def _namespace(process: str, name: str) -> tuple[int, int]:
    try:
        found = os.stat(f"/proc/{process}/ns/{name}")
    except OSError as error:
        raise Foreign(
            f"the {name} namespace of process {process} cannot be read: {error.strerror}"
        ) from error
    return found.st_dev, found.st_ino
