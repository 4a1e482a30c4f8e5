"""The proxy of boxes without a route: listed destinations by their names, nothing else, and each is told."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from tests.keeper.proxies import OK, OTHER, answer, asked, get, head_of, hears, never, proxied, tunnel
from tests.keeper.relays import ADDRESS, client_hello, echo, read_all, refused

# ---------------------------------------------------------------- what is allowed


def test_a_tunnel_carries_the_name_that_it_was_asked_for_and_its_bytes_are_counted() -> None:
    hello = client_hello("good.example")
    with proxied(echo) as (one, _), tunnel(one, "good.example:443") as client:
        client.sendall(hello)
        got = b""
        while len(got) < len(hello):
            got += client.recv(1 << 16)
        assert got == hello
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b""
        one.settle(lambda: one.relay.counts().open == 0)
        assert one.relay.rows() == ((ADDRESS, 443, "good.example", 1, 0, 0, len(hello), len(hello)),)
        assert one.dialled == [(ADDRESS, 443)]
        assert one.denied() == []


def test_a_client_that_does_not_wait_for_its_tunnel_is_served_as_well() -> None:
    hello = client_hello("good.example")
    with proxied(echo) as (one, _), one.connect() as client:
        client.sendall(b"CONNECT good.example:443 HTTP/1.0\r\n\r\n" + hello)
        assert head_of(client) == b"HTTP/1.1 200 Connection established\r\n\r\n"
        got = b""
        while len(got) < len(hello):
            got += client.recv(1 << 16)
        assert got == hello


def test_a_raw_rule_asks_for_no_name_inside() -> None:
    def banner(client: socket.socket) -> None:
        client.sendall(b"SSH-2.0-x\r\n")
        client.sendall(client.recv(100))

    with proxied(banner) as (one, _), tunnel(one, "plain.example:22") as client:
        assert client.recv(100) == b"SSH-2.0-x\r\n"
        client.sendall(b"hi")
        assert client.recv(100) == b"hi"
        assert one.dialled == [(OTHER, 22)]


def test_an_address_that_a_rule_names_is_a_destination_of_its_own() -> None:
    with proxied(echo, (f"{OTHER}/32:7000",)) as (one, _), tunnel(one, f"{OTHER}:7000") as client:
        client.sendall(b"hi")
        assert client.recv(100) == b"hi"
        assert one.dialled == [(OTHER, 7000)]


def test_a_plain_request_reaches_its_server_with_path_and_host_alone() -> None:
    got: list[bytes] = []
    with proxied(answer(got)) as (one, _):
        said = asked(
            one, get("http://good.example/a?b", "good.example", "Proxy-Authorization: Basic c2VjcmV0")
        )
        assert said == OK
        assert got == [b"GET /a?b HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n"]
        assert one.dialled == [(ADDRESS, 80)]
        one.settle(lambda: one.relay.counts().open == 0)
        assert one.relay.rows()[0][:6] == (ADDRESS, 80, "good.example", 1, 0, 0)


@pytest.mark.parametrize(
    ("framing", "body"),
    [("Content-Length: 5", b"hello"), ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")],
)
def test_a_body_goes_on_by_its_length_or_its_chunks(framing: str, body: bytes) -> None:
    got: list[bytes] = []

    def serve(client: socket.socket) -> None:
        data = head_of(client)
        while not data.endswith(body):
            data += client.recv(1)
        got.append(data)
        client.sendall(OK)

    with proxied(serve) as (one, _):
        assert asked(one, get("http://good.example/", "good.example", framing, method="POST") + body) == OK
        assert got[0].partition(b"\r\n\r\n")[2] == body


def test_a_name_below_a_wildcard_is_looked_up_by_the_host_once() -> None:
    with proxied(echo, ("*.wild.example:7000",)) as (one, _):
        one.answers["a.wild.example"] = (ADDRESS,)
        for _ in range(2):
            with tunnel(one, "a.wild.example:7000"):
                pass
        assert one.looked_up == ["a.wild.example"]
        said = asked(one, b"CONNECT b.wild.example:7000 HTTP/1.1\r\n\r\n")
        assert said.startswith(
            b"HTTP/1.1 403 Forbidden: cloche: b.wild.example:7000: the host knows no such name\r\n"
        )
        assert asked(one, b"CONNECT wild.example:7000 HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403 ")
        assert asked(one, b"CONNECT a.wild.example:443 HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403 ")
        assert one.looked_up == ["a.wild.example", "b.wild.example"]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("evil.example:443", "no rule allows it"),
        ("off.example:443", "no rule allows it"),
        ("good.example:22", "good.example is allowed on port 443 only"),
        ("sub.good.example:443", "no rule allows it"),
        (f"{ADDRESS}:443", "no rule allows it"),
        ("127.0.0.1:443", "loopback"),
        ("[::1]:443", "loopback"),
        ("[::ffff:127.0.0.1]:443", ""),
        ("[64:ff9b::a9fe:a9fe]:80", ""),
        ("169.254.169.254:80", ""),
        ("localhost:443", "no rule allows it"),
    ],
)
def test_what_no_rule_allows_gets_403_with_the_reason_and_no_packet(target: str, rule: str) -> None:
    with proxied(never) as (one, server):
        said = asked(one, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        status, _, text = said.partition(b"\r\n")
        assert status.startswith(f"HTTP/1.1 403 Forbidden: cloche: {target}: ".encode())
        assert text.endswith(b"\n") and b"Connection: close\r\n" in text
        [(where, why)] = one.denied()
        assert where == target
        assert rule in why
        assert one.dialled == []
        assert server.accepted == 0
        assert one.relay.counts().refused == 1


def test_a_plain_request_for_another_host_gets_403() -> None:
    with proxied(never) as (one, server):
        assert asked(one, get("http://evil.example/", "evil.example")).startswith(
            b"HTTP/1.1 403 Forbidden: cloche: evil.example:80: no rule allows it\r\n"
        )
        assert asked(one, get("http://good.example:8080/", "good.example:8080")).startswith(b"HTTP/1.1 403 ")
        assert [where for where, _ in one.denied()] == ["evil.example:80", "good.example:8080"]
        assert server.accepted == 0


def test_a_host_header_of_another_host_is_a_bad_request() -> None:
    with proxied(never) as (one, server):
        for request in (
            get("http://good.example/", "evil.example"),
            b"CONNECT good.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
            get("http://good.example/", "good.example", "Host: evil.example"),
        ):
            assert asked(one, request).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert {where for where, _ in one.denied()} == {"a request without a destination"}
        assert server.accepted == 0


@pytest.mark.parametrize(
    ("target", "first", "shown", "rule"),
    [
        ("good.example:443", client_hello("evil.example"), "(SNI evil.example)", "another name"),
        ("good.example:443", client_hello("also.example"), "(SNI also.example)", "another name"),
        ("good.example:443", b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n", "(no name)", "TLS hello"),
        ("good.example:443", b"SSH-2.0-x\r\n", "(no name)", "TLS hello"),
        (
            "good.example:80",
            b"GET / HTTP/1.1\r\nHost: also.example\r\n\r\n",
            "(Host also.example)",
            "another name",
        ),
        (
            "good.example:80",
            b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n",
            "(no name)",
            "CONNECT asks a proxy",
        ),
        ("good.example:7000", client_hello("evil.example"), "(SNI evil.example)", "another name"),
        (
            "good.example:7000",
            b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "(Host evil.example)",
            "another name",
        ),
    ],
)
def test_a_tunnel_that_says_another_name_ends_before_its_server_hears_of_it(
    target: str, first: bytes, shown: str, rule: str
) -> None:
    got: list[bytes] = []
    with proxied(hears(got)) as (one, server):
        with tunnel(one, target) as client:
            client.sendall(first)
            assert refused(client)
        one.settle(lambda: one.relay.counts().open == 0)
        server.wait()
        assert got == []
        [(where, why)] = one.denied()
        assert where == f"{target} {shown}"
        assert rule in why
        assert one.relay.rows()[0].refused == 1


def test_a_later_request_inside_a_tunnel_may_not_name_another_host() -> None:
    got: list[bytes] = []
    ok = b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n"
    with proxied(hears(got)) as (one, server):
        with tunnel(one, "good.example:80") as client:
            client.sendall(ok + ok.replace(b"good", b"also"))
            assert refused(client)
        server.wait()
        assert not any(b"also" in data for data in got)
        assert one.denied()[0][0] == "good.example:80 (Host also.example)"


SECOND = [
    get("http://evil.example/stolen", "evil.example"),
    get("http://also.example/second", "also.example"),
    b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n",
    b"POST /smuggled HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 3\r\n\r\nabc",
]


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ((), b""),
        (("Content-Length: 5",), b"hello"),
        (("Transfer-Encoding: chunked",), b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_nothing_behind_the_first_plain_request_reaches_any_server(
    fields: tuple[str, ...], body: bytes, second: bytes, together: bool
) -> None:
    got: list[bytes] = []

    def serve(client: socket.socket) -> None:
        data = head_of(client)
        while not data.endswith(body):
            data += client.recv(1)
        client.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            data += client.recv(1 << 16)
        got.append(data)
        client.sendall(OK)

    first = get("http://good.example/", "good.example", *fields, method="POST") + body
    with proxied(serve) as (one, server), one.connect() as client:
        if together:
            client.sendall(first + second)
        else:
            client.sendall(first)
            time.sleep(0.05)
            client.sendall(second)
        assert read_all(client) == OK
        server.wait()
        assert len(got) == 1
        assert got[0].partition(b"\r\n\r\n")[2] == body
        assert server.accepted == 1
        assert one.dialled == [(ADDRESS, 80)]


@pytest.mark.parametrize(
    "broken",
    [
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"-1\r\n\r\n",
        b"5\nhello\n0\n\n" + b"a" * 5000,
        b"ffffffffffffffffff\r\n",
        b"5\r\nhello\r\n0\r\nHost: evil.example\r\n folded\r\n\r\n",
    ],
)
def test_a_body_that_is_not_well_formed_never_passes_whole(broken: bytes) -> None:
    got: list[bytes] = []
    request = get("http://good.example/", "good.example", "Transfer-Encoding: chunked", method="POST")
    with proxied(hears(got)) as (one, server):
        with one.connect() as client:
            client.sendall(request)
            time.sleep(0.05)  # the server is there already
            client.sendall(broken)
            assert refused(client)
        server.wait()
        assert not b"".join(got).endswith(b"0\r\n\r\n")
        assert one.denied()[0][0] == "good.example:80"


def test_an_upgrade_is_not_asked_for_and_never_made() -> None:
    got: list[bytes] = []
    switched = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
    with proxied(answer(got, switched)) as (one, _):
        request = get(
            "http://good.example/", "good.example", "Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: x"
        )
        with one.connect() as client:
            client.sendall(request + b"anything")
            assert read_all(client) == switched
        assert got == [b"GET / HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n"]
