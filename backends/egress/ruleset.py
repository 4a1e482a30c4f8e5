"""The packet filter of a box's network namespace, encoded once for all boxes: ``python -I ruleset.py``.

Nothing in it depends on a policy: the destinations that pass are elements of its sets, which the launch adds
(:mod:`backends.kernel.nftables`). So its bytes are kept (:mod:`backends.egress.artefact`), and pyroute2, that
encodes them, is imported by a process of its own and never by a keeper.

Every packet of the box meets it, since every address is routed to ``lo`` (:func:`.netlink.local_routes`):

====================================================  =====================================================
replies to what was let pass                          pass
127.0.0.0/8 and ::1                                   pass: the box's own loopback
TCP to an address and port in ``allowed*``,           pass, then go to the relay's listener on loopback (nat)
``networks*``
everything else                                       counted by address, protocol and port in ``denied*``,
                                                      or by ``others`` when that set is full; counted by
                                                      ``total``; refused: TCP by a reset, the rest by an ICMP
                                                      message (administratively prohibited)
====================================================  =====================================================

The filter (priority -150) comes before the redirection (-100), so it sees what the program asked for. What
stays on loopback is not tracked (priority -300), but for connections with the relay: the kernel drops what
finds no room in its table of connections before any rule sees it, so a box that filled it went uncounted.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from typing import Any, NamedTuple

if __name__ == "__main__":
    # Isolated, the interpreter knows its installed packages, and not necessarily us.
    sys.path.insert(0, __file__.rpartition("/backends/egress/")[0])

from backends.kernel import netlink
from backends.kernel.nftables import (
    ALLOWED,
    BATCH_BEGIN,
    BATCH_END,
    DENIED,
    INET,
    NETWORKS,
    OBJECT_COUNTER,
    OTHERS,
    RELAY_PORT,
    SUBSYSTEM,
    TABLE,
    TOTAL,
)

DENIED_SIZE = 4096  # rows of each set of refused destinations; a keeper reads all of them at a time
RAW, FILTER, NAT, REFUSE = "raw", "filter", "nat", "refuse"
PRIORITY_RAW, PRIORITY_FILTER, PRIORITY_NAT = -300, -150, -100

_HOOK_OUTPUT = 3  # NF_INET_LOCAL_OUT
_DROP, _ACCEPT, _GOTO = 0, 1, -4
_TYPES = {4: 7, 16: 8}  # nft's own numbers for addresses, protocols and ports
_TYPE_PROTOCOL, _TYPE_PORT = 12, 13
_REG = 8  # NFT_REG32_00; fields of a key lie one after the other, each padded to four bytes
_REG_ONE = 1  # NFT_REG_1
_META_NFPROTO, _META_L4PROTO = 15, 16
_NETWORK, _TRANSPORT = 1, 2  # NFT_PAYLOAD headers
_CT_STATE, _ESTABLISHED_OR_RELATED = 0, 0x6
_EQUAL, _UNEQUAL = 0, 1
_UPDATE = 1  # NFT_DYNSET_OP_UPDATE
_RESET, _ICMPX, _PROHIBITED = 1, 2, 3
_SOURCE_PORT_AT, _PORT_AT, _PORT_LENGTH = 0, 2, 2  # in a header of TCP and UDP
TCP, UDP = bytes([socket.IPPROTO_TCP]), bytes([socket.IPPROTO_UDP])


class Version(NamedTuple):
    """What differs between IPv4 and IPv6, by the length of an address."""

    width: int
    protocol: bytes  # NFPROTO number
    source: int  # offset of the source in the header
    offset: int  # of the destination
    loopback: bytes  # the address that the relay listens at


VERSIONS = (
    Version(4, b"\x02", 12, 16, bytes((127, 0, 0, 1))),
    Version(16, b"\x0a", 8, 24, bytes(15) + b"\x01"),
)


class Encoded(NamedTuple):
    """A batch and what each of its acknowledged messages asks for."""

    batch: bytes
    labels: tuple[str, ...]
    encoder: str


def encode() -> Encoded:
    """The whole rule set as one transaction. ``ImportError`` without pyroute2."""
    import pyroute2

    out = _Encoder()
    out.table()
    for version in VERSIONS:
        out.sets(version)
    out.counter(TOTAL)
    out.counter(OTHERS)
    out.chain(REFUSE)
    out.chain(RAW, "filter", PRIORITY_RAW, _ACCEPT)
    out.chain(FILTER, "filter", PRIORITY_FILTER, _DROP)
    out.chain(NAT, "nat", PRIORITY_NAT, _ACCEPT)
    _refuse(out)
    _raw(out)
    _filter(out)
    _nat(out)
    return Encoded(out.batch(), tuple(out.labels), f"pyroute2 {pyroute2.__version__}")


def _refuse(out: _Encoder) -> None:
    out.rule(REFUSE, "a counter of all that is refused", _count(TOTAL))
    reset = _expression("reject", type=_RESET, icmp_code=0)
    out.rule(REFUSE, "a reset for refused TCP", *_protocol(TCP), reset)
    out.rule(REFUSE, "an ICMP answer for the rest", _expression("reject", type=_ICMPX, icmp_code=_PROHIBITED))


def _raw(out: _Encoder) -> None:
    for version in VERSIONS:
        for address, port in ((version.source, _SOURCE_PORT_AT), (version.offset, _PORT_AT)):
            relay = _relay(version, address, port)
            out.rule(RAW, "connections with the relay are tracked", *relay, *_verdict(_ACCEPT))
    _loopback(out, RAW, _untracked())


def _filter(out: _Encoder) -> None:
    out.rule(FILTER, "replies to what was let pass", *_established(), *_verdict(_ACCEPT))
    _loopback(out, FILTER)
    for version in VERSIONS:
        for names in (ALLOWED, NETWORKS):
            name = names[version.width]
            out.rule(FILTER, f"listed destinations ({name})", *_listed(version, name), *_verdict(_ACCEPT))
    for version in VERSIONS:
        for protocol in (TCP, UDP):
            out.rule(FILTER, "a row for each refused destination", *_row(version, protocol))
        out.rule(FILTER, "a row for refused protocols without ports", *_row(version, None))
    # Reached where no row was made: an expression that fails ends its rule, and the next one goes on.
    out.rule(FILTER, "a counter of refusals without a row", _count(OTHERS), *_verdict(_GOTO, REFUSE))


def _loopback(out: _Encoder, chain: str, act: tuple[_Expression, ...] = ()) -> None:
    """The box's own loopback stays its own, also where a listed network is as wide as to cover it."""
    four, six = VERSIONS
    act = act or _verdict(_ACCEPT)
    loopback4 = (_payload(_NETWORK, four.offset, 1, _REG_ONE), _compare(b"\x7f"))
    loopback6 = (_payload(_NETWORK, six.offset, six.width, _REG_ONE), _compare(bytes(15) + b"\x01"))
    out.rule(chain, "loopback", *_version(four), *loopback4, *act)
    out.rule(chain, "loopback of IPv6", *_version(six), *loopback6, *act)


