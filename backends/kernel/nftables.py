"""The packet filter of a box's network namespace: what it lets pass and what it counted, read and changed.

The rules themselves come as bytes (:mod:`backends.egress.ruleset`). This module knows the names of their sets
and counters, and speaks to them over a ``NETLINK_NETFILTER`` socket that was opened inside the namespace: the
user who made the namespace may use it from outside, and no process of the box may (capabilities(7),
``netlink_net_capable``). Source: ``include/uapi/linux/netfilter/nf_tables.h``.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator

from backends.kernel import netlink
from backends.kernel.netlink import ACK, CREATE, DUMP, NESTED, attribute, attributes
from backends.record import NamedTuple

TABLE = "cloche"
INET = 1  # NFPROTO_INET
# By the length of an address: sets of single destinations, of networks, of refused destinations.
ALLOWED = {4: "allowed4", 16: "allowed6"}
NETWORKS = {4: "networks4", 16: "networks6"}
DENIED = {4: "denied4", 16: "denied6"}
RELAY_PORT = 61999  # of the relay's listeners on loopback; above those that the kernel gives out itself
TOTAL, OTHERS = "total", "others"  # counters of all refused packets, and of those without a row in DENIED

SUBSYSTEM = 10 << 8  # NFNL_SUBSYS_NFTABLES
NEWSETELEM, GETSETELEM, DELSETELEM, GETOBJ = 12, 13, 14, 19
BATCH_BEGIN, BATCH_END = 0x10, 0x11
OBJECT_COUNTER = 1  # NFT_OBJECT_COUNTER
_LIST_TABLE, _LIST_SET, _LIST_ELEMENTS, _LIST_ELEM = 1, 2, 3, 1
_ELEM_KEY, _ELEM_EXPR, _ELEM_KEY_END, _DATA_VALUE = 1, 7, 10, 1
_OBJ_TABLE, _OBJ_NAME, _OBJ_TYPE, _OBJ_DATA = 1, 2, 3, 4
_EXPR_DATA, _COUNTER_PACKETS = 2, 2
_CHUNK = 500  # elements of one message, which must fit into the socket's buffer


class Entry(NamedTuple):
    """A destination over TCP that is let pass to the relay: an address or a network, and a port."""

    packed: bytes  # 4 or 16 bytes, the network's first address
    bits: int  # length of the prefix; 32 or 128 for one address
    port: int

    @property
    def single(self) -> bool:
        return self.bits == 8 * len(self.packed)

    @property
    def ends(self) -> tuple[int, int]:
        """First and last address as numbers."""
        first = int.from_bytes(self.packed, "big")
        return first, first | (1 << (8 * len(self.packed) - self.bits)) - 1

    def covers(self, other: Entry) -> bool:
        """Whether whatever ``other`` lets pass passes already."""
        if self.port != other.port or len(self.packed) != len(other.packed):
            return False
        return self.ends[0] <= other.ends[0] and other.ends[1] <= self.ends[1]


class Destination(NamedTuple):
    """Where a refused packet went. ``port`` is 0 for protocols without one."""

    address: str
    protocol: int  # IPPROTO number
    port: int


def entry(text: str, port: int) -> Entry:
    """The entry for ``ADDRESS`` or ``ADDRESS/BITS``; bits below the prefix are cleared. ``ValueError``."""
    address, _, bits = text.partition("/")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        packed = socket.inet_pton(family, address)
    except OSError as error:
        raise ValueError(f"{text} is no address") from error
    width = 8 * len(packed)
    length = int(bits) if bits else width
    if not 0 <= length <= width or not 0 < port < 1 << 16:
        raise ValueError(f"{text} port {port} is no destination")
    mask = ((1 << length) - 1) << (width - length)
    return Entry((int.from_bytes(packed, "big") & mask).to_bytes(len(packed), "big"), length, port)


def reduced(entries: Iterable[Entry]) -> frozenset[Entry]:
    """The same destinations without a network inside another: the kernel's sets take no overlap."""
    kept: set[Entry] = set()
    # Wide networks first: whoever lies in one that is kept adds nothing.
    for one in sorted(set(entries), key=lambda item: item.bits):
        if one.single or not any(other.covers(one) for other in kept if not other.single):
            kept.add(one)
    return frozenset(kept)


def change(sock: socket.socket, before: Iterable[Entry], after: Iterable[Entry]) -> frozenset[Entry]:
    """Lets ``after`` pass where ``before`` did, in one transaction; returns what the sets hold then.

    Connections that were let pass go on. ``BatchError`` when the kernel takes none of it: for an element that
    should go and is not there (ENOENT), for one that overlaps (EEXIST, ENOTEMPTY), for want of the right
    (EPERM).
    """
    batch, acks = planned(before, after)
    if acks:
        netlink.transact(sock, batch, acks)
    return reduced(after)


def planned(before: Iterable[Entry], after: Iterable[Entry]) -> tuple[bytes, int]:
    """The transaction of :func:`change` and how many of its messages are acknowledged; 0: nothing to do."""
    held, wanted = reduced(before), reduced(after)
    parts = [*_elements(DELSETELEM, held - wanted), *_elements(NEWSETELEM, wanted - held)]
    return (_batch(parts), len(parts)) if parts else (b"", 0)


