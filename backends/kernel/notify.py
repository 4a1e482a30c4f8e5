"""Seccomp notifications: receive, answer, and read what a caller's pointers mean.

Source: seccomp_unotify(2). Memory of a caller is hostile and changes under the reader: what is read there is
evidence for a tally and never the ground of a decision. Every read is bounded, and trusted only while the
notification is still valid (a pid alone may have been reused).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct

from backends.kernel.syscalls import syscall
from backends.record import NamedTuple

IOCTL_NOTIF_RECV = 0xC0502100  # SECCOMP_IOCTL_NOTIF_RECV
IOCTL_NOTIF_SEND = 0xC0182101
IOCTL_NOTIF_ID_VALID = 0x40082102
IOCTL_NOTIF_SET_FLAGS = 0x40082104  # Linux 6.6

USER_NOTIF_FLAG_CONTINUE = 1
USER_NOTIF_FD_SYNC_WAKE_UP = 1

_NOTIF = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif, 80 bytes
_IOVEC = struct.Struct("=QQ")  # struct iovec of 64 bits
_RESP = struct.Struct("=QqiI")  # struct seccomp_notif_resp, 24 bytes

PATH_LIMIT = 4096  # PATH_MAX
ARGV_LIMIT = 64  # strings of one argv that are read
ARGV_BYTES = 8192
SOCKADDR_LIMIT = 128  # sizeof(struct sockaddr_storage)
_PAGE = 4096


class Notification(NamedTuple):
    """One call that waits for an answer. ``pid`` is the calling thread's id as the host sees it."""

    id: int
    pid: int
    nr: int
    args: tuple[int, int, int, int, int, int]


def prepare(fd: int) -> None:
    """Makes a listener ready for an event loop: not blocking, and its answers wake callers on this CPU."""
    os.set_blocking(fd, False)
    try:
        fcntl.ioctl(fd, IOCTL_NOTIF_SET_FLAGS, USER_NOTIF_FD_SYNC_WAKE_UP)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTTY):  # before Linux 6.6: slower, otherwise the same
            raise


def receive(fd: int) -> Notification | None:
    """The next waiting call, or ``None`` when its caller died meanwhile or none waits.

    Poll the descriptor before: readable (``POLLIN``) when a call waits, ``POLLHUP`` when the last process
    under the filter has ended. Blocks otherwise, whatever ``O_NONBLOCK`` says.
    """
    buffer = bytearray(_NOTIF.size)  # zeroed, or EINVAL
    try:
        fcntl.ioctl(fd, IOCTL_NOTIF_RECV, buffer, True)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
            return None
        raise
    ident, pid, _flags, nr, _arch, _ip, a, b, c, d, e, f = _NOTIF.unpack(buffer)
    return Notification(ident, pid, nr, (a, b, c, d, e, f))


def refuse(fd: int, ident: int, code: int = errno.EPERM) -> bool:
    """Answers with an errno; ``False`` when the caller no longer waits."""
    return _send(fd, _RESP.pack(ident, 0, -code, 0))


def proceed(fd: int, ident: int) -> bool:
    """Lets the call go on in the kernel; ``False`` when the caller no longer waits."""
    return _send(fd, _RESP.pack(ident, 0, 0, USER_NOTIF_FLAG_CONTINUE))


def _send(fd: int, response: bytes) -> bool:
    try:
        fcntl.ioctl(fd, IOCTL_NOTIF_SEND, response)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINPROGRESS):
            return False
        raise
    return True


def valid(fd: int, ident: int) -> bool:
    """Whether the caller still waits, so that what was read of its pid just before was read of the caller."""
    try:
        fcntl.ioctl(fd, IOCTL_NOTIF_ID_VALID, struct.pack("=Q", ident))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