def _nat(out: _Encoder) -> None:
    _loopback(out, NAT)
    port = _expression("immediate", dreg=_REG_ONE, data=_value(struct.pack("!H", RELAY_PORT)))
    for version in VERSIONS:
        for names in (ALLOWED, NETWORKS):
            name = names[version.width]
            redirect = _expression("redir", reg_proto_min=_REG_ONE)
            out.rule(NAT, f"a redirection to the relay ({name})", *_listed(version, name), port, redirect)


# ---- expressions, each the part of a rule that looks, compares or decides

_Expression = dict[str, Any]


def _expression(name: str, **arguments: Any) -> _Expression:
    from pyroute2.nftables.expressions import genex

    made: _Expression = genex(name, arguments)
    return made


def _value(data: bytes) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VALUE", data)]}


def _verdict(code: int, chain: str = "") -> tuple[_Expression]:
    parts: list[tuple[str, Any]] = [("NFTA_VERDICT_CODE", code)]
    if chain:
        parts.append(("NFTA_VERDICT_CHAIN", chain))
    return (_expression("immediate", dreg=0, data={"attrs": [("NFTA_DATA_VERDICT", {"attrs": parts})]}),)


def _meta(key: int, register: int = _REG_ONE) -> _Expression:
    return _expression("meta", key=key, dreg=register)


def _compare(data: bytes, operation: int = _EQUAL) -> _Expression:
    return _expression("cmp", sreg=_REG_ONE, op=operation, data=_value(data))


def _payload(base: int, offset: int, length: int, register: int) -> _Expression:
    return _expression("payload", dreg=register, base=base, offset=offset, len=length)


