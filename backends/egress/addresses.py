"""Which addresses a box may be given a way to: a table of our own, that looks into IPv6 for hidden IPv4.

Python's ``ipaddress.is_global`` is no ground for this decision (rule S16): it calls NAT64 forms of a metadata
address, IPv4-compatible forms, ``fec0::/10``, 168.63.129.16 and multicast global. Here an address is refused
unless it is ordinary unicast of the internet, and an address that carries another one inside is refused with
it. A name is to be resolved first, once, and each of its addresses asked about; the one that was allowed is
the one to connect to.

What cannot be told: a NAT64 prefix that a network chose for itself (RFC 6052, section 2.2) looks like any
other address of that network.

Sources: the IANA special-purpose registries for IPv4 and IPv6, RFC 4291 (mapped, compatible, site-local),
RFC 3056 (6to4), RFC 4380 (Teredo), RFC 5214 (ISATAP), RFC 6052 and RFC 8215 (NAT64), RFC 2765 (translated),
and the documents of the clouds for their metadata services.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

from backends.record import NamedTuple


class Verdict(NamedTuple):
    """Whether an address may be reached, and why; ``reason`` is a noun phrase to show."""

    allowed: bool
    reason: str


class Range(NamedTuple):
    """One row of a table: the first address as a number, the length of the prefix, the reason."""

    start: int
    bits: int  # of the prefix
    reason: str


def _packed(text: str) -> bytes | None:
    """The 4 or 16 bytes of a numeric address; None for anything else, also for short and octal forms."""
    text = text.partition("%")[0]
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        return None


def _table(rows: Iterable[tuple[str, str]]) -> tuple[Range, ...]:
    """Ranges, the longest prefix first: a metadata address is named as such and not by its network."""
    ranges = []
    for network, reason in rows:
        text, _, bits = network.partition("/")
        raw = _packed(text)
        assert raw is not None, network
        ranges.append(Range(int.from_bytes(raw, "big"), int(bits or len(raw) * 8), reason))
    return tuple(sorted(ranges, key=lambda one: -one.bits))


METADATA = "a cloud's metadata service"
_DOCUMENTATION = "for documentation only"

IPV4 = _table(
    (
        ("0.0.0.0/32", "the unspecified address"),
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "shared by a carrier (CGNAT)"),
        ("100.100.100.200", METADATA),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16", METADATA),
        ("169.254.0.0/16", "link-local"),
        ("169.254.169.254", METADATA),
        ("169.254.170.2", METADATA),
        ("169.254.170.23", METADATA),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "for protocols"),
        ("192.0.0.192", METADATA),
        ("192.0.2.0/24", _DOCUMENTATION),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private network"),
        ("198.18.0.0/15", "for measurements only"),
        ("198.51.100.0/24", _DOCUMENTATION),
        ("203.0.113.0/24", _DOCUMENTATION),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("255.255.255.255", "broadcast"),
    )
)
IPV6 = _table(
    (
        ("::", "the unspecified address"),
        ("::1", "loopback"),
        ("64:ff9b:1::/48", "NAT64 of a local network"),
        ("100::/64", "discarded"),
        ("2001::/23", "for protocols"),
        ("2001:db8::/32", _DOCUMENTATION),
        ("3fff::/20", _DOCUMENTATION),
        ("fc00::/7", "a private network"),
        ("fd00:ec2::/32", METADATA),
        ("fd20:ce::254", METADATA),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_UNICAST = Range(0x2 << 124, 3, "")  # 2000::/3, all that was ever given out
_FORMS = _table(
    (
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("64:ff9b::/96", "NAT64"),
        ("2002::/16", "6to4"),
        ("2001::/32", "Teredo"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("64:ff9b:1::/48", "NAT64"),
        ("::/96", "IPv4-compatible"),
    )
)
_CARRIERS = {
    "IPv4-mapped",
    "NAT64",
    "6to4",
    "Teredo",
}  # what they carry decides; of the rest nothing is allowed
_ISATAP = (0x00005EFE, 0x02005EFE)


def _within(value: int, width: int, one: Range) -> bool:
    return value >> (width - one.bits) == one.start >> (width - one.bits)


def embedded(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """The IPv4 addresses that the IPv6 address ``raw`` (16 bytes) carries, each with the name of the form."""
    value = int.from_bytes(raw, "big")
    if value >> 1 == 0:
        return  # unspecified and loopback look like IPv4-compatible ones
    for form in _FORMS:
        if not _within(value, 128, form):
            continue
        if form.reason == "6to4":
            yield form.reason, raw[2:6]
        elif form.reason == "Teredo":
            yield "Teredo server", raw[4:8]
            yield "Teredo client", bytes(byte ^ 0xFF for byte in raw[12:])
        elif form.bits == 48:
            yield form.reason, raw[6:8] + raw[9:11]  # RFC 6052 leaves bits 64 to 71 out
            yield form.reason, raw[12:]
        else:
            yield form.reason, raw[12:]
    if value >> 32 & 0xFFFFFFFF in _ISATAP:
        yield "ISATAP", raw[12:]


def plain(raw: bytes) -> bytes:
    """An IPv4-mapped address as the IPv4 address that it is to every socket; any other one as it is."""
    return raw[12:] if raw[:12] == b"\0" * 10 + b"\xff\xff" else raw


def packed(text: str) -> bytes | None:
    """The 4 or 16 bytes of a numeric address, a mapped one as IPv4; None for anything else.

    Short, octal, decimal and hexadecimal forms, which inet_aton(3) takes, are no addresses here.
    """
    raw = _packed(text)
    return None if raw is None else plain(raw)


def classify(address: str, own: Iterable[str] = ()) -> Verdict:
    """Judge one numeric address, IPv4 or IPv6, a zone (``%eth0``) being ignored.

    ``own``: the host's own addresses, refused whatever their class and whatever carries them. What is no
    numeric address is refused; so are the short, octal and hexadecimal forms that inet_aton(3) takes.
    ``ValueError`` when one of ``own`` is no address: then nothing can be promised about the host.
    """
    raw = _packed(address)
    mine = set()
    for one in own:
        own_raw = packed(one)
        if own_raw is None:
            raise ValueError(f"{one!r} is no address")
        mine.add(own_raw)
    if raw is None:
        return Verdict(False, "no numeric address")
    return _judge(raw, mine)


class Special(NamedTuple):
    """Why an address is no ordinary unicast, and the prefix length of the range that makes it so.

    ``bits`` is ``NO_RANGE`` where no range of its own does: the address carries another one, or lies outside
    of what was ever given out.
    """

    reason: str
    bits: int


NO_RANGE = 129
_LOCAL_NAT64 = bytes.fromhex("0064ff9b0001")


def special(raw: bytes) -> Special | None:
    """What is special about an address of 4 or 16 bytes; None for an ordinary one of the internet."""
    if len(raw) == 4:
        return _by_table(raw, IPV4)
    carried = list(embedded(raw))
    for form, inner in carried:
        found = special(inner)
        if found is not None:
            return Special(f"{form} of {socket.inet_ntop(socket.AF_INET, inner)}: {found.reason}", NO_RANGE)
    if any(form.partition(" ")[0] in _CARRIERS for form, _ in carried) and raw[:6] != _LOCAL_NAT64:
        return None
    if (own := _by_table(raw, IPV6)) is not None:
        return own
    if not _within(int.from_bytes(raw, "big"), 128, _UNICAST):
        return Special("outside of what the internet uses", NO_RANGE)
    return None


def _judge(raw: bytes, mine: set[bytes]) -> Verdict:
    if plain(raw) in mine:
        return Verdict(False, "an address of this host")
    carried = list(embedded(raw)) if len(raw) == 16 else []
    for form, inner in carried:
        if inner in mine:
            text = socket.inet_ntop(socket.AF_INET, inner)
            return Verdict(False, f"{form} of {text}: an address of this host")
    found = special(raw)
    if found is not None:
        return Verdict(False, found.reason)
    if any(form.partition(" ")[0] in _CARRIERS for form, _ in carried):
        return Verdict(True, f"{carried[0][0]} of an address of the internet")
    return Verdict(True, "an address of the internet")


def _by_table(raw: bytes, table: tuple[Range, ...]) -> Special | None:
    value, width = int.from_bytes(raw, "big"), len(raw) * 8
    for one in table:
        if _within(value, width, one):
            return Special(one.reason, one.bits)
    return None
