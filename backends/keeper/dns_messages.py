"""DNS messages from and to a box: what is let into the library, and the few replies that are ever given.

A query is looked at before the library sees it, and only its usual shape is let in: one question whose name
is written out, at most one additional record, which is EDNS. So no pointer is ever followed and the work that
one message can cause is bounded. Names compare without case and are sent back as they came, in their own case
("0x20", draft-vixie-dnsext-dns0x20).

Sources: RFC 1035 (messages), RFC 6891 (EDNS), RFC 8914 (extended errors), RFC 9619 (one question).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from backends.keeper import libraries

MAX_QUERY = 4096  # bytes; a query with every option that resolvers send has a few hundred
PLAIN_UDP = 512  # bytes of a reply that every client takes (RFC 1035, section 2.3.4)
MOST_UDP = 1232  # bytes of a reply that an EDNS client gets (DNS flag day 2020)
MAX_NAME = 255  # bytes on the wire
MAX_LABEL = 63
MOST_ADDRESSES = 200  # in one reply, which so stays below 6 KB

HEADER = struct.Struct("!6H")
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, BADVERS = 0, 1, 2, 3, 4, 16
A, PTR, AAAA, OPT = 1, 12, 28, 41
IN = 1
QR = 0x8000
PROHIBITED = 18  # extended error: an authorised server that is told not to answer this client
_EDE = 15
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_*")


class Query(NamedTuple):
    """One question. ``name``: see ``shown``; ``host``: the same if it can be a host's name, else None."""

    record: Any  # dnslib.DNSRecord
    labels: tuple[bytes, ...]
    name: str
    host: str | None
    type: int
    class_: int
    edns: bool
    size: int  # bytes of a reply that fits, over UDP


class Unfit(NamedTuple):
    """A message whose question gets no answer: the reply, None for silence, and what is wrong with it."""

    reply: bytes | None
    reason: str
    name: str = ""


def parse(data: bytes) -> Query | Unfit:
    """Read one message of a box, at most ``MAX_QUERY`` bytes of it."""
    if len(data) < HEADER.size:
        return Unfit(None, "shorter than a header")
    _, flags, questions, answers, authorities, additional = HEADER.unpack_from(data)
    if flags & QR:
        return Unfit(None, "a reply")
    if flags >> 11 & 15:
        return Unfit(_bare(data, NOTIMP), "no query")
    if len(data) > MAX_QUERY:
        return Unfit(_bare(data, FORMERR), "too long")
    labels, end = _question(data)
    if labels is None or questions != 1 or answers or authorities or additional > 1:
        return Unfit(_bare(data, FORMERR), "malformed")
    name = shown(labels)
    if additional and data[end : end + 3] != b"\0" + OPT.to_bytes(2, "big"):
        return Unfit(_bare(data, FORMERR), "malformed", name)
    try:
        record = libraries.load("dnslib").DNSRecord.parse(data)
        options = [one for one in record.ar if one.rtype == OPT]
        version = options[0].edns_ver if options else 0
        wanted = options[0].edns_len if options else PLAIN_UDP
    except Exception as error:  # noqa: BLE001 (the library raises many kinds; all mean the same)
        return Unfit(_bare(data, FORMERR), f"malformed ({type(error).__name__})", name)
    size = min(max(wanted, PLAIN_UDP), MOST_UDP)
    host = name if all(_PLAIN.issuperset(label.lower()) for label in labels) and labels else None
    query = Query(
        record,
        labels,
        name,
        host,
        record.q.qtype,
        record.q.qclass,
        bool(options),
        size if options else PLAIN_UDP,
    )
    if version:
        return Unfit(reply(query, BADVERS), "a version of EDNS that does not exist", name)
    return query


def _question(data: bytes) -> tuple[tuple[bytes, ...] | None, int]:
    """The labels of the question's name and where the question ends; None where it is no plain name."""
    labels: list[bytes] = []
    at = HEADER.size
    while at < len(data):
        length = data[at]
        at += 1
        if not length:
            whole = at - HEADER.size <= MAX_NAME and at + 4 <= len(data)
            return (tuple(labels), at + 4) if whole else (None, at)
        if length > MAX_LABEL or at - HEADER.size > MAX_NAME:
            break
        labels.append(data[at : at + length])
        at += length
    return None, at