class Memory:
    """One caller's memory, opened by pid; check :func:`valid` after opening, before using what was read.

    A caller that made itself undumpable (prctl(2)), or whose program may not be read, has a ``mem`` that
    belongs to root. Whoever owns its user namespace may read it all the same, by process_vm_readv(2).
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self.fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            self.mapped = True
        except PermissionError:
            # Held as the process's identity: its pid means another one as soon as this leads nowhere.
            self.fd = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.mapped = False
            try:
                self._copy(0, 1)
            except BaseException:
                os.close(self.fd)
                raise

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, address: int, size: int) -> bytes:
        """Up to ``size`` bytes; shorter at the end of a mapping, empty where nothing is mapped."""
        if address <= 0 or address >= 1 << 63:
            return b""
        try:
            return os.pread(self.fd, size, address) if self.mapped else self._copy(address, size)
        except OSError as error:
            if error.errno in (errno.EIO, errno.EFAULT, errno.ESRCH, errno.ENOENT):
                return b""
            raise

    def _copy(self, address: int, size: int) -> bytes:
        """``OSError``: EPERM where this process, too, is closed to us; empty where nothing is mapped."""
        buffer = bytearray(size)
        held = (ctypes.c_char * size).from_buffer(buffer)
        local = _IOVEC.pack(ctypes.addressof(held), size)
        try:
            got = syscall("process_vm_readv", self.pid, local, 1, _IOVEC.pack(address, size), 1, 0)
        except OSError as error:
            if error.errno != errno.EFAULT:
                raise
            got = 0
        os.stat("stat", dir_fd=self.fd)  # ESRCH: what was copied may be of another process
        return bytes(buffer[:got])

    def string(self, address: int, limit: int = PATH_LIMIT) -> bytes:
        """The NUL-terminated string there, cut at ``limit``; read by pages, as the next may be unmapped."""
        out = bytearray()
        while len(out) < limit:
            size = min(_PAGE - (address + len(out)) % _PAGE, limit - len(out))
            chunk = self.read(address + len(out), size)
            end = chunk.find(b"\0")
            if end >= 0:
                return bytes(out + chunk[:end])
            out += chunk
            if len(chunk) < size:
                break
        return bytes(out)

    def strings(self, address: int, limit: int = ARGV_LIMIT, total: int = ARGV_BYTES) -> tuple[bytes, ...]:
        """The strings of a NULL-terminated array of pointers (an argv), cut at ``limit`` and ``total``."""
        out: list[bytes] = []
        left = total
        while len(out) < limit and left > 0:
            word = self.read(address + 8 * len(out), 8)
            pointer = int.from_bytes(word, "little") if len(word) == 8 else 0
            if not pointer:
                break
            text = self.string(pointer, min(left, PATH_LIMIT))
            left -= len(text) + 1
            out.append(text)
        return tuple(out)


class Address(NamedTuple):
    """A socket address: ``text`` is a path (``@name`` when abstract) or a numeric host."""

    family: int
    text: str
    port: int


def parse_address(data: bytes) -> Address | None:
    """The address in the bytes of a ``struct sockaddr``; ``None`` when they are none that Cloche names."""
    if len(data) < 2:
        return None
    family = int.from_bytes(data[:2], "little")
    if family == socket.AF_INET and len(data) >= 8:
        return Address(family, socket.inet_ntop(socket.AF_INET, data[4:8]), int.from_bytes(data[2:4], "big"))
    if family == socket.AF_INET6 and len(data) >= 24:
        return Address(
            family, socket.inet_ntop(socket.AF_INET6, data[8:24]), int.from_bytes(data[2:4], "big")
        )
    if family == socket.AF_UNIX:
        path = data[2:110]
        name = b"@" + path[1:] if path[:1] == b"\0" else path.split(b"\0")[0]
        return Address(family, os.fsdecode(name), 0)
    return Address(family, "", 0)


def read_address(memory: Memory, pointer: int, size: int) -> Address | None:
    """The address that a connect(2) or sendto(2) names."""
    return parse_address(memory.read(pointer, max(0, min(size & 0xFFFFFFFF, SOCKADDR_LIMIT))))