def _elements(kind: int, entries: Iterable[Entry]) -> Iterator[tuple[int, bytes]]:
    """Type and body of the messages that add or remove ``entries``."""
    by_set: dict[str, list[bytes]] = {}
    for one in sorted(entries):
        names = ALLOWED if one.single else NETWORKS
        by_set.setdefault(names[len(one.packed)], []).append(_element(one))
    for name, elements in by_set.items():
        for at in range(0, len(elements), _CHUNK):
            body = _LIST_HEAD + attribute(_LIST_SET, name.encode() + b"\0")
            body += attribute(_LIST_ELEMENTS | NESTED, b"".join(elements[at : at + _CHUNK]))
            yield kind, body


def _element(one: Entry) -> bytes:
    port = struct.pack("!Hxx", one.port)
    first, last = (number.to_bytes(len(one.packed), "big") for number in one.ends)
    inner = attribute(_ELEM_KEY | NESTED, attribute(_DATA_VALUE, first + port))
    if not one.single:
        inner += attribute(_ELEM_KEY_END | NESTED, attribute(_DATA_VALUE, last + port))
    return attribute(_LIST_ELEM | NESTED, inner)


def _batch(parts: Iterable[tuple[int, bytes]]) -> bytes:
    out = netlink.message(BATCH_BEGIN, 0, 0, _control())
    for number, (kind, body) in enumerate(parts):
        flags = ACK | (CREATE if kind == NEWSETELEM else 0)
        out += netlink.message(SUBSYSTEM | kind, flags, number, body)
    return out + netlink.message(BATCH_END, 0, 0, _control())


def _control() -> bytes:
    return struct.pack("!BBH", 0, 0, SUBSYSTEM >> 8)  # struct nfgenmsg: the subsystem of the batch


def _family() -> bytes:
    return struct.pack("!BBH", INET, 0, 0)  # struct nfgenmsg


_LIST_HEAD = _family() + attribute(_LIST_TABLE, TABLE.encode() + b"\0")


class Tallies:
    """What the filter refused, exactly, per destination and in all.

    The sets of destinations have a size. A packet to one that found no room is counted by ``OTHERS``, so
    ``total - sum(rows.values())`` is the number of those, at every time.
    """

    def __init__(self) -> None:
        self._rows: dict[Destination, int] = {}
        self._others = 0
        self._total = -1  # as last read; counted after a packet got its row
        self._before: dict[Destination, int] = {}
        self._others_before = 0

    def begin(self, sock: socket.socket) -> None:
        """Leaves out what was refused so far: the box's own proofs, and not its programs, tried that."""
        self.read(sock)
        self._before, self._others_before = dict(self._rows), self._others

    def read(self, sock: socket.socket) -> tuple[dict[Destination, int], int]:
        """Packets refused since :meth:`begin`: by destination, and in all. ``OSError`` as the kernel's."""
        total = counter(sock, TOTAL)
        if total != self._total:
            for name in DENIED.values():
                # Merged: a dump of a set that grows meanwhile may leave out an element that it gave before.
                self._rows.update(refused(sock, name))
            self._others = counter(sock, OTHERS)
            self._total = total
        rows = {
            where: packets - self._before.get(where, 0)
            for where, packets in self._rows.items()
            if packets != self._before.get(where, 0)
        }
        return rows, sum(rows.values()) + self._others - self._others_before


def counter(sock: socket.socket, name: str) -> int:
    """Packets of a named counter."""
    body = _family() + attribute(_OBJ_TABLE, TABLE.encode() + b"\0")
    body += attribute(_OBJ_NAME, name.encode() + b"\0")
    body += attribute(_OBJ_TYPE, struct.pack("!I", OBJECT_COUNTER))
    found = -1
    for _, answer in netlink.ask(sock, netlink.message(SUBSYSTEM | GETOBJ, 0, 1, body)):
        for kind, value in attributes(answer[4:]):
            if kind == _OBJ_DATA:
                found = _packets(value)
    if found < 0:
        raise OSError(f"the counter {name} was not told")
    return found


def refused(sock: socket.socket, name: str) -> Iterator[tuple[Destination, int]]:
    """Destination and packets of each row of a set of refused destinations."""
    body = _LIST_HEAD + attribute(_LIST_SET, name.encode() + b"\0")
    for _, answer in netlink.ask(sock, netlink.message(SUBSYSTEM | GETSETELEM, DUMP, 1, body)):
        for kind, elements in attributes(answer[4:]):
            if kind == _LIST_ELEMENTS:
                for _, element in attributes(elements):
                    yield _row(element)


def _row(element: memoryview) -> tuple[Destination, int]:
    parts = dict(attributes(element))
    key = bytes(dict(attributes(parts[_ELEM_KEY]))[_DATA_VALUE])
    width = len(key) - 8  # address, protocol and port, each padded to four bytes
    family = socket.AF_INET if width == 4 else socket.AF_INET6
    where = Destination(
        socket.inet_ntop(family, key[:width]), key[width], int.from_bytes(key[width + 4 : width + 6], "big")
    )
    return where, _packets(dict(attributes(parts[_ELEM_EXPR]))[_EXPR_DATA])


def _packets(counter_attributes: memoryview) -> int:
    return int.from_bytes(dict(attributes(counter_attributes))[_COUNTER_PACKETS], "big")
