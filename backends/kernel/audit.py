"""The kernel's audit records, read by root: what Landlock says it refused, and what was lost on the way.

Records are multicast to whoever reads them, beside the audit daemon if there is one. They come only while the
host's audit is on, which is for its administrator to say and is never changed here. One event is several
records of one serial number. Sources: ``include/uapi/linux/audit.h``, ``security/landlock/audit.c``,
``Documentation/admin-guide/LSM/landlock.rst``, capabilities(7).
"""

from __future__ import annotations

import os
import re
import socket
import struct

from backends.kernel import netlink
from backends.record import NamedTuple

NETLINK_AUDIT = 9
GROUP_READLOG = 1
GET = 1000
SYSCALL, END_OF_EVENT, ACCESS, DOMAIN = 1300, 1320, 1423, 1424
KINDS = (SYSCALL, END_OF_EVENT, ACCESS, DOMAIN)
SINCE_ABI = 7  # of Landlock

# Messages of other namespaces are not heard: PROC_PID_INIT_INO, PROC_USER_INIT_INO (linux/proc_ns.h).
FIRST = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD}
_STATUS = struct.Struct("=8I")  # struct audit_status: mask, enabled, failure, pid, rate, backlog limit, lost
_BUFFER = 1 << 20
_PATIENCE = 0.5  # seconds for an answer
_LONGEST = 1 << 14  # MAX_AUDIT_MESSAGE_LENGTH is 8970
_STAMP = re.compile(rb"audit\((\d{1,12})\.(\d{3}):(\d{1,20})\): ?(.*)", re.DOTALL)
_FIELD = re.compile(rb'([a-z0-9_]+)=("[^"]*"|[^ ]*)')
_HEX = re.compile(rb"(?:[0-9A-F]{2})+\Z")
_UNTRUSTED = frozenset((b"path", b"exe", b"comm", b"ocomm"))


class Status(NamedTuple):
    """State of the host's audit: whether it is on, and records that were lost since the host started."""

    enabled: bool
    lost: int


class Record(NamedTuple):
    """One record. ``fields`` as text; what a program chose itself the kernel has quoted or encoded."""

    kind: int
    when: float  # seconds since the epoch
    serial: int
    fields: dict[str, str]


def unavailable(abi: int) -> str:
    """Why Landlock's refusals cannot be read here; "" where they can. ``abi`` is Landlock's level."""
    if abi < SINCE_ABI:
        return f"Landlock tells of refusals from ABI {SINCE_ABI} on (Linux 6.15), this kernel offers {abi}"
    if os.geteuid() != 0:
        return "only root may read the kernel's audit records"
    if any(os.stat(f"/proc/self/ns/{name}").st_ino != inode for name, inode in FIRST.items()):
        return "audit records are told in the host's first namespaces only"
    try:
        with connect() as sock:
            if not status(sock).enabled:
                return "the host's audit is off (its administrator turns it on: auditctl -e 1)"
        listen().close()
    except OSError as error:
        return f"audit records cannot be read: {os.strerror(error.errno or 0)}"
    return ""


def connect() -> socket.socket:
    """A socket to ask for the status with."""
    return netlink.connect(NETLINK_AUDIT)


def listen() -> socket.socket:
    """A non-blocking socket that gets every record from now on; ``OSError`` EPERM without CAP_AUDIT_READ."""
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    sock = socket.socket(socket.AF_NETLINK, kind, NETLINK_AUDIT)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        sock.bind((0, GROUP_READLOG))  # a mask: group 1 is bit 0
    except BaseException:
        sock.close()
        raise
    return sock


def status(sock: socket.socket) -> Status:
    """Ask; ``OSError`` EPERM without CAP_AUDIT_CONTROL, ``TimeoutError`` where no answer comes."""
    sock.settimeout(_PATIENCE)  # a thread of the kernel answers, not the call that asks
    sock.send(netlink.message(GET, 0, 1, b""))
    while True:
        for kind, _, body in netlink.messages(sock.recv(_LONGEST)):
            if kind == netlink.NLMSG_ERROR and (code := -struct.unpack_from("=i", body)[0]):
                raise OSError(code, os.strerror(code))
            if kind == GET and len(body) >= _STATUS.size:
                _, enabled, _, _, _, _, lost, _ = _STATUS.unpack_from(body)
                return Status(enabled != 0, lost)


def read(sock: socket.socket) -> Record | None:
    """One record of a kind in ``KINDS``; ``None`` for one of another kind or form. Raises BlockingIOError
    where none waits, ``OSError`` ENOBUFS once after records were lost."""
    return parse(sock.recv(_LONGEST))


def parse(message: bytes) -> Record | None:
    """A record from a netlink message; ``None`` where it is not one of ``KINDS`` in the form we know."""
    # The length in the header is not to be relied on: of multicast records it leaves out the header itself.
    if len(message) < netlink.HEADER.size:
        return None
    _, kind, _, _, _ = netlink.HEADER.unpack_from(message)
    if kind not in KINDS:
        return None
    found = _STAMP.match(message[netlink.HEADER.size :].rstrip(b"\n\0"))
    if found is None:
        return None
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(found[4]):
        # The first counts: what follows an encoded value is never of the same name.
        fields.setdefault(name.decode("ascii"), _text(name, value))
    return Record(kind, int(found[1]) + int(found[2]) / 1000, int(found[3]), fields)


def _text(name: bytes, value: bytes) -> str:
    if value.startswith(b'"'):
        value = value[1:-1]
    elif name in _UNTRUSTED and _HEX.match(value):
        value = bytes.fromhex(value.decode("ascii"))
    return value.decode("utf-8", "surrogateescape")
