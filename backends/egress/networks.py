"""Networks of addresses in rules, and which of their addresses a rule really opens.

A network opens an ordinary address of the internet that it covers. What is special (private, link-local, a
metadata service) it opens only when it lies wholly inside of the special range, because then whoever wrote it
meant that range: ``10.0.0.0/8`` opens a private network, ``0.0.0.0/0`` does not, and a metadata service is
opened by its own address only. What has no meaning between hosts (loopback, the unspecified address,
multicast) is never opened, and no more is an address that carries a special one inside, such as NAT64 of
10.0.0.1. Sources: see :mod:`backends.egress.addresses`.
"""

from __future__ import annotations

import socket

from backends.egress import addresses
from backends.egress.addresses import Verdict
from backends.record import NamedTuple

# Reasons of addresses.IPV4 and IPV6 that no rule may name: there is no host on the other side.
NEVER = frozenset(
    (
        "the unspecified address",
        "this network",
        "loopback",
        "multicast",
        "broadcast",
        "reserved",
        "discarded",
    )
)
_MAPPED = b"\0" * 10 + b"\xff\xff"


class Network(NamedTuple):
    """``packed`` (4 or 16 bytes) with a prefix of ``bits``; a single address has them all."""

    packed: bytes
    bits: int

    @property
    def version(self) -> int:
        """4 or 6."""
        return 4 if len(self.packed) == 4 else 6

    @property
    def is_address(self) -> bool:
        """Whether it is one address and no more."""
        return self.bits == len(self.packed) * 8

    def covers(self, raw: bytes) -> bool:
        """Whether ``raw`` (4 or 16 bytes, a mapped address as IPv4) lies in it."""
        if len(raw) != len(self.packed):
            return False
        shift = len(raw) * 8 - self.bits
        return int.from_bytes(raw, "big") >> shift == int.from_bytes(self.packed, "big") >> shift

    def inside(self, other: Network) -> bool:
        """Whether all of it lies in ``other``."""
        return self.bits >= other.bits and other.covers(self.packed)

    def overlaps(self, other: Network) -> bool:
        """Whether they have an address in common."""
        return self.inside(other) or other.inside(self)

    def opens(self, raw: bytes) -> Verdict:
        """Whether a rule for this network opens the address ``raw``, and why not."""
        if not self.covers(raw):
            return Verdict(False, f"not in {self}")
        found = addresses.special(raw)
        if found is None:
            return Verdict(True, "an address of the internet")
        if found.reason in NEVER or found.bits == addresses.NO_RANGE or _needs_zone(raw):
            return Verdict(False, found.reason)
        if self.bits < found.bits:
            return Verdict(False, f"{found.reason}, which {self} is too wide to name")
        return Verdict(True, found.reason)

    def __str__(self) -> str:
        family = socket.AF_INET if self.version == 4 else socket.AF_INET6
        text = socket.inet_ntop(family, self.packed)
        return text if self.is_address else f"{text}/{self.bits}"


def network(text: str) -> Network:
    """``ADDRESS`` or ``ADDRESS/BITS``; an IPv4-mapped one is the IPv4 network that it stands for.

    ValueError completes "TEXT: ...".
    """
    address, slash, length = text.partition("/")
    if "%" in address:
        raise ValueError("an address with a zone means something else on every host")
    try:
        raw = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except (OSError, ValueError):
        raise ValueError("it is no address: write four decimal numbers, or IPv6") from None
    bits = len(raw) * 8
    if slash:
        if not (length.isascii() and length.isdigit() and len(length) < 4 and int(length) <= bits):
            raise ValueError(f"the length of a prefix is a number from 0 to {bits}")
        bits = int(length)
    found = Network(raw, bits)
    if raw[:12] == _MAPPED and bits >= 96:
        found = Network(raw[12:], bits - 96)
    value, rest = int.from_bytes(found.packed, "big"), len(found.packed) * 8 - found.bits
    if value & ((1 << rest) - 1):
        first = (value >> rest << rest).to_bytes(len(found.packed), "big")
        raise ValueError(f"it has bits outside of its prefix: write {found._replace(packed=first)}")
    return found


def unusable(found: Network) -> str:
    """Why no rule may name ``found`` because it would open nothing, "" if it may."""
    for table in (addresses.IPV4, addresses.IPV6):
        for row in table:
            if row.reason in NEVER and found.inside(_of(row, table)):
                return row.reason
    if found.version == 4:
        return ""
    if found.inside(_LINK_LOCAL):
        return "link-local, and IPv6 needs a zone for that, which means something else on every host"
    if found.is_address:
        carried = addresses.special(found.packed)
        return carried.reason if carried is not None and carried.bits == addresses.NO_RANGE else ""
    usable = [_of(row, addresses.IPV6) for row in addresses.IPV6 if row.reason not in NEVER]
    if any(found.overlaps(one) for one in (*usable, *_GIVEN_OUT)):
        return ""
    return "outside of what the internet uses"


def _of(row: addresses.Range, table: tuple[addresses.Range, ...]) -> Network:
    return Network(row.start.to_bytes(4 if table is addresses.IPV4 else 16, "big"), row.bits)


_LINK_LOCAL = network("fe80::/10")
# 2000::/3 is all unicast that was ever given out; NAT64 addresses carry such.
_GIVEN_OUT = (network("2000::/3"), network("64:ff9b::/96"))


def _needs_zone(raw: bytes) -> bool:
    return _LINK_LOCAL.covers(raw)
