"""The proxy of boxes without a route: listed destinations by their names, nothing else, and each is told."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.keeper import proxy_connection, relay_connection
from tests.keeper.proxies import OTHER, asked, get, head_of, proxied, tunnel
from tests.keeper.relays import ADDRESS, LIMIT, client_hello, echo, keep, read_all, refused

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def answer(got: list[bytes], said: bytes = OK) -> Callable[[socket.socket], None]:
    """A server that reads one head, answers and closes, as it is told to."""

    def serve(client: socket.socket) -> None:
        got.append(head_of(client))
        client.sendall(said)

    return serve


def hears(got: list[bytes]) -> Callable[[socket.socket], None]:
    """A server that keeps what it gets, until an end or a reset."""

    def serve(client: socket.socket) -> None:
        while data := client.recv(1 << 16):
            got.append(data)

    return serve


def never(client: socket.socket) -> None:
    raise AssertionError("a server was reached")


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


# ---------------------------------------------------------------- bounds


def test_a_head_without_an_end_is_answered_and_forgotten() -> None:
    with proxied(never) as (one, _):
        said = asked(one, b"CONNECT good.example:443 HTTP/1.1\r\nX: " + b"a" * 20_000)
        assert said.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        one.settle(lambda: one.relay.counts().open == 0)


def test_a_head_that_comes_byte_by_byte_has_one_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_connection, "HEAD_PATIENCE", 0.5)
    with proxied(never) as (one, _), one.connect() as client:
        done = threading.Event()

        def drip() -> None:
            with contextlib.suppress(OSError):
                for byte in b"CONNECT good.example:443 HTTP/1.1\r\nX: " + b"a" * 10_000:
                    client.send(bytes((byte,)))
                    if done.wait(0.05):
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert read_all(client).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        finally:
            done.set()
            thread.join(LIMIT)
        one.settle(lambda: one.relay.counts().open == 0)


def test_a_connection_that_says_nothing_is_closed_and_counts_as_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_connection, "HEAD_PATIENCE", 0.2)
    with proxied(never) as (one, _), one.connect() as client:
        assert read_all(client) == b""
        assert one.denied() == []


def test_a_tunnel_that_says_no_name_in_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_connection, "SNIFF_PATIENCE", 0.2)
    with proxied(keep([])) as (one, _), tunnel(one, "good.example:443") as client:
        assert refused(client)
        assert one.denied() == [
            ("good.example:443 (no name)", "it said no name; only a raw: rule asks for none")
        ]


def test_connections_have_a_cap_which_is_told() -> None:
    with proxied(echo, cap=3) as (one, _), contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(tunnel(one, "plain.example:22"))
        with pytest.raises(ConnectionResetError), one.connect() as client:
            client.sendall(b"CONNECT plain.example:22 HTTP/1.1\r\n\r\n")
            client.recv(1)
        refusal = one.refusals[0][0]
        assert (refusal.kind, refusal.object, refusal.lane) == ("limit", "connections", "proxy")


def test_a_destination_that_does_not_answer_is_a_bad_gateway() -> None:
    with proxied(never) as (one, _):
        one.server = ("127.0.0.1", 1)
        said = asked(one, b"CONNECT good.example:443 HTTP/1.1\r\n\r\n")
        assert said.startswith(
            b"HTTP/1.1 502 Bad Gateway: cloche: good.example:443 could not be reached: Connection refused\r\n"
        )
        assert one.denied() == []
        assert one.relay.rows()[0][:6] == (ADDRESS, 443, "good.example", 0, 1, 0)


def test_a_client_whose_server_keeps_the_connection_is_let_go_when_it_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_connection, "NEXT_PATIENCE", 0.1)
    end = threading.Event()

    def serve(client: socket.socket) -> None:
        head_of(client)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        end.wait(LIMIT)

    with proxied(serve) as (one, _), one.connect() as client:
        client.sendall(get("http://good.example/", "good.example"))
        assert head_of(client).startswith(b"HTTP/1.1 200 OK")
        assert client.recv(2) == b"ok"
        time.sleep(0.4)
        client.sendall(get("http://good.example/", "good.example"))
        assert read_all(client) == b""
        end.set()
        one.settle(lambda: one.relay.counts().open == 0)


def test_a_large_answer_arrives_whole_though_the_client_still_sends() -> None:
    size = 8 << 20

    def serve(client: socket.socket) -> None:
        head_of(client)
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        client.sendall(bytes(size))

    with proxied(serve) as (one, _), one.connect() as client:
        client.sendall(get("http://good.example/", "good.example") + b"x" * 30_000)
        assert head_of(client) == b"HTTP/1.1 200 OK\r\n\r\n"
        assert len(read_all(client)) == size


def test_a_rule_that_is_taken_from_now_on_counts_for_the_next_request() -> None:
    from backends.egress.matcher import Matcher
    from backends.egress.rules import parse

    with proxied(echo, ()) as (one, _):
        request = b"CONNECT plain.example:22 HTTP/1.1\r\n\r\n"
        assert asked(one, request).startswith(b"HTTP/1.1 403 ")
        one.call(lambda: one.proxy.use(Matcher([parse("raw:plain.example:22")]), one.pins))
        with tunnel(one, "plain.example:22"):
            pass


def test_a_guest_that_comes_by_a_unix_socket_is_served_like_any_other(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "p"))
    listener.listen(8)
    got: list[bytes] = []
    with proxied(answer(got), listeners=(listener,)) as (one, _):
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(LIMIT)
                client.connect(str(tmp_path / "p"))
                client.sendall(get("http://good.example/", "good.example"))
                assert read_all(client) == OK
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(LIMIT)
            client.connect(str(tmp_path / "p"))
            client.sendall(b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
            assert read_all(client).startswith(b"HTTP/1.1 403 ")
        assert len(got) == 2
        assert one.denied() == [("evil.example:443", "no rule allows it")]


def test_a_client_that_left_a_silent_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_connection, "NEXT_PATIENCE", 0.1)
    monkeypatch.setattr(relay_connection, "HALF_PATIENCE", 0.1)
    with proxied(hears([])) as (one, server):
        with one.connect() as client:
            client.sendall(get("http://good.example/", "good.example"))
            one.settle(lambda: one.relay.rows() != () and one.relay.rows()[0].sent > 0)
        one.settle(lambda: one.relay.counts().open == 0)
        server.wait()


PARTS = [
    b"GET http://good.example/ HTTP/1.1\r\n",
    b"POST http://good.example/x HTTP/1.1\r\n",
    b"GET / HTTP/1.1\r\n",
    b"CONNECT good.example:80 HTTP/1.1\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\n",
    b"Host: good.example\r\n",
    b"Host: evil.example\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: 0\r\n",
    b"Connection: close\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: Host\r\n",
    *(b"X: y\r\n", b" z\r\n", b"\r\n", b"\r\n\r\n", b"abc", b"3\r\nabc\r\n", b"0\r\n\r\n"),
    *(b"\x00", b"\n", b"\r", b"@evil.example"),
]


def test_whatever_is_said_a_server_hears_of_its_own_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests cut, doubled, mixed and spoiled at random: one seed, the same ones each time."""
    monkeypatch.setattr(proxy_connection, "NEXT_PATIENCE", 0.1)
    monkeypatch.setattr(relay_connection, "HALF_PATIENCE", 0.1)
    got: list[bytes] = []
    chance = random.Random(20)
    heads = [PARTS[0] + PARTS[5], PARTS[1] + PARTS[5] + PARTS[7], PARTS[3] + b"\r\n" + PARTS[2] + PARTS[5]]
    with proxied(hears(got)) as (one, server):
        for _ in range(300):
            data = b"".join(chance.choices(PARTS, k=chance.randrange(1, 6)))
            if chance.random() < 0.7:
                data = chance.choice(heads) + data
            data += chance.choice((b"", b"\r\n\r\n", b"\r\nabc"))
            with contextlib.suppress(ConnectionError), one.connect() as client:
                for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
                    client.sendall(piece)
                client.settimeout(0.02)
                with contextlib.suppress(TimeoutError):
                    client.recv(1 << 16)
        one.settle(lambda: one.relay.counts().open == 0)
        server.wait()
        assert len(got) > 20
        for heard in got:
            head = heard.lower().partition(b"\r\n\r\n")[0].split(b"\r\n")
            assert [line for line in head if line.startswith(b"host:")] in ([b"host: good.example"], []), (
                heard
            )
        assert {place for place, _ in one.dialled} <= {ADDRESS}
