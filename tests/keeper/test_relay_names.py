"""Who says a name that did not lead to the address, or none, is refused, counted and never dialled for."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from backends.keeper import relay_connection
from backends.keeper.denials import Refusal
from tests.keeper.relays import (
    ADDRESS,
    client_hello,
    echo,
    keep,
    read_all,
    refused,
    served,
    turned_away,
)

NAMED = ("good.example.com",)
WHERE = f"{ADDRESS}:443"
OTHER = "it says a name that did not lead to this address"


def test_a_tls_hello_with_a_name_of_the_address_goes_through_unchanged() -> None:
    got: list[bytes] = []
    hello = client_hello("good.example.com")
    with served(keep(got, b"hi"), NAMED, NAMED, port=443) as (one, server), one.connect() as client:
        client.sendall(hello[:50])
        time.sleep(0.05)
        assert one.dialled == [], "nothing is sent before the name is known"
        client.sendall(hello[50:] + b"more")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"hi"
        server.wait()
        assert got == [hello + b"more"]
        one.settle(lambda: one.relay.counts().open == 0)
        assert one.relay.rows() == ((ADDRESS, 443, "good.example.com", 1, 0, 0, len(hello) + 4, 2),)


@pytest.mark.parametrize(
    ("first", "shown"),
    [
        (client_hello("evil.example"), "SNI evil.example"),
        (client_hello("GOOD.example.com.evil.example"), "SNI good.example.com.evil.example"),
        (b"GET / HTTP/1.1\r\nHost: good.example.com\r\n\r\n", "no name"),
        (b"SSH-2.0-OpenSSH_9\r\n", "no name"),
    ],
)
def test_another_name_or_none_is_refused_and_counted_and_never_dialled(first: bytes, shown: str) -> None:
    with served(echo, NAMED, NAMED, port=443) as (one, server):
        assert turned_away(one, first)
        one.settle(lambda: one.relay.counts().open == 0)
        assert len(one.refusals) == 1
        refusal, *caller = one.refusals[0]
        assert refusal._replace(rule="") == Refusal("net", f"{WHERE} ({shown})", "", "keeper", "relay")
        assert refusal.rule == OTHER if shown != "no name" else "TLS" in refusal.rule
        assert caller == [7, "curl", 1]
        assert one.dialled == []
        assert server.accepted == 0
        assert one.relay.rows() == ((ADDRESS, 443, "", 0, 0, 1, 0, 0),)


def test_a_name_that_only_a_rule_for_another_port_allows_is_refused() -> None:
    rules = ("good.example.com", "other.example.com:8443")
    names = ("good.example.com", "other.example.com")  # both led to this address
    with served(echo, rules, names, port=443) as (one, _), one.connect() as client:
        client.sendall(client_hello("other.example.com"))
        assert refused(client)
        one.settle(lambda: len(one.refusals) == 1)
        assert one.refusals[0][0].object == f"{WHERE} (SNI other.example.com)"
        assert one.refusals[0][0].rule == "other.example.com is allowed on port 8443 only"


def test_a_destination_on_no_list_is_refused_whatever_it_says() -> None:
    with served(echo, NAMED, (), port=443) as (one, _):
        assert turned_away(one, client_hello("good.example.com"))
        one.settle(lambda: len(one.refusals) == 1)
        assert one.refusals[0][0].object == WHERE
        assert one.relay.rows() == (), "a box must not fill the rows with what it makes up"


def test_silence_is_refused_when_a_name_has_to_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_connection, "SNIFF_PATIENCE", 0.0)
    with served(echo, NAMED, NAMED, port=443) as (one, _), one.connect() as client:
        assert refused(client)
        one.settle(lambda: len(one.refusals) == 1)
        assert one.refusals[0][0].rule == "it said no name; only a raw: rule asks for none"


def test_who_leaves_before_saying_anything_is_no_refusal() -> None:
    with served(echo, NAMED, NAMED, port=443) as (one, _):
        with one.connect() as client:
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == b""
        one.settle(lambda: one.relay.counts() == (1, 0, 0, 0))
        assert one.refusals == []


def test_a_server_may_speak_first_where_a_raw_rule_says_so() -> None:
    def serve(client: socket.socket) -> None:
        client.sendall(b"SSH-2.0-server\r\n")
        read_all(client)

    rules = ("raw:good.example.com:2222",)
    with served(serve, rules, NAMED, port=2222) as (one, _), one.connect() as client:
        assert client.recv(100) == b"SSH-2.0-server\r\n"


# ---------------------------------------------------------------- HTTP


def _request(host: str, path: str = "/", rest: str = "", body: bytes = b"") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{rest}\r\n".encode() + body


GOOD80 = ("good.example.com:80",)


def test_every_request_of_a_connection_must_name_an_allowed_host() -> None:
    got: list[bytes] = []

    def serve(client: socket.socket) -> None:
        while data := client.recv(1 << 16):
            got.append(data)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with served(serve, GOOD80, NAMED, port=80) as (one, server), one.connect() as client:
        for _ in range(2):
            client.sendall(_request("good.example.com"))
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        client.sendall(_request("evil.example"))
        assert refused(client)
        one.settle(lambda: one.relay.counts().open == 0)
        server.wait()
        assert got == [_request("good.example.com")] * 2
        assert one.refusals[0][0] == Refusal(
            "net", f"{ADDRESS}:80 (Host evil.example)", OTHER, "keeper", "relay"
        )


def test_connect_is_refused() -> None:
    with served(echo, GOOD80, NAMED, port=80) as (one, server), one.connect() as client:
        client.sendall(b"CONNECT good.example.com:443 HTTP/1.1\r\nHost: good.example.com\r\n\r\n")
        assert refused(client)
        one.settle(lambda: len(one.refusals) == 1)
        assert "CONNECT" in one.refusals[0][0].rule
        assert server.accepted == 0


def test_an_upgraded_connection_is_passed_as_it_is() -> None:
    def serve(client: socket.socket) -> None:
        assert client.recv(1 << 16).startswith(b"GET ")
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
        echo(client)

    with served(serve, GOOD80, NAMED, port=80) as (one, _), one.connect() as client:
        early = b"\x81\x05early"
        client.sendall(
            _request("good.example.com", rest="Connection: Upgrade\r\nUpgrade: websocket\r\n") + early
        )
        answer = b""
        while early not in answer:
            answer += client.recv(1000)
        client.sendall(b"\x00\xff any bytes")
        assert client.recv(1000) == b"\x00\xff any bytes"
        assert one.refusals == []


def test_a_server_that_does_not_upgrade_leaves_the_checks_in_place() -> None:
    got: list[bytes] = []

    def serve(client: socket.socket) -> None:
        got.append(client.recv(1 << 16))
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            got.append(read_all(client))

    first = _request("good.example.com", rest="Connection: Upgrade\r\nUpgrade: websocket\r\n")
    with served(serve, GOOD80, NAMED, port=80) as (one, server), one.connect() as client:
        client.sendall(first + _request("evil.example"))
        with contextlib.suppress(ConnectionResetError):
            read_all(client)
        one.settle(lambda: len(one.refusals) == 1)
        server.wait()
        assert b"".join(got) == first
        assert one.refusals[0][0].object == f"{ADDRESS}:80 (Host evil.example)"
