"""The keeper's name server over TCP: order, sizes, slow and greedy clients."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import time

import dnslib
import pytest

from backends.egress import rules
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.keeper import dns_tcp
from backends.keeper.lookup import Found
from tests.keeper.resolver_stepped import World, answers, packed, said, world

__all__ = ["world"]

pytestmark = pytest.mark.real


def framed(*messages: bytes) -> bytes:
    return b"".join(struct.pack("!H", len(one)) + one for one in messages)


def received(world: World, client: socket.socket) -> bytes:
    """What comes until nothing more does: b"" when the connection has ended."""
    world.step(10)
    got = client.recv(2)
    if len(got) < 2:
        return b""
    return client.recv(int.from_bytes(got, "big"), socket.MSG_WAITALL)


def test_many_messages_on_one_connection_are_answered_in_order(world: World) -> None:
    client = world.stream()
    client.sendall(
        framed(*(packed(name) for name in ("api.example.com", "evil.example", "dual.example.com")))
    )
    replies = [said(dnslib.DNSRecord.parse(received(world, client))) for _ in range(3)]
    assert replies == [(0, ["93.184.216.34", "93.184.216.35"]), (3, []), (0, ["93.184.216.36"])]


def test_a_message_may_come_byte_by_byte_and_end_its_side(world: World) -> None:
    client = world.stream()
    for at in framed(packed("api.example.com")):
        client.sendall(bytes([at]))
        world.step(1)
    client.shutdown(socket.SHUT_WR)
    assert said(dnslib.DNSRecord.parse(received(world, client)))[0] == 0
    assert received(world, client) == b""


@pytest.mark.parametrize("size", [0, 1, 11, 4097, 65535])
def test_a_message_of_a_size_that_no_query_has_ends_the_connection_unread(world: World, size: int) -> None:
    client = world.stream()
    client.sendall(struct.pack("!H", size) + b"x" * size)
    world.step(10)
    with contextlib.suppress(ConnectionResetError):  # what was not read makes it a reset
        assert client.recv(10) == b""
    assert sum(world.denied.values()) == 1
    assert len(world.resolver._server) == 0


def test_a_long_reply_is_whole_over_tcp(world: World) -> None:
    many = tuple(f"93.184.{number}.1" for number in range(200))
    world.resolver.use(
        Matcher(rules.parse_all(["api.example.com"])), Pins([Pin("api.example.com", many, 0.0)])
    )
    assert world.ask("api.example.com").header.tc == 1
    client = world.stream()
    client.sendall(framed(packed("api.example.com")))
    assert said(dnslib.DNSRecord.parse(received(world, client))) == (0, list(many))


def test_a_client_that_takes_nothing_is_waited_for_by_nobody(world: World) -> None:
    many = tuple(f"93.184.{number}.1" for number in range(200))
    world.resolver.use(
        Matcher(rules.parse_all(["api.example.com"])), Pins([Pin("api.example.com", many, 0.0)])
    )
    client = world.stream()
    client.setblocking(False)
    sent = 0
    try:
        for _ in range(100_000):
            sent += client.send(framed(packed("api.example.com")) * 1000)
            world.step(1)
    except BlockingIOError:
        assert sent > 0
    else:
        pytest.fail("the resolver read on although nobody took its replies")
    assert answers(world, "evil.example") == (3, [])


def test_many_connections_share_one_slice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_tcp, "SLICE", 1e-9)
    monkeypatch.setattr(dns_tcp, "WINDOW", 1e9)
    clients = [world.stream() for _ in range(10)]
    for number, client in enumerate(clients):
        client.sendall(framed(packed(f"n{number}.evil.example")))
    world.step(20)
    assert len(world.denied) <= 1
    monkeypatch.setattr(dns_tcp, "WINDOW", 0.0)
    for client in clients:
        assert said(dnslib.DNSRecord.parse(received(world, client))) == (3, [])
    assert len(world.denied) == 10


def test_connections_are_few_and_the_quiet_ones_end_first(world: World) -> None:
    clients = [world.stream() for _ in range(dns_tcp.MOST)]
    world.step(10)
    assert len(world.resolver._server) == dns_tcp.MOST
    clients[0].sendall(framed(packed("api.example.com")))
    assert received(world, clients[0])
    late = world.stream()
    world.step(5)
    assert len(world.resolver._server) == dns_tcp.MOST
    assert clients[1].recv(1) == b""
    for client in (clients[0], late):
        client.sendall(framed(packed("api.example.com")))
        assert received(world, client)


def test_slow_connections_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quiet, awaited = world.stream(), world.stream(), world.stream()
    slow.sendall(framed(packed("api.example.com"))[:7])
    awaited.sendall(framed(packed("a.cdn.example.com")))
    world.step(10)
    later = time.monotonic() + dns_tcp.PATIENCE + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    slow.sendall(b"x")
    world.step(5)
    world.resolver.tick()
    assert [client.recv(1) for client in (slow, quiet, awaited)] == [b""] * 3
    world.host.open[0](Found(("93.184.216.40",)))  # nobody is there any more
    assert world.pinned == [("a.cdn.example.com", ("93.184.216.40",))]


def test_a_client_that_leaves_in_the_middle_costs_nothing(world: World) -> None:
    for cut in range(0, 30, 3):
        client = world.stream()
        client.sendall(framed(packed("a.cdn.example.com"))[:cut])
        world.step(3)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        world.step(3)
    assert len(world.resolver._server) == 0


def test_without_descriptors_connections_wait_for_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_tcp, "_RETRY", 0.05)
    client = world.stream()
    client.sendall(framed(packed("api.example.com")))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        world.step(3)
        assert len(world.resolver._server) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    until = time.monotonic() + 60
    while not len(world.resolver._server) and time.monotonic() < until:
        world.loop.step(0.05)
    assert said(dnslib.DNSRecord.parse(received(world, client)))[0] == 0
