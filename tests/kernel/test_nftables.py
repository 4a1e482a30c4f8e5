"""Netlink's format and the destinations of a packet filter: any bytes are read, and no network overlaps."""

from __future__ import annotations

import ipaddress
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kernel import netlink, nftables
from backends.kernel.nftables import Destination, Entry, entry, reduced

kinds = st.integers(1, 0x3FFF)
payloads = st.binary(max_size=64)


@given(st.lists(st.tuples(kinds, payloads), max_size=8))
def test_attributes_come_back_as_they_were(wanted: list[tuple[int, bytes]]) -> None:
    data = b"".join(netlink.attribute(kind, payload) for kind, payload in wanted)
    assert len(data) % 4 == 0
    assert [(kind, bytes(payload)) for kind, payload in netlink.attributes(data)] == wanted


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF), payloads), max_size=8))
def test_messages_come_back_as_they_were(wanted: list[tuple[int, int, bytes]]) -> None:
    data = b"".join(netlink.message(kind, 0, sequence, body) for kind, sequence, body in wanted)
    assert [(kind, sequence, bytes(body)) for kind, sequence, body in netlink.messages(data)] == wanted


@given(st.binary(max_size=256))
def test_no_bytes_break_the_readers(data: bytes) -> None:
    for kind, payload in netlink.attributes(data):
        assert 0 <= kind <= 0x3FFF and len(payload) < len(data)
    for _, _, body in netlink.messages(data):
        assert len(body) <= len(data) - netlink.HEADER.size


def test_a_kind_is_told_without_the_flag_of_nesting() -> None:
    assert [kind for kind, _ in netlink.attributes(netlink.attribute(7 | netlink.NESTED, b"1234"))] == [7]


def test_an_address_that_is_up_is_the_hosts_own() -> None:
    own = netlink.own_addresses()
    assert "127.0.0.1" in own
    assert all(ipaddress.ip_address(address) for address in own)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("203.0.113.5", ("203.0.113.5", 32)),
        ("10.1.2.3/8", ("10.0.0.0", 8)),
        ("0.0.0.0/0", ("0.0.0.0", 0)),
        ("2001:db8::1", ("2001:db8::1", 128)),
        ("2001:db8:ffff::/32", ("2001:db8::", 32)),
    ],
)
def test_an_entry_is_an_address_or_a_network(text: str, wanted: tuple[str, int]) -> None:
    found = entry(text, 443)
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    assert (socket.inet_ntop(family, found.packed), found.bits) == wanted
    assert found.port == 443


@pytest.mark.parametrize(
    ("text", "port"),
    [("example.com", 443), ("10.0.0.0/33", 443), ("::/129", 1), ("1.2.3.4", 0), ("1.2.3.4", 65536), ("", 1)],
)
def test_anything_else_is_no_entry(text: str, port: int) -> None:
    with pytest.raises(ValueError):
        entry(text, port)


def networks(width: int) -> st.SearchStrategy[Entry]:
    # Few distinct bits, so that networks meet.
    address = st.integers(0, 15).map(lambda n: (n << (8 * width - 4)).to_bytes(width, "big"))

    def cut(packed: bytes, bits: int, port: int) -> Entry:
        family = socket.AF_INET if width == 4 else socket.AF_INET6
        return entry(f"{socket.inet_ntop(family, packed)}/{bits}", port)

    bits = st.sampled_from((0, 1, 2, 3, 4, 8 * width))
    return st.builds(cut, address, bits, st.sampled_from((80, 443)))


entries = st.lists(networks(4) | networks(16), max_size=12)


@given(entries)
def test_what_is_reduced_opens_the_same_and_overlaps_nowhere(given_: list[Entry]) -> None:
    kept = reduced(given_)
    assert kept <= set(given_)
    assert all(any(other.covers(one) for other in kept) for one in given_)
    wide = [one for one in kept if not one.single]
    assert not any(a != b and a.covers(b) for a in wide for b in wide)


@given(entries)
def test_an_entry_covers_what_lies_in_its_network(given_: list[Entry]) -> None:
    def network(one: Entry) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((one.packed, one.bits))

    for a in given_:
        for b in given_:
            x, y = network(a), network(b)
            inside = x.version == y.version and y.subnet_of(x)  # type: ignore[arg-type]
            assert a.covers(b) == (inside and a.port == b.port)


