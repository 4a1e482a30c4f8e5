"""DNS messages of a box: what is read of hostile bytes, how names are shown, what replies look like."""

from __future__ import annotations

import socket
import struct

import dnslib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.keeper import dns_messages as messages
from backends.keeper.dns_messages import HEADER, Query, Unfit

NAME = b"\x03api\x07example\x03com\x00"
ADDRESS = struct.pack("!HH", 1, 1)


def header(flags: int = 0x0100, *, questions: int = 1, answers: int = 0, additional: int = 0) -> bytes:
    return HEADER.pack(0x1234, flags, questions, answers, 0, additional)


def query(name: str = "api.example.com", kind: str = "A", udp: int = 0) -> Query:
    record = dnslib.DNSRecord.question(name, kind)
    if udp:
        record.add_ar(dnslib.EDNS0(udp_len=udp))
    parsed = messages.parse(bytes(record.pack()))
    assert isinstance(parsed, Query)
    return parsed


def unfit(data: bytes) -> Unfit:
    parsed = messages.parse(data)
    assert isinstance(parsed, Unfit)
    return parsed


def rcode(reply: bytes | None) -> int:
    assert reply is not None
    return int(dnslib.DNSRecord.parse(reply).header.rcode)


@settings(max_examples=300)
@given(st.binary(max_size=600))
def test_any_bytes_are_read_or_found_unfit(data: bytes) -> None:
    for message in (data, header() + data, header(additional=1) + NAME + ADDRESS + data):
        parsed = messages.parse(message)
        if isinstance(parsed, Unfit):
            assert parsed.reply is None or parsed.reply[:2] == message[:2]
            assert parsed.reply is None or parsed.reply[2] & 0x80
        else:
            assert messages.reply(parsed)[:2] == message[:2]


@settings(max_examples=200)
@given(st.lists(st.binary(min_size=1, max_size=63), min_size=1, max_size=4))
def test_names_are_shown_in_letters_that_no_terminal_and_no_other_name_can_take(labels: list[bytes]) -> None:
    shown = messages.shown(labels)
    assert set(shown) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_*.\\")
    assert shown.count(".") == len(labels) - 1
    back = [
        bytes(int(part[:3]) if at else ord(part) for at, part in _parts(label)) for label in shown.split(".")
    ]
    assert back == [label.lower() for label in labels]


def _parts(label: str) -> list[tuple[bool, str]]:
    parts, at = [], 0
    while at < len(label):
        if label[at] == "\\":
            parts.append((True, label[at + 1 : at + 4]))
            at += 4
        else:
            parts.append((False, label[at]))
            at += 1
    return parts


def test_a_dot_within_a_label_makes_no_allowed_name() -> None:
    data = header() + b"\x0fapi.example.com\x00" + ADDRESS
    parsed = messages.parse(data)
    assert isinstance(parsed, Query)
    assert (parsed.host, parsed.name) == (None, "api\\046example\\046com")


def test_a_name_that_is_no_text_keeps_its_bytes() -> None:
    found = unfit(header() + b"\x03\xff\x1b[\x03com\x00" + ADDRESS)
    assert found.name == "\\255\\027\\091.com"
    assert rcode(found.reply) == messages.FORMERR


@pytest.mark.parametrize(
    "question",
    [
        b"\xc0\x0c",  # to itself
        b"\x01a\xc0\x0c",  # a loop over a label
        b"\xc0\x0e\xc0\x0c",  # forth and back
        b"\xc0\xff",  # behind the end
        b"\x40" + b"a" * 64 + b"\0",  # a label with one of the unused length bits
        b"\x3f" + b"a" * 20,  # cut off
        (b"\x3f" + b"a" * 63) * 4 + b"\0",  # 257 bytes
        b"\0",  # no type
        b"",
    ],
)
def test_names_that_are_not_written_out_are_malformed(question: bytes) -> None:
    tail = ADDRESS if question not in (b"\0", b"") else b""
    assert rcode(unfit(header() + question + tail).reply) == messages.FORMERR


def test_the_longest_name_is_read() -> None:
    name = (b"\x3f" + b"a" * 63) * 3 + b"\x3d" + b"b" * 61 + b"\0"
    assert len(name) == 255
    parsed = messages.parse(header() + name + ADDRESS)
    assert isinstance(parsed, Query)
    assert len(parsed.name) == 253
    assert rcode(messages.refusal(parsed, "no")) == messages.NXDOMAIN


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", None),
        (b"\x12\x34\x01", None),
        (header(0x8180) + NAME + ADDRESS, None),  # a reply: no answer, or two servers talk for ever
        (header(0x2800) + NAME + ADDRESS, messages.NOTIMP),  # UPDATE
        (header(0x2000) + NAME + ADDRESS, messages.NOTIMP),  # NOTIFY
        (header(questions=0), messages.FORMERR),
        (header(questions=2) + (NAME + ADDRESS) * 2, messages.FORMERR),
        (header(questions=65535) + NAME + ADDRESS, messages.FORMERR),
        (header(answers=65535) + NAME + ADDRESS, messages.FORMERR),
        (header(additional=65535) + NAME + ADDRESS, messages.FORMERR),
        (header(additional=1) + NAME + ADDRESS, messages.FORMERR),  # counted but not there
        (header(additional=1) + NAME + ADDRESS + b"\xc0\x0c" + b"\0\x29" + b"\0" * 8, messages.FORMERR),
        (header() + NAME + ADDRESS + b"\0" * 65_000, messages.FORMERR),
    ],
)
def test_what_is_no_query_is_told_so_by_a_header_or_not_answered(data: bytes, expected: int | None) -> None:
    reply = unfit(data).reply
    assert (reply and rcode(reply)) == expected
    assert reply is None or len(reply) == HEADER.size


