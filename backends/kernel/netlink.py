"""Netlink without a library: attributes, messages, acknowledged batches, dumps, and a box's two routes.

Source: netlink(7), rtnetlink(7), ``include/uapi/linux/{netlink,rtnetlink}.h``. The kernel answers requests of
these protocols within send(2), so every answer waits in the socket when it returns and nothing here blocks.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator

NETLINK_ROUTE = 0
NETLINK_NETFILTER = 12

HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # struct nlattr: length with this header, type
_ERROR = struct.Struct("=i")  # struct nlmsgerr begins with a negative errno, 0 for an acknowledgement
NESTED = 0x8000  # NLA_F_NESTED
_TYPE_MASK = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER

REQUEST, MULTI, ACK = 0x1, 0x2, 0x4
DUMP = 0x300
CREATE = 0x400
NLMSG_ERROR, NLMSG_DONE = 2, 3
_SOL_NETLINK, _CAP_ACK = 270, 10  # an error then comes without a copy of what caused it
_RECEIVE = 1 << 16  # the kernel fills at most 32 KiB of one read in a dump

RTM_GETADDR, RTM_NEWROUTE = 22, 24
_IFADDRMSG = struct.Struct("=4BI")  # struct ifaddrmsg
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTMSG = struct.Struct("=8BI")  # struct rtmsg
_RT_TABLE_LOCAL, _RTPROT_STATIC, _RT_SCOPE_HOST, _RTN_LOCAL = 255, 4, 254, 2
_RTA_OIF = 4
LOOPBACK = 1  # the interface number of lo in every network namespace


class BatchError(OSError):
    """The kernel refused a message of a batch; ``number`` counts its messages from 0."""

    def __init__(self, code: int, number: int) -> None:
        super().__init__(code, os.strerror(code))
        self.number = number


def connect(protocol: int) -> socket.socket:
    """A socket of ``protocol`` in this network namespace, to which it belongs from now on."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    try:
        made.bind((0, 0))
        made.setsockopt(_SOL_NETLINK, _CAP_ACK, 1)
    except BaseException:
        made.close()
        raise
    return made


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded to four bytes. ``kind`` carries ``NESTED`` where attributes are inside."""
    length = _ATTRIBUTE.size + len(payload)
    return _ATTRIBUTE.pack(length, kind) + payload + bytes(-length % 4)


def attributes(data: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
    """Kind and payload of each attribute of ``data``; ends at the first that does not fit."""
    view = memoryview(data)
    at = 0
    while at + _ATTRIBUTE.size <= len(view):
        length, kind = _ATTRIBUTE.unpack_from(view, at)
        if not _ATTRIBUTE.size <= length <= len(view) - at:
            return
        yield kind & _TYPE_MASK, view[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    """One message, padded to four bytes."""
    length = HEADER.size + len(body)
    return HEADER.pack(length, kind, REQUEST | flags, sequence, 0) + body + bytes(-length % 4)


def messages(data: bytes | memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Type, sequence and body of each message of ``data``."""
    view = memoryview(data)
    at = 0
    while at + HEADER.size <= len(view):
        length, kind, _, sequence, _ = HEADER.unpack_from(view, at)
        if not HEADER.size <= length <= len(view) - at:
            return
        yield kind, sequence, view[at + HEADER.size : at + length]
        at += (length + 3) & ~3


def transact(sock: socket.socket, batch: bytes, acks: int, first: int = 0) -> None:
    """Sends ``batch`` and checks that the kernel acknowledged ``acks`` messages.

    ``BatchError`` for the first one that it refused, counted from sequence number ``first``; ``OSError`` EIO
    where an answer is missing.
    """
    sock.send(batch)
    failed: BatchError | None = None
    taken = 0
    while (data := _waiting(sock)) is not None:
        for kind, sequence, body in messages(data):
            if kind != NLMSG_ERROR:
                continue
            code = -_ERROR.unpack_from(body)[0]
            if code == 0:
                taken += 1
            elif failed is None:
                failed = BatchError(code, sequence - first)
    if failed is not None:
        raise failed
    if taken != acks:
        raise OSError(errno.EIO, f"the kernel acknowledged {taken} of {acks} messages")


def ask(sock: socket.socket, request: bytes) -> Iterator[tuple[int, memoryview]]:
    """Sends one request and yields type and body of each message of its answer, a dump's until its end."""
    sock.send(request)
    while (data := _waiting(sock)) is not None:
        for kind, _, body in messages(data):
            if kind == NLMSG_DONE:
                return
            if kind == NLMSG_ERROR:
                code = -_ERROR.unpack_from(body)[0]
                if code:
                    raise OSError(code, os.strerror(code))
                return
            yield kind, body


def _waiting(sock: socket.socket) -> bytes | None:
    try:
        return sock.recv(_RECEIVE, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None


def own_addresses() -> tuple[str, ...]:
    """The addresses of this network namespace's interfaces, without a zone."""
    found = []
    request = message(RTM_GETADDR, DUMP, 1, _IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0))
    with connect(NETLINK_ROUTE) as sock:
        for _, body in ask(sock, request):
            family = body[0]
            told = dict(attributes(body[_IFADDRMSG.size :]))
            # On a line between two points IFA_ADDRESS is the other end.
            address = told.get(_IFA_LOCAL, told.get(_IFA_ADDRESS))
            if address is not None and family in (socket.AF_INET, socket.AF_INET6):
                found.append(socket.inet_ntop(family, address))
    return tuple(found)


def local_routes() -> None:
    """Makes every address, of both versions, one of this network namespace's own, behind ``lo``.

    So a packet to any destination is made and meets the packet filter, and none has a way out: ``ip route add
    local 0.0.0.0/0 dev lo`` and the same for ``::/0``.
    """
    batch = b""
    families = (socket.AF_INET, socket.AF_INET6)
    for number, family in enumerate(families):
        route = _RTMSG.pack(
            family, 0, 0, 0, _RT_TABLE_LOCAL, _RTPROT_STATIC, _RT_SCOPE_HOST, _RTN_LOCAL, 0
        ) + attribute(_RTA_OIF, struct.pack("=I", LOOPBACK))
        batch += message(RTM_NEWROUTE, CREATE | ACK, number, route)
    with connect(NETLINK_ROUTE) as sock:
        transact(sock, batch, len(families))