class Kernel:
    """A socket whose other side answers as the kernel does: within send(), from a list for each request."""

    def __init__(self, *answers: list[bytes]) -> None:
        self.answers = [*answers]
        self.waiting: list[bytes] = []
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> int:
        assert self.waiting == []  # an answer that nobody took would be taken for the next one
        self.sent.append(data)
        self.waiting = self.answers.pop(0)
        return len(data)

    def recv(self, _size: int, _flags: int) -> bytes:
        if not self.waiting:
            raise BlockingIOError
        return self.waiting.pop(0)


def acknowledged(sequence: int, code: int = 0) -> bytes:
    return netlink.message(netlink.NLMSG_ERROR, 0, sequence, struct.pack("=i", -code) + bytes(16))


def transact(answers: list[bytes], acks: int) -> None:
    netlink.transact(Kernel(answers), b"batch", acks)  # type: ignore[arg-type]


def test_a_batch_is_done_when_each_message_was_acknowledged() -> None:
    transact([acknowledged(0) + acknowledged(1), acknowledged(2)], 3)


def test_the_first_message_that_was_refused_is_told_and_no_answer_is_left_behind() -> None:
    answers = [acknowledged(0), acknowledged(1, 95) + acknowledged(2, 2), acknowledged(3)]
    kernel = Kernel(answers)
    with pytest.raises(netlink.BatchError) as refused:
        netlink.transact(kernel, b"batch", 4)  # type: ignore[arg-type]
    assert (refused.value.errno, refused.value.number) == (95, 1)
    assert kernel.waiting == []


def test_a_missing_answer_is_a_failure() -> None:
    with pytest.raises(OSError, match="acknowledged 1 of 2"):
        transact([acknowledged(0)], 2)


def row(address: str, protocol: int, port: int, packets: int) -> bytes:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    key = socket.inet_pton(family, address) + struct.pack("!B3xH2x", protocol, port)
    nest = netlink.NESTED
    counts = netlink.attribute(1, bytes(8)) + netlink.attribute(2, packets.to_bytes(8, "big"))
    expression = netlink.attribute(1, b"counter\0") + netlink.attribute(2 | nest, counts)
    inside = netlink.attribute(1 | nest, netlink.attribute(1, key)) + netlink.attribute(7 | nest, expression)
    return netlink.attribute(1 | nest, inside)


def dumped(*rows: bytes) -> bytes:
    body = bytes(4) + netlink.attribute(3 | netlink.NESTED, b"".join(rows))
    return netlink.message(nftables.SUBSYSTEM | nftables.NEWSETELEM, 2, 1, body)


DONE = netlink.message(netlink.NLMSG_DONE, 2, 1, bytes(4))


def told(packets: int) -> bytes:
    data = netlink.attribute(2, packets.to_bytes(8, "big"))
    body = bytes(4) + netlink.attribute(4 | netlink.NESTED, data)
    return netlink.message(nftables.SUBSYSTEM | 18, 0, 1, body)


def test_tallies_count_from_where_they_began_and_read_no_more_than_they_must() -> None:
    before = (
        [told(5)],
        [dumped(row("192.0.2.1", 6, 9, 2)), DONE],
        [dumped(row("2001:db8::1", 17, 9, 2)), DONE],
    )
    after = [told(9)], [dumped(row("192.0.2.1", 6, 9, 3), row("8.8.8.8", 17, 53, 1)), DONE], [DONE]
    kernel = Kernel(*before, [told(1)], [told(5)], *after, [told(3)])
    tallies = nftables.Tallies()
    tallies.begin(kernel)  # type: ignore[arg-type]
    assert tallies.read(kernel) == ({}, 0)  # type: ignore[arg-type]
    rows, total = tallies.read(kernel)  # type: ignore[arg-type]
    assert rows == {Destination("192.0.2.1", 6, 9): 1, Destination("8.8.8.8", 17, 53): 1}
    assert total == 4  # two of them without a row
    assert kernel.answers == []


def test_elements_of_many_destinations_are_sent_in_parts_that_fit() -> None:
    wanted = [entry(f"9.{n >> 8}.{n & 255}.1", 443) for n in range(1200)] + [entry("10.0.0.0/8", 80)]
    kernel = Kernel([acknowledged(number) for number in range(4)])
    assert nftables.change(kernel, (), wanted) == set(wanted)  # type: ignore[arg-type]
    (batch,) = kernel.sent
    parts = [body for kind, _, body in netlink.messages(batch) if kind & 0xFF == nftables.NEWSETELEM]
    assert len(parts) == 4
    assert max(map(len, parts)) < 1 << 16


def test_nothing_is_sent_where_nothing_changes() -> None:
    kernel = Kernel()
    same = {entry("9.9.9.9", 443)}
    assert nftables.change(kernel, same, same) == same  # type: ignore[arg-type]
    assert kernel.sent == []
