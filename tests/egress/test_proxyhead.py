"""The head of a request to a proxy: one target, or wrong; what goes on is one message for every reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.egress.proxyhead import LIMIT, ProxyHead, Target, Wrong
from backends.egress.spoken import NEED


def read(data: bytes, sizes: tuple[int, ...] = ()) -> object:
    head = ProxyHead()
    for size in sizes:
        head.feed(data[:size])
        data = data[size:]
    return head.feed(data)


def wrong(data: bytes) -> str:
    result = read(data)
    assert isinstance(result, Wrong), result
    assert result.status == 400
    return result.reason


def connect(target: str, *fields: str) -> bytes:
    return "\r\n".join([f"CONNECT {target} HTTP/1.1", *fields, "", ""]).encode()


def get(target: str, *fields: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", *fields, "", ""]).encode()


@pytest.mark.parametrize(
    ("target", "host", "port"),
    [
        ("example.com:443", "example.com", 443),
        ("EXAMPLE.com.:8443", "example.com", 8443),
        ("93.184.215.14:443", "93.184.215.14", 443),
        ("[2001:DB8::1]:443", "2001:db8::1", 443),
        ("[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1),
        ("localhost:65535", "localhost", 65535),
    ],
)
def test_a_tunnel_names_host_and_port(target: str, host: str, port: int) -> None:
    assert read(connect(target, f"Host: {target}")) == Target(host, port, True)


@pytest.mark.parametrize(
    "target",
    [
        "example.com",  # no port
        "example.com:",
        "example.com:0",
        "example.com:00443",
        "example.com:+443",
        "example.com:65536",
        "example.com:443443",
        "example.com:443:80",
        ":443",
        "good.example:443@evil.example:443",
        "user@example.com:443",
        "user:pass@example.com:443",
        "http://example.com:443",
        "/",
        "*",
        "example.com:443/",
        "example.com:443?x",
        "example.com:443#x",
        "2130706433:443",
        "0x7f000001:443",
        "0177.0.0.1:443",
        "127.1:443",
        "127.0.0.1.:443",
        "1.2.3.04:443",
        "::1:443",
        "[::1]",
        "[::1:443",
        "[::1%25lo]:443",
        "[::1%lo]:443",
        "[example.com]:443",
        "[127.0.0.1]:443",
        "exa%6dple.com:443",
        "exam\\ple.com:443",
        "a..b:443",
        "-a.example:443",
        "a,b:443",
        "good.example\x00.evil.example:443",
        "good.example\t:443",
        "ex\u00e4mple.com:443",
    ],
)
def test_a_tunnel_whose_target_can_be_read_in_two_ways_is_wrong(target: str) -> None:
    assert isinstance(read(connect(target)), Wrong)


@pytest.mark.parametrize(
    "field", ["Host: example.com", "Host: example.com:443", "host:\tEXAMPLE.COM:443\t", "X: y"]
)
def test_older_clients_say_no_port_or_no_host_beside_connect(field: str) -> None:
    assert read(connect("example.com:443", field)) == Target("example.com", 443, True)


@pytest.mark.parametrize(
    "fields",
    [
        ("Host: evil.example",),
        ("Host: example.com:80",),
        ("Host: example.com:443", "Host: example.com:443"),
        ("Host: example.com:443", "Host: evil.example"),
        ("Host:",),
        ("Host: example.com:443, evil.example:443",),
        ("Host: user@example.com:443",),
        ("Content-Length: 5",),
        ("Content-Length: 0", "Content-Length: 5"),
        ("Transfer-Encoding: chunked",),
        (" Host: example.com:443",),
        ("X: a", " folded"),
        ("X: a", "\tfolded"),
        ("Host : example.com:443",),
        ("No colon",),
        (": no name",),
        ("X: a\x00b",),
        ("X: a\rb",),
        ("X: a\nHost: evil.example",),
    ],
)
def test_a_tunnel_with_a_doubtful_header_is_wrong(fields: tuple[str, ...]) -> None:
    assert isinstance(read(connect("example.com:443", *fields)), Wrong)


def test_a_plain_request_goes_on_with_its_path_and_the_host_of_its_target() -> None:
    request = (
        "Host: Example.com",
        "Proxy-Connection: keep-alive",
        "Proxy-Authorization: Basic c2VjcmV0",
        "Connection: keep-alive, X-Hop",
        "X-Hop: 1",
        "Upgrade: websocket",
        "TE: trailers",
        "Keep-Alive: timeout=5",
        "Accept:  */* ",
        "Cookie: a=b; c=d",
    )
    assert read(get("HTTP://Example.com/a/b?c=/d#".rstrip("#"), *request)) == Target(
        "example.com",
        80,
        False,
        b"GET /a/b?c=/d HTTP/1.1\r\nHost: example.com\r\naccept: */*\r\ncookie: a=b; c=d\r\n"
        b"Connection: close\r\n\r\n",
    )


@pytest.mark.parametrize(
    ("line", "host", "first"),
    [
        (b"GET http://h.example HTTP/1.1", b"h.example", b"GET / HTTP/1.1"),
        (b"GET http://h.example:80 HTTP/1.1", b"h.example", b"GET / HTTP/1.1"),
        (b"GET http://h.example?q HTTP/1.1", b"h.example", b"GET /?q HTTP/1.1"),
        (b"OPTIONS http://h.example HTTP/1.1", b"h.example", b"OPTIONS * HTTP/1.1"),
        (b"OPTIONS http://h.example/ HTTP/1.1", b"h.example", b"OPTIONS / HTTP/1.1"),
        (b"GET http://h.example//evil.example/x HTTP/1.1", b"h.example", b"GET //evil.example/x HTTP/1.1"),
        (b"GET http://h.example/@evil.example HTTP/1.1", b"h.example", b"GET /@evil.example HTTP/1.1"),
    ],
)
def test_the_path_is_what_the_server_is_asked_for(line: bytes, host: bytes, first: bytes) -> None:
    result = read(line + b"\r\nHost: " + host + b"\r\n\r\n")
    assert isinstance(result, Target)
    assert (result.host, result.port, result.tunnel) == ("h.example", 80, False)
    assert result.head == first + b"\r\nHost: h.example\r\nConnection: close\r\n\r\n"


def test_another_port_and_an_address_of_version_6_are_said_to_the_server() -> None:
    result = read(get("http://[2001:db8::1]:8080/", "Host: [2001:db8::1]:8080"))
    assert result == Target(
        "2001:db8::1", 8080, False, b"GET / HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        ("http://h.example/", ()),  # HTTP/1.1 says a Host
        ("http://h.example/", ("Host: evil.example",)),
        ("http://h.example/", ("Host: h.example:8080",)),
        ("http://h.example:8080/", ("Host: h.example",)),
        ("http://h.example/", ("Host: h.example", "Host: evil.example")),
        ("http://h.example/", ("Host: h.example", "host: h.example")),
        ("http://user@h.example/", ("Host: h.example",)),
        ("http://h.example@evil.example/", ("Host: evil.example",)),
        ("http://h.example:80@evil.example/", ("Host: evil.example",)),
        ("http://h.example\\@evil.example/", ("Host: evil.example",)),
        ("http://h.example/#x", ("Host: h.example",)),
        ("http:///x", ("Host: h.example",)),
        ("http://h.example:/", ("Host: h.example",)),
        ("http://h.example:0/", ("Host: h.example:0",)),
        ("https://h.example/", ("Host: h.example",)),
        ("ftp://h.example/", ("Host: h.example",)),
        ("h.example/", ("Host: h.example",)),
        ("/", ("Host: h.example",)),
        ("*", ("Host: h.example",)),
        ("http:h.example/", ("Host: h.example",)),
        ("http:/h.example/", ("Host: h.example",)),
        ("http://h.example/a b", ("Host: h.example",)),
        ("http://h.example/", ("Host: h.example", "Connection: host")),
        ("http://h.example/", ("Host: h.example", "Connection: close, Content-Length", "Content-Length: 3")),
        (
            "http://h.example/",
            ("Host: h.example", "Connection: transfer-encoding", "Transfer-Encoding: chunked"),
        ),
        ("http://h.example/", ("Host: h.example", "Content-Length: 3", "Content-Length: 3")),
        ("http://h.example/", ("Host: h.example", "Content-Length: +3")),
        ("http://h.example/", ("Host: h.example", "Content-Length: 3, 3")),
        ("http://h.example/", ("Host: h.example", "Content-Length: 3", "Transfer-Encoding: chunked")),
        (
            "http://h.example/",
            ("Host: h.example", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ),
        ("http://h.example/", ("Host: h.example", "Transfer-Encoding: gzip, chunked")),
        ("http://h.example/", ("Host: h.example", "Transfer-Encoding: xchunked")),
        ("http://h.example/", ("Host: h.example", "Transfer-Encoding:\x0bchunked")),
        ("http://h.example/", ("Host: h.example", "Transfer-Encoding : chunked")),
    ],
)
def test_a_plain_request_that_two_readers_take_for_two_is_wrong(target: str, fields: tuple[str, ...]) -> None:
    assert isinstance(read(get(target, *fields)), Wrong)


def test_a_proxy_is_no_server_and_says_so() -> None:
    assert wrong(get("/", "Host: 127.0.0.1:3128")) == (
        "this is a proxy: it is asked for whole http: targets, or by CONNECT"
    )
    assert wrong(get("https://h.example/", "Host: h.example")) == (
        "a proxy is asked for http: targets, and by CONNECT for all others"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00",  # a TLS hello
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\r\n" + get("http://h.example/", "Host: h.example"),
        b" GET http://h.example/ HTTP/1.1\r\n\r\n",
        b"GET http://h.example/ HTTP/1.1\nHost: h.example\n\n\r\n\r\n",
        b"GET http://h.example/ HTTP/2.0\r\nHost: h.example\r\n\r\n",
        b"GET http://h.example/ HTTP/1.10\r\nHost: h.example\r\n\r\n",
        b"GET  http://h.example/ HTTP/1.1\r\nHost: h.example\r\n\r\n",
        b"GET http://h.example/ HTTP/1.1 \r\nHost: h.example\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT h.example:443\r\n\r\n",
    ],
)
def test_what_is_no_request_of_http_1_is_wrong(data: bytes) -> None:
    assert isinstance(read(data), Wrong)


def test_a_head_has_a_bound_and_nothing_is_kept_of_it() -> None:
    head = ProxyHead()
    assert head.feed(b"CONNECT h.example:443 HTTP/1.1\r\nX: ") is NEED
    result = head.feed(b"a" * LIMIT)
    assert result == Wrong(431, f"no whole HTTP head in the first {LIMIT} bytes")
    assert head.feed(b"\r\n\r\n") is result
    assert not head._head
    just = b"CONNECT h.example:443 HTTP/1.1\r\nX: "
    just += b"a" * (LIMIT - len(just) - 4) + b"\r\n\r\n"
    assert read(just) == Target("h.example", 443, True)
    assert isinstance(read(just.replace(b"X: ", b"XX: ")), Wrong)


REQUESTS = [
    connect("example.com:443", "Host: example.com:443"),
    get("http://h.example/a", "Host: h.example", "Connection: X", "X: y"),
    get("http://h.example/", "Host: evil.example"),
    connect("a@b:443"),
]


@given(
    st.sampled_from(REQUESTS), st.binary(max_size=40), st.lists(st.integers(1, 30), max_size=12).map(tuple)
)
def test_the_answer_does_not_depend_on_how_it_is_cut(
    data: bytes, more: bytes, sizes: tuple[int, ...]
) -> None:
    assert read(data + more, sizes) == read(data)


@given(st.sampled_from(REQUESTS[:2]), st.binary(max_size=60))
def test_what_follows_the_head_is_kept_apart(data: bytes, more: bytes) -> None:
    head = ProxyHead()
    assert isinstance(head.feed(data + more), Target)
    assert head.rest == more


@given(st.binary(max_size=300))
def test_anything_has_an_answer(data: bytes) -> None:
    read(data + b"\r\n\r\n")


_TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)


@given(
    st.lists(
        st.tuples(st.sampled_from(["Host", "Connection", "Content-Length", "X", "TE", "Cookie"]), _TEXT)
    ),
    st.sampled_from(["http://h.example/", "http://h.example:81/x", "http://other.example/"]),
)
def test_whatever_goes_on_says_one_host_and_one_length(fields: list[tuple[str, str]], target: str) -> None:
    result = read(get(target, *(f"{name}: {value}" for name, value in fields)))
    if not isinstance(result, Target):
        return
    lines = result.head.decode("latin-1").split("\r\n")
    assert lines[-2:] == ["", ""]
    names = [line.partition(":")[0].lower() for line in lines[1:-2]]
    assert names.count("host") == 1
    assert names.count("content-length") <= 1
    assert names.count("connection") == 1
    assert lines[1] == "Host: " + target.removeprefix("http://").partition("/")[0]
    assert "te" not in names
