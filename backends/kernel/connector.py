"""How processes end, as the kernel tells everybody: the process connector (Linux 6.6 on without privileges).

Only ends with a status that is not 0 are asked for. The messages name no namespace: whose process it was is
for the reader to find out. Source: ``include/uapi/linux/cn_proc.h``, ``connector.h``,
``Documentation/driver-api/connector.rst``; the connector speaks in the first network namespace only.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Collection, Iterator

from backends.record import NamedTuple

NETLINK_CONNECTOR = 11
NLMSG_DONE = 3
CN_IDX_PROC, CN_VAL_PROC = 1, 1
PROC_CN_MCAST_LISTEN = 1
PROC_EVENT_EXIT = 0x80000000
PROC_EVENT_NONZERO_EXIT = 0x20000000

SINCE = (6, 6)
# Requests of other namespaces are ignored: PROC_PID_INIT_INO, PROC_USER_INIT_INO (linux/proc_ns.h).
FIRST = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD}

_NLMSG = struct.Struct("=IHHII")  # struct nlmsghdr
_CN = struct.Struct("=IIIIHH")  # struct cn_msg
_EVENT = struct.Struct("=IIQ")  # struct proc_event: what, cpu, timestamp_ns
_EXIT = struct.Struct("=IIIIII")  # process_pid, process_tgid, exit_code, exit_signal, parent_pid, parent_tgid
_BUFFER = 1 << 20
SO_ATTACH_FILTER = 26
_STATUS = _NLMSG.size + _CN.size + _EVENT.size + 8  # where exit_code begins in a message
_LD_BYTE, _AND, _JEQ, _RET = 0x30, 0x54, 0x15, 0x06  # linux/bpf_common.h
_WHOLE = 0xFFFF  # bytes of a message that is let through


class End(NamedTuple):
    """One thread that ended; ``status`` is that of wait(2)."""

    pid: int
    group: int  # its process
    status: int
    parent: int  # process that is told, as the host counts


def listen(signals: Collection[int] = ()) -> socket.socket:
    """A non-blocking socket that gets every such end on this host, with ``signals`` those by one of them.

    What is not asked for does not wake the reader: a socket filter of the kernel's drops it (socket(7)).

    ``OSError`` where it cannot be had: EPERM before Linux 6.6, EPROTONOSUPPORT without the connector,
    ECONNREFUSED in another network namespace.
    """
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, NETLINK_CONNECTOR)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        if signals:
            _filter(sock, signals)
        sock.bind((0, CN_IDX_PROC))
        asked = struct.pack("=II", PROC_CN_MCAST_LISTEN, PROC_EVENT_NONZERO_EXIT)
        body = _CN.pack(CN_IDX_PROC, CN_VAL_PROC, 0, 0, len(asked), 0) + asked
        sock.send(_NLMSG.pack(_NLMSG.size + len(body), NLMSG_DONE, 0, 0, 0) + body)
    except BaseException:
        sock.close()
        raise
    return sock


def _filter(sock: socket.socket, signals: Collection[int]) -> None:
    """Let only messages through whose status names one of ``signals``; on little-endian machines."""
    steps = [(_LD_BYTE, 0, 0, _STATUS), (_AND, 0, 0, 0x7F)]
    steps += [
        (_JEQ, left, 0, number) for left, number in zip(range(len(signals), 0, -1), signals, strict=True)
    ]
    steps += [(_RET, 0, 0, 0), (_RET, 0, 0, _WHOLE)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    told = struct.pack("@HP", len(steps), ctypes.addressof(program))  # struct sock_fprog
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, told)


def available() -> bool:
    """Whether ends are told here. A kernel that does not tell says nothing, so trying alone is no answer."""
    release = os.uname().release.split(".")
    try:
        known = (int(release[0]), int(release[1].partition("-")[0])) >= SINCE
    except (ValueError, IndexError):
        known = False
    first = all(os.stat(f"/proc/self/ns/{name}").st_ino == inode for name, inode in FIRST.items())
    if not known or not first:
        return False
    try:
        listen().close()
    except OSError:
        return False
    return True


def ends(message: bytes) -> Iterator[End]:
    """The ends that one datagram tells; nothing for messages of another kind or length."""
    start = _NLMSG.size + _CN.size
    if len(message) < start + _EVENT.size + _EXIT.size:
        return
    index, value, *_ = _CN.unpack_from(message, _NLMSG.size)
    what, _, _ = _EVENT.unpack_from(message, start)
    if (index, value, what) != (CN_IDX_PROC, CN_VAL_PROC, PROC_EVENT_EXIT):
        return
    pid, group, status, _, _, parent = _EXIT.unpack_from(message, start + _EVENT.size)
    yield End(pid, group, status, parent)