def _version(version: Version) -> tuple[_Expression, ...]:
    return _meta(_META_NFPROTO), _compare(version.protocol)


def _protocol(protocol: bytes) -> tuple[_Expression, ...]:
    return _meta(_META_L4PROTO), _compare(protocol)


def _established() -> tuple[_Expression, ...]:
    mask = struct.pack("=I", _ESTABLISHED_OR_RELATED)
    return (
        _expression("ct", key=_CT_STATE, dreg=_REG_ONE),
        _expression("bitwise", sreg=_REG_ONE, dreg=_REG_ONE, len=4, mask=_value(mask), xor=_value(bytes(4))),
        _compare(bytes(4), _UNEQUAL),
    )


def _count(name: str) -> _Expression:
    return _expression("objref", imm_type=OBJECT_COUNTER, imm_name=name)


def _untracked() -> tuple[_Expression, ...]:
    return ({"attrs": [("NFTA_EXPR_NAME", "notrack")]},)


def _relay(version: Version, address_at: int, port_at: int) -> tuple[_Expression, ...]:
    """TCP whose source or destination is where the relay listens; nobody else can have address and port."""
    return (
        *_version(version),
        *_protocol(TCP),
        _payload(_NETWORK, address_at, version.width, _REG_ONE),
        _compare(version.loopback),
        _payload(_TRANSPORT, port_at, _PORT_LENGTH, _REG_ONE),
        _compare(struct.pack("!H", RELAY_PORT)),
    )


