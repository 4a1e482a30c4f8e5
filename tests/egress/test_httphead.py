"""The host that an HTTP request names, and nothing from a head that two could read differently."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.egress.httphead import HttpHead
from backends.egress.sniff import Sniffer
from backends.egress.spoken import LIMIT, NEED, Bad, Found, Result
from tests.egress import hellos

PLAIN = b"GET /x HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n"


def read(data: bytes, cuts: tuple[int, ...] = ()) -> Result:
    parser = HttpHead()
    result: Result = NEED
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        result = parser.feed(data[start:end])
    return result


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (PLAIN, "a.example"),
        (PLAIN + b"body" * LIMIT, "a.example"),
        (head("GET / HTTP/1.1", "HOST:A.Example."), "a.example"),
        (head("GET / HTTP/1.1", "host: \t a.example \t "), "a.example"),
        (head("GET / HTTP/1.1", "Host: a.example:8080"), "a.example"),
        (head("GET / HTTP/1.1", "Host: a.example:"), "a.example"),
        (head("POST /a?b=c HTTP/1.0", "X-Host: b.example", "Host: a.example", "X: \xff\t\xa0"), "a.example"),
        (head("GET / HTTP/1.1", "Empty:", "Host: a.example"), "a.example"),
        (head("OPTIONS * HTTP/1.1", "Host: a.example"), "a.example"),
        (head("GET http://a.example/x HTTP/1.1", "Host: a.example"), "a.example"),
        (head("GET HTTP://A.example:80?q HTTP/1.1", "Host: a.example"), "a.example"),
        (head("GET http://a.example HTTP/1.0"), "a.example"),
        (head("GET / HTTP/1.1", "Host: 192.0.2.1"), "192.0.2.1"),
        (head("GET / HTTP/1.1", "Host: [2001:DB8::1]:80"), "2001:db8::1"),
    ],
)
def test_the_host_of_a_request_is_found(data: bytes, name: str) -> None:
    assert read(data) == Found(name)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (head("GET / HTTP/1.1", "Host: a.example", "Host: b.example"), "several Host"),
        (head("GET / HTTP/1.1", "Host: a.example", "host: a.example"), "several Host"),
        (head("GET / HTTP/1.1", "Accept: */*"), "no Host"),
        (head("GET / HTTP/1.1"), "no Host"),
        (head("GET / HTTP/1.1", "Host:"), "is no host"),
        (head("GET / HTTP/1.1", "Host: a.example, b.example"), "is no host"),
        (head("GET / HTTP/1.1", "Host: a.example b.example"), "is no host"),
        (head("GET / HTTP/1.1", "Host: user@a.example"), "is no host"),
        (head("GET / HTTP/1.1", "Host: a.example:80:80"), "is no host"),
        (head("GET / HTTP/1.1", "Host: a.example:x"), "is no host"),
        (head("GET / HTTP/1.1", "Host: a.example/x"), "is no host"),
        (head("GET / HTTP/1.1", "Host: http://a.example"), "is no host"),
        (head("GET / HTTP/1.1", "Host: 134744072"), "is no host"),
        (head("GET / HTTP/1.1", "Host: [a.example]"), "is no host"),
        (head("GET / HTTP/1.1", "Host: \xe4.example"), "is no host"),
        (head("GET / HTTP/1.1", "Host: a.example", " folded"), "folded"),
        (head("GET / HTTP/1.1", "Host: a.example", "\tHost: b.example"), "folded"),
        (head("GET / HTTP/1.1", " Host: a.example"), "folded"),
        (head("GET / HTTP/1.1", "Host : a.example"), "malformed"),
        (head("GET / HTTP/1.1", "Host: a.example", "no colon"), "malformed"),
        (head("GET / HTTP/1.1", "Host: a.example", ": x"), "malformed"),
        (b"GET / HTTP/1.1\r\nHost: a.example\nHost: b.example\r\n\r\n", "malformed"),
        (b"GET / HTTP/1.1\r\nHost: a.example\rX: y\r\n\r\n", "malformed"),
        (b"GET / HTTP/1.1\r\nHost: a.example\0\r\n\r\n", "malformed"),
        (head("GET http://b.example/ HTTP/1.1", "Host: a.example"), "one host in its target"),
        (head("GET http://a.example@b.example/ HTTP/1.1", "Host: a.example"), "target"),
        (head("GET https://a.example/ HTTP/1.1", "Host: a.example"), "target"),
        (head("GET a.example HTTP/1.1", "Host: a.example"), "target"),
        (head("GET * HTTP/1.1", "Host: a.example"), "target"),
        (head("GET http:///x HTTP/1.1", "Host: a.example"), "target"),
        (head("CONNECT a.example:443 HTTP/1.1", "Host: a.example"), "CONNECT"),
        (head("GET  / HTTP/1.1", "Host: a.example"), "no HTTP request"),
        (head("GET / x HTTP/1.1", "Host: a.example"), "no HTTP request"),
        (head("GET /", "Host: a.example"), "no HTTP request"),
        (head("GET / HTTP/1.1 ", "Host: a.example"), "no HTTP request"),
        (head("", "GET / HTTP/1.1", "Host: a.example"), "no HTTP request"),
        (head("GET / HTTP/2.0", "Host: a.example"), "HTTP/2.0"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 without TLS"),
        (b"\x16\x03\x01", "no HTTP request"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n", "no HTTP request"),
        (b"G" * 65, "no HTTP request"),
        (b"GET / HTTP/1.1\n\n", None),
    ],
)
def test_what_two_servers_could_read_differently_is_no_host(data: bytes, why: str | None) -> None:
    result = read(data)
    if why is None:  # a bare line feed ends nothing here: it waits for more and runs into the limit
        assert result == NEED
        result, why = read(data + b"x" * LIMIT), "16384 bytes"
    assert isinstance(result, Bad)
    assert why in result.reason


@given(st.lists(st.integers(0, len(PLAIN)), max_size=6))
def test_a_head_over_many_reads_is_one_head(cuts: list[int]) -> None:
    assert read(PLAIN, tuple(sorted(cuts))) == Found("a.example")
    assert read(PLAIN[:-1], tuple(sorted(min(cut, len(PLAIN) - 1) for cut in cuts))) == NEED


def test_an_answer_is_final_and_a_head_without_end_is_bounded() -> None:
    parser = HttpHead()
    assert parser.feed(PLAIN) == Found("a.example")
    assert parser.feed(head("GET / HTTP/1.1", "Host: b.example")) == Found("a.example")
    parser = HttpHead()
    result: Result = NEED
    fed = 0
    while result == NEED:
        result = parser.feed(b"GET / HTTP/1.1\r\n" if not fed else b"X: y\r\n")
        fed += 6
    assert result == Bad(f"no whole HTTP head in the first {LIMIT} bytes")
    assert fed <= LIMIT + 6


def test_a_hostile_head_of_the_largest_size_is_read_in_one_pass() -> None:
    for filler in (b" ", b"\t", b"a", b":", b"\r", b"\r\n "):
        data = b"GET / HTTP/1.1\r\nX:" + filler * ((LIMIT - 60) // len(filler)) + b"\0\r\n\r\n"
        assert isinstance(read(data[:LIMIT]), Bad)


@settings(max_examples=200)
@given(
    st.binary(max_size=200) | st.text("GET /:HTP1.0\r\nhosta.example \t", max_size=120).map(str.encode),
    st.integers(0, len(PLAIN)),
    st.integers(0, 30),
    st.data(),
)
def test_garbage_never_raises_and_is_never_taken_for_another_host(
    garbage: bytes, at: int, gone: int, data: st.DataObject
) -> None:
    for stream in (garbage, PLAIN[:at] + garbage + PLAIN[at + gone :]):
        cuts = tuple(sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4))))
        whole, parts = read(stream), read(stream, cuts)
        assert isinstance(whole, Found) is isinstance(parts, Found)
        if isinstance(whole, Found):
            assert parts == whole
            assert whole.name.encode() in stream.lower()


@pytest.mark.parametrize(
    ("port", "data", "wanted"),
    [
        (443, hellos.hello(hellos.server_name(b"a.example")), Found("a.example")),
        (443, PLAIN, Bad("it does not begin with a TLS hello")),
        (80, PLAIN, Found("a.example")),
        (80, hellos.hello(hellos.server_name(b"a.example")), Bad("it begins with no HTTP request")),
        (8443, hellos.hello(hellos.server_name(b"a.example")), Found("a.example")),
        (8443, PLAIN, Found("a.example")),
        (8443, b"SSH-2.0-x\r\n\r\n", Bad("it begins with no HTTP request")),
    ],
)
def test_the_port_or_else_the_first_byte_tells_the_protocol(port: int, data: bytes, wanted: Result) -> None:
    assert Sniffer(port).feed(data) == wanted
    sniffer = Sniffer(port)
    assert sniffer.feed(b"") == NEED
    result: Result = NEED
    for byte in data:
        result = sniffer.feed(bytes((byte,)))
    assert result == wanted