def shown(labels: Sequence[bytes]) -> str:
    """A name for people and for rules: lower case, no final dot, ``\\DDD`` for all but letters of host names.

    A dot within a label is escaped too, so no name can look like another one (RFC 4343, section 2.1).
    """
    return ".".join(_label(label.lower()) for label in labels) or "."


def _label(label: bytes) -> str:
    if _PLAIN.issuperset(label):
        return label.decode("ascii")
    return "".join(chr(byte) if byte in _PLAIN else f"\\{byte:03d}" for byte in label)


def reverse_address(labels: Sequence[bytes]) -> str | None:
    """The address that a whole name of ``in-addr.arpa`` or ``ip6.arpa`` stands for, None for other names."""
    words = [label.lower() for label in labels]
    if words[-2:] == [b"in-addr", b"arpa"] and len(words) == 6:
        text = b".".join(reversed(words[:4])).decode("ascii", "replace")
        family = socket.AF_INET
    elif words[-2:] == [b"ip6", b"arpa"] and len(words) == 34:
        digits = b"".join(reversed(words[:32])).decode("ascii", "replace")
        text = ":".join(digits[at : at + 4] for at in range(0, len(digits), 4))
        family = socket.AF_INET6
    else:
        return None
    try:
        return socket.inet_ntop(family, socket.inet_pton(family, text))
    except (OSError, ValueError):
        return None


# ---------------------------------------------------------------- replies


def _bare(data: bytes, rcode: int) -> bytes:
    """A header alone, for what cannot be repeated: the query's id, opcode and RD."""
    ident, flags = struct.unpack_from("!HH", data)
    return HEADER.pack(ident, QR | flags & 0x7900 | rcode, 0, 0, 0, 0)


def reply(query: Query, rcode: int = NOERROR, addresses: Sequence[str] = (), ttl: int = 0) -> bytes:
    """The reply that gives ``addresses`` of the query's own type, as it goes over TCP."""
    return _packed(query, rcode, addresses, ttl, 0, b"")


def refusal(query: Query, text: str) -> bytes:
    """The reply for a name that a box may not have, with the reason for clients that ask for it by EDNS.

    NXDOMAIN and not REFUSED: musl's resolver passes over REFUSED and waits five seconds, glibc, c-ares and
    what builds on them ask again or call it temporary. Without an SOA record nobody keeps it (RFC 2308,
    section 5), so that a rule accepted later works at once.
    """
    return _packed(query, NXDOMAIN, (), 0, 0, PROHIBITED.to_bytes(2, "big") + text.encode("ascii", "replace"))


def for_udp(query: Query, whole: bytes) -> bytes:
    """``whole`` if it fits what the client takes in a datagram, else no answer, marked as truncated."""
    if len(whole) <= query.size:
        return whole
    return _packed(query, whole[3] & 15, (), 0, 1, b"")


def _packed(
    query: Query, rcode: int, addresses: Sequence[str], ttl: int, truncated: int, extended: bytes
) -> bytes:
    dns = libraries.load("dnslib")
    record = query.record.reply(ra=1, aa=0)
    header = record.header
    header.tc, header.z, header.ad, header.rcode = truncated, 0, 0, rcode & 15
    make, family = (dns.AAAA, socket.AF_INET6) if query.type == AAAA else (dns.A, socket.AF_INET)
    for address in addresses[:MOST_ADDRESSES]:
        data = make(tuple(socket.inet_pton(family, address)))
        record.add_answer(dns.RR(query.record.q.qname, query.type, rdata=data, ttl=ttl))
    if query.edns:
        options = [dns.EDNSOption(_EDE, extended)] if extended else []
        record.add_ar(dns.EDNS0(udp_len=MOST_UDP, ext_rcode=rcode >> 4, opts=options))
    return bytes(record.pack())