def test_a_version_of_edns_that_does_not_exist_is_named_bad() -> None:
    record = dnslib.DNSRecord.question("api.example.com")
    record.add_ar(dnslib.EDNS0(udp_len=1232, version=1))
    reply = unfit(bytes(record.pack())).reply
    assert reply is not None
    option = dnslib.DNSRecord.parse(reply).ar[0]
    assert (rcode(reply), option.edns_rcode, option.edns_ver) == (0, 1, 0)


def test_a_reply_has_the_question_in_the_case_it_came_in() -> None:
    reply = messages.reply(query("aPi.EXAMPLE.cOm"), 0, ["93.184.216.34", "93.184.216.35"], 60)
    assert b"\x03aPi\x07EXAMPLE\x03cOm\x00" in reply
    record = dnslib.DNSRecord.parse(reply)
    assert [str(one.rdata) for one in record.rr] == ["93.184.216.34", "93.184.216.35"]
    assert {(str(one.rname), one.ttl) for one in record.rr} == {("aPi.EXAMPLE.cOm.", 60)}
    flags = record.header
    assert (flags.qr, flags.ra, flags.aa, flags.tc, flags.ad, record.ar) == (1, 1, 0, 0, 0, [])


def test_every_form_of_an_ipv6_address_is_sent_as_its_bytes() -> None:
    asked = query(kind="AAAA")
    reply = messages.reply(asked, 0, ["2606:4700::1111", "::ffff:93.184.216.34"], 60)
    packed = [bytes(one.rdata.data) for one in dnslib.DNSRecord.parse(reply).rr]
    assert packed == [
        socket.inet_pton(socket.AF_INET6, one) for one in ("2606:4700::1111", "::ffff:93.184.216.34")
    ]


@pytest.mark.parametrize(("udp", "fits"), [(0, 512), (100, 512), (900, 900), (1232, 1232), (65535, 1232)])
def test_a_reply_that_is_too_long_for_a_datagram_is_marked_and_fits(udp: int, fits: int) -> None:
    asked = query(udp=udp)
    assert asked.size == fits
    many = [f"93.184.{at}.1" for at in range(150)]
    whole = messages.reply(asked, 0, many, 60)
    assert len(dnslib.DNSRecord.parse(whole).rr) == 150
    short = messages.for_udp(asked, whole)
    record = dnslib.DNSRecord.parse(short)
    assert (record.header.tc, record.header.rcode, record.rr, str(record.q.qname)) == (
        1,
        0,
        [],
        "api.example.com.",
    )
    few = messages.reply(asked, 0, many[:3], 60)
    assert messages.for_udp(asked, few) == few


def test_options_of_edns_are_let_pass() -> None:
    record = dnslib.DNSRecord.question("api.example.com")
    cookie, padding = dnslib.EDNSOption(10, b"\x01" * 8), dnslib.EDNSOption(12, b"\0" * 400)
    record.add_ar(dnslib.EDNS0(udp_len=4096, flags="do", opts=[cookie, padding]))
    parsed = messages.parse(bytes(record.pack()))
    assert isinstance(parsed, Query)
    reply = dnslib.DNSRecord.parse(messages.reply(parsed))
    assert (reply.ar[0].edns_len, reply.ar[0].edns_do, reply.ar[0].rdata) == (1232, 0, [])


def test_a_refusal_says_why_to_who_asks_for_reasons() -> None:
    record = dnslib.DNSRecord.parse(messages.refusal(query(udp=1232), "not on the list"))
    (option,) = record.ar[0].rdata
    assert (record.header.rcode, option.code, option.data) == (3, 15, b"\0\x12not on the list")
    assert dnslib.DNSRecord.parse(messages.refusal(query(), "not on the list")).ar == []


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("34.216.184.93.in-addr.arpa", "93.184.216.34"),
        ("34.216.184.93.IN-ADDR.arpa", "93.184.216.34"),
        ("216.184.93.in-addr.arpa", None),
        ("034.216.184.93.in-addr.arpa", None),
        ("256.1.1.1.in-addr.arpa", None),
        (".".join("1" + "0" * 31) + ".ip6.arpa", "::1"),
        (".".join("x" + "0" * 31) + ".ip6.arpa", None),
        ("1.0.ip6.arpa", None),
        ("example.com", None),
    ],
)
def test_a_reverse_name_is_read_as_its_address(name: str, address: str | None) -> None:
    assert messages.reverse_address([label.encode() for label in name.split(".")]) == address
