"""Namespaces: leave the host's, say who is who in a user namespace, bring up loopback.

Source: namespaces(7), user_namespaces(7), netdevice(7).
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

from backends.kernel.syscalls import syscall

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

IFF_UP = 0x1
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
_IFREQ = struct.Struct("=16sh22x")  # struct ifreq with ifr_flags, 40 bytes

Extent = tuple[int, int, int]  # first id inside, first id outside, length


def unshare(flags: int) -> None:
    """unshare(2). With ``CLONE_NEWPID`` only children enter the new process namespace."""
    syscall("unshare", flags)


def map_ids(pid: int | None, uids: tuple[Extent, ...], gids: tuple[Extent, ...], *, setgroups: bool) -> None:
    """Writes the id maps of the user namespace of ``pid`` (``None``: our own), once and for all.

    More than one extent, or another id than the writer's own, takes CAP_SETUID and CAP_SETGID in the parent
    namespace: a process that stayed there must write. ``setgroups`` must be ``False`` for an unprivileged
    writer, who otherwise may not write ``gid_map``.
    """
    process = "self" if pid is None else str(pid)
    if not setgroups:
        _deny_setgroups(process)
    _write(f"/proc/{process}/uid_map", _extents(uids))
    _write(f"/proc/{process}/gid_map", _extents(gids))


def map_own(inside: int, uid: int, gid: int) -> None:
    """Writes the id maps of our own new user namespace: our ``uid`` and ``gid``, as the namespace above names
    them, are ``inside`` in here, and nobody else is anybody."""
    map_ids(None, ((inside, uid, 1),), ((inside, gid, 1),), setgroups=False)


def mapping(uids: tuple[Extent, ...], gids: tuple[Extent, ...]) -> int:
    """A descriptor of a new user namespace with these maps, in which no process lives (idmapped mounts)."""
    made, done = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            unshare(CLONE_NEWUSER)
            os.write(made[1], b"1")
            os.close(done[1])
            os.read(done[0], 1)
        finally:
            os._exit(0)
    os.close(made[1])
    os.close(done[0])
    try:
        if not os.read(made[0], 1):
            raise OSError(errno.EPERM, "no user namespace could be made for a mapping")
        map_ids(pid, uids, gids, setgroups=True)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(done[1])
        os.close(made[0])
        os.waitpid(pid, 0)


def _deny_setgroups(process: str) -> None:
    path = f"/proc/{process}/setgroups"
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        current = os.read(fd, 16).strip()
    finally:
        os.close(fd)
    if current != b"deny":  # inherited from the namespace above, where it is so; then it cannot be written
        _write(path, "deny")


def _extents(extents: tuple[Extent, ...]) -> str:
    return "".join(f"{inside} {outside} {length}\n" for inside, outside, length in extents)


def _write(path: str, text: str) -> None:
    # One unbuffered write: the kernel takes a map whole, and a buffered file would hide its error.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def loopback_up() -> None:
    """Sets ``lo`` of this network namespace up, which gives it 127.0.0.1 and ::1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        flags = interface_flags(any_socket, "lo")
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, _IFREQ.pack(b"lo", flags | IFF_UP))


def interface_flags(any_socket: socket.socket, name: str) -> int:
    """The flags of an interface (netdevice(7)); ``OSError`` ENODEV when there is none of that name."""
    answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, _IFREQ.pack(name.encode(), 0))
    return int(_IFREQ.unpack(answer)[1])


def inode(pid: int | str, kind: str) -> int:
    """The identity of a namespace of ``pid``: equal numbers, same namespace. ``OSError`` when it is gone."""
    return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
