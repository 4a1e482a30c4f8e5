"""What the proxy bounds, and what a connection through it may cost: heads, time, numbers, silence."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from pathlib import Path

import pytest

from backends.keeper import proxy_connection, relay_connection
from tests.keeper.proxies import OK, answer, asked, get, head_of, hears, never, proxied, tunnel
from tests.keeper.relays import ADDRESS, LIMIT, echo, keep, read_all, refused, turned_away


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
        assert turned_away(one, b"CONNECT plain.example:22 HTTP/1.1\r\n\r\n")
        one.settle(lambda: one.refusals != [])
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
