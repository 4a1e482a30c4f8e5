"""Requests of one HTTP/1 connection: what passes is what was sent, and no other host is ever named in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.keeper.relay_http import NotPassed, Requests

GET = b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n"
EVIL = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: good.example\r\n%s\r\n"
CHUNKED = POST % b"Transfer-Encoding: chunked\r\n"


def only_good(name: str) -> None:
    if name != "good.example":
        raise NotPassed("another host", name)


def passed(data: bytes, sizes: tuple[int, ...] = ()) -> bytes:
    """What goes to the server of ``data``, fed in pieces of ``sizes``, before anything is refused."""
    requests = Requests(only_good)
    out = bytearray()
    try:
        for size in sizes:
            out += requests.feed(data[:size])
            data = data[size:]
        out += requests.feed(data)
    except NotPassed:
        out += b"|"
    return bytes(out)


STREAMS = [
    GET,
    GET + GET,
    GET + b"\r\n" + GET,
    POST % b"Content-Length: 5\r\n" + b"hello" + GET,
    POST % b"Content-Length: 0\r\n" + GET,
    CHUNKED + b"5\r\nhello\r\n1a;note=x\r\n" + b"z" * 26 + b"\r\n0\r\n\r\n" + GET,
    CHUNKED + b"0\r\nChecksum: 1\r\n\r\n" + GET,
    b"GET http://good.example/x HTTP/1.1\r\nHost: good.example\r\n\r\n" + GET,
    # A body may hold what it likes.
    POST % (b"Content-Length: %d\r\n" % len(EVIL)) + EVIL + GET,
    CHUNKED + b"%x\r\n" % len(EVIL) + EVIL + b"\r\n0\r\n\r\n" + GET,
]


@given(st.sampled_from(STREAMS), st.lists(st.integers(1, 40), max_size=12).map(tuple))
def test_allowed_requests_pass_unchanged_however_they_are_cut(stream: bytes, sizes: tuple[int, ...]) -> None:
    assert passed(stream, sizes) == stream


@given(st.sampled_from(STREAMS), st.lists(st.integers(1, 40), max_size=12).map(tuple))
def test_a_later_request_for_another_host_never_passes(stream: bytes, sizes: tuple[int, ...]) -> None:
    out = passed(stream + EVIL + GET, sizes)
    assert out.endswith(b"|")
    assert stream.startswith(out[:-1])


@pytest.mark.parametrize(
    "bad",
    [
        CHUNKED.replace(b"chunked", b"gzip, chunked"),
        CHUNKED.replace(b"chunked", b"xchunked"),
        CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0"),
        POST % b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        POST % b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        POST % b"Content-Length: 5\r\nContent-Length: 5\r\n",
        POST % b"Content-Length: 5, 5\r\n",
        POST % b"Content-Length: +5\r\n",
        POST % b"Content-Length: 0x5\r\n",
        POST % b"Content-Length : 5\r\n",
        POST % b"X: a\r\n Content-Length: 5\r\n",
        POST % b"X: a\nContent-Length: 5\r\n",
        POST % b"X: a\rContent-Length: 5\r\n",
        b"CONNECT good.example:443 HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: good.example\r\nHost: evil.example\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        b"\x16\x03\x01",
    ],
)
def test_what_two_readers_could_take_for_two_things_does_not_pass(bad: bytes) -> None:
    assert passed(bad + GET) == b"|"
    assert passed(GET + bad + GET) == b"|", "nothing of a piece passes that is refused in part"


@pytest.mark.parametrize(
    "line", [b"-1\r\n", b"0x5\r\n", b"5 x\r\n", b"\r\n", b"5;a\rb\r\n", b"f" * 16 + b"\r\n", b"5" * 5000]
)
def test_a_chunk_whose_size_is_not_plain_does_not_pass(line: bytes) -> None:
    assert passed(CHUNKED + line, (len(CHUNKED),)) == CHUNKED + b"|"


def test_a_chunk_that_is_longer_than_it_says_does_not_pass() -> None:
    assert passed(CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n", (len(CHUNKED),)) == CHUNKED + b"|"


def test_heads_and_trailers_are_bounded() -> None:
    assert passed(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 4000) == b"|"
    trailers = CHUNKED + b"0\r\n"
    assert passed(trailers + b"X: y\r\n" * 4000, (len(trailers),)) == trailers + b"|"


def test_after_an_upgrade_was_asked_for_nothing_passes_until_the_server_answers() -> None:
    asked = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    requests = Requests(only_good)
    assert requests.feed(asked + b"frames") == asked
    assert requests.waiting
    assert requests.feed(b" more") == b""
    assert requests.answered(b"HTTP/1.1 101 ") == b"frames more"
    assert requests.feed(EVIL) == EVIL, "it is the protocol that both agreed on"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 ", b"HTTP/1.1 100 ", b"HTTP/1.1 1", b"", b"HTTP/1.1 1010"])
def test_an_answer_that_is_no_upgrade_leaves_the_checks_in_place(answer: bytes) -> None:
    requests = Requests(only_good)
    requests.feed(GET[:-2] + b"Upgrade: websocket\r\n\r\n" + EVIL)
    with pytest.raises(NotPassed) as refused:
        requests.answered(answer)
    assert refused.value.name == "evil.example"


def test_only_the_first_request_may_upgrade_and_never_to_http2() -> None:
    later = Requests(only_good)
    later.feed(GET + GET[:-2] + b"Upgrade: websocket\r\n\r\n")
    assert not later.waiting
    http2 = Requests(only_good)
    http2.feed(GET[:-2] + b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n")
    assert not http2.waiting
    with pytest.raises(NotPassed):
        http2.feed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
