"""The keeper's name server on plain loopback sockets, one step at a time."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator

import dnslib
import pytest

from backends.egress import rules
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.keeper import dns_tcp, dns_udp
from backends.keeper.denials import Refusal
from backends.keeper.log import Log
from backends.keeper.lookup import Done, Found
from backends.keeper.loop import Loop
from backends.keeper.resolver import Resolver

RULES = (
    "api.example.com",
    "dual.example.com",
    "inner.example.com",
    "gone.example.com:8443",
    "*.cdn.example.com",
)
PINS = (
    Pin("api.example.com", ("93.184.216.34", "93.184.216.35"), 0.0),
    Pin("dual.example.com", ("93.184.216.36", "2606:4700::1111"), 0.0),
    Pin("inner.example.com", (), 0.0, (("10.0.0.1", "a private network"),), "every address is refused"),
    Pin("gone.example.com", (), 0.0, (), "no answer in 5 s"),
)


class Host:
    """Stands for the host's own resolver: notes what is asked, answers when told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.open: list[Done] = []
        self.answers: dict[str, Found] = {}

    def ask(self, name: str, done: Done) -> None:
        self.asked.append(name)
        if name in self.answers:
            done(self.answers[name])
        else:
            self.open.append(done)

    def tick(self) -> None:
        return

    def close(self) -> None:
        self.open.clear()


class World:
    """A resolver with its sockets, stepped by the test."""

    def __init__(self, log: int) -> None:
        self.errors: list[str] = []
        self.loop = Loop(lambda where, error: self.errors.append(f"{where}: {error!r}"))
        self.host = Host()
        self.denied: Counter[tuple[str, str]] = Counter()
        self.lost: Counter[str] = Counter()
        self.pinned: list[tuple[str, tuple[str, ...]]] = []
        udp4 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp4.bind(("0.0.0.0", 0))
        self.port = udp4.getsockname()[1]
        udp6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        udp6.bind(("::", 0))
        self.port6 = udp6.getsockname()[1]
        tcp4 = socket.create_server(("0.0.0.0", 0), backlog=128)
        self.tcp = tcp4.getsockname()[1]
        self.resolver = Resolver(
            self.loop,
            Log(log),
            [udp4, udp6, tcp4],
            Matcher(rules.parse_all(RULES)),
            Pins(PINS),
            self._deny,
            pinned=lambda name, found: self.pinned.append((name, found)),
            resolve=self.host,
            caller=lambda: (42, "curl"),
            lost=lambda what, count: self.lost.update({what: count}),
            names=["box-one"],
        )
        self.clients: list[socket.socket] = []

    def _deny(self, refusal: Refusal, pid: int, command: str, count: int) -> None:
        assert (refusal.kind, refusal.lane, refusal.enforced_by) == ("dns", "keeper", "resolver")
        assert (pid, command) == (42, "curl")
        self.denied[refusal.object, refusal.rule] += count

    def step(self, rounds: int = 3) -> None:
        for _ in range(rounds):
            self.loop.step(0)

    def client(self, to: str = "127.0.0.1") -> socket.socket:
        """A datagram socket that, connected, takes replies from ``to`` alone."""
        family, port = (socket.AF_INET6, self.port6) if ":" in to else (socket.AF_INET, self.port)
        client = socket.socket(family, socket.SOCK_DGRAM)
        client.settimeout(10)
        client.connect((to, port))
        self.clients.append(client)
        return client

    def stream(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.tcp))
        client.settimeout(10)
        self.clients.append(client)
        return client

    def ask(self, name: str, kind: str = "A", to: str = "127.0.0.1") -> dnslib.DNSRecord:
        client = self.client(to)
        client.send(packed(name, kind))
        self.step()
        return dnslib.DNSRecord.parse(client.recv(4096))

    def close(self) -> None:
        self.resolver.close()
        for client in self.clients:
            client.close()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """With time for all that waits in one step, however busy the machine is."""
    monkeypatch.setattr(dns_udp, "SLICE", 60.0)
    monkeypatch.setattr(dns_tcp, "SLICE", 60.0)
    before = len(os.listdir("/proc/self/fd"))
    null = os.open(os.devnull, os.O_WRONLY)
    world = World(null)
    yield world
    world.close()
    os.close(null)
    assert world.errors == []
    del world
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the loop's own, until it is collected


def packed(name: str, kind: str = "A") -> bytes:
    return bytes(dnslib.DNSRecord.question(name, kind).pack())


def said(record: dnslib.DNSRecord) -> tuple[int, list[str]]:
    return record.header.rcode, [str(one.rdata) for one in record.rr]


def answers(world: World, name: str, kind: str = "A") -> tuple[int, list[str]]:
    return said(world.ask(name, kind))