def _listed(version: Version, name: str) -> tuple[_Expression, ...]:
    """TCP to an address and port that the set ``name`` holds."""
    return (
        *_version(version),
        *_protocol(TCP),
        _payload(_NETWORK, version.offset, version.width, _REG),
        _payload(_TRANSPORT, _PORT_AT, _PORT_LENGTH, _REG + version.width // 4),
        _expression("lookup", set=name, sreg=_REG),
    )


def _row(version: Version, protocol: bytes | None) -> tuple[_Expression, ...]:
    """Counts the packet under its destination, then refuses it. ``None``: whatever has no ports."""
    after = _REG + version.width // 4
    port = _payload(_TRANSPORT, _PORT_AT, _PORT_LENGTH, after + 1)
    if protocol is None:
        # The rules above took TCP and UDP, unless their row found no room: theirs is none here either.
        port = _expression("immediate", dreg=after + 1, data=_value(bytes(4)))
    which = _protocol(protocol) if protocol else (*_is_not(TCP), *_is_not(UDP))
    return (
        *_version(version),
        *which,
        _payload(_NETWORK, version.offset, version.width, _REG),
        _meta(_META_L4PROTO, after),
        port,
        _expression(
            "dynset", set_name=DENIED[version.width], op=_UPDATE, sreg_key=_REG, expr=_packet_counter()
        ),
        *_verdict(_GOTO, REFUSE),
    )


def _is_not(protocol: bytes) -> tuple[_Expression, ...]:
    return _meta(_META_L4PROTO), _compare(protocol, _UNEQUAL)


def _packet_counter() -> _Expression:
    return _expression("counter", bytes=0, packets=0)


# ---- messages


class _Encoder:
    """Collects messages; pyroute2's classes turn them into bytes."""

    def __init__(self) -> None:
        from pyroute2.netlink.nfnetlink import nfgen_msg, nftsocket

        self._nft = nftsocket
        self._control = nfgen_msg
        self._out: list[bytes] = []
        self.labels: list[str] = []

    def table(self) -> None:
        self._add("nf_tables", self._nft.nft_table_msg, self._nft.NFT_MSG_NEWTABLE, name=TABLE)

    def sets(self, version: Version) -> None:
        address, width = _TYPES[version.width], version.width
        pair = address << 6 | _TYPE_PORT
        flags: set[str] = set()
        self._set(ALLOWED[width], pair, width + 4, flags, None)
        fields = [("NFTA_SET_DESC_CONCAT", b"".join(_field(length) for length in (width, _PORT_LENGTH)))]
        self._set(NETWORKS[width], pair, width + 4, {"NFT_SET_INTERVAL", "NFT_SET_CONCAT"}, fields)
        triple = address << 12 | _TYPE_PROTOCOL << 6 | _TYPE_PORT
        size = [("NFTA_SET_DESC_SIZE", DENIED_SIZE)]
        self._set(DENIED[width], triple, width + 8, {"NFT_SET_EVAL"}, size, expr=_packet_counter())

    def _set(self, name: str, key: int, length: int, flags: set[str], description: Any, **more: Any) -> None:
        class Message(self._nft.nft_set_msg):  # type: ignore[name-defined,misc]
            class set_desc(self._nft.nft_set_msg.set_desc):  # type: ignore[name-defined,misc]
                # pyroute2 has no way to say the lengths of a key's fields; here they are bytes already.
                nla_map = (
                    ("NFTA_SET_DESC_UNSPEC", "none"),
                    ("NFTA_SET_DESC_SIZE", "be32"),
                    ("NFTA_SET_DESC_CONCAT", "cdata"),
                )

        if description:
            more["desc"] = {"attrs": description}
        number = len(self.labels)
        self._add(
            f"the set {name}",
            Message,
            self._nft.NFT_MSG_NEWSET,
            table=TABLE, name=name, flags=flags, key_type=key, key_len=length, id=number, **more,
        )  # fmt: skip

    def counter(self, name: str) -> None:
        class Message(self._control):  # type: ignore[name-defined,misc]
            prefix = "NFTA_OBJ_"
            nla_map = (
                ("NFTA_OBJ_UNSPEC", "none"),
                ("NFTA_OBJ_TABLE", "asciiz"),
                ("NFTA_OBJ_NAME", "asciiz"),
                ("NFTA_OBJ_TYPE", "be32"),
                ("NFTA_OBJ_DATA", "nft_counter"),
            )

            class nft_counter(self._nft.nft_chain_msg.counters):  # type: ignore[name-defined,misc]
                pass

        zero = {"attrs": [("NFTA_COUNTER_BYTES", 0), ("NFTA_COUNTER_PACKETS", 0)]}
        self._add(
            f"the counter {name}", Message, self._nft.NFT_MSG_NEWOBJ,
            table=TABLE, name=name, type=OBJECT_COUNTER, data=zero,
        )  # fmt: skip

    def chain(self, name: str, kind: str = "", priority: int = 0, policy: int = _ACCEPT) -> None:
        base: dict[str, Any] = {}
        if kind:
            hook = {"attrs": [("NFTA_HOOK_HOOKNUM", _HOOK_OUTPUT), ("NFTA_HOOK_PRIORITY", priority)]}
            base = {"type": kind, "policy": policy, "hook": hook}
        message = self._nft.nft_chain_msg
        self._add(f"the chain {name}", message, self._nft.NFT_MSG_NEWCHAIN, table=TABLE, name=name, **base)

    def rule(self, chain: str, label: str, *expressions: _Expression) -> None:
        message = self._nft.nft_rule_msg
        number = self._nft.NFT_MSG_NEWRULE
        self._add(label, message, number, table=TABLE, chain=chain, expressions=list(expressions))

    def _add(self, label: str, kind: Any, number: int, **attributes: Any) -> None:
        message = kind()
        message["nfgen_family"] = INET
        message["attrs"] = [[kind.prefix + name.upper(), value] for name, value in attributes.items()]
        flags = netlink.REQUEST | netlink.ACK | netlink.CREATE | 0x800  # NLM_F_APPEND: rules in this order
        self._encode(message, SUBSYSTEM | number, flags, len(self.labels))
        self.labels.append(label)

    def _encode(self, message: Any, kind: int, flags: int, sequence: int) -> None:
        message["header"]["type"] = kind
        message["header"]["flags"] = flags
        message["header"]["sequence_number"] = sequence
        message.encode()
        self._out.append(bytes(message.data))

    def batch(self) -> bytes:
        for number, place in ((BATCH_BEGIN, 0), (BATCH_END, len(self._out) + 1)):
            control = self._control()
            control["res_id"] = SUBSYSTEM >> 8
            self._encode(control, number, netlink.REQUEST, 0)
            self._out.insert(place, self._out.pop())
        return b"".join(self._out)


def _field(length: int) -> bytes:
    """One field of a concatenated key: NFTA_LIST_ELEM of NFTA_SET_FIELD_LEN."""
    inner = netlink.attribute(1, struct.pack("!I", length))
    return netlink.attribute(1 | netlink.NESTED, inner)


def main() -> None:
    """Writes the result to standard output: a line of JSON, then the batch."""
    found = encode()
    head = {"labels": list(found.labels), "encoder": found.encoder}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + found.batch)


if __name__ == "__main__":
    main()
