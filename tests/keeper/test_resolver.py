"""The keeper's name server, on plain loopback sockets: what it answers and counts, what a flood can do."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator

import dnslib
import pytest

from backends.egress import rules
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.keeper import dns_tcp, dns_udp, resolver
from backends.keeper.denials import Refusal
from backends.keeper.log import Log
from backends.keeper.lookup import Done, Found
from backends.keeper.loop import READ, Loop
from backends.keeper.resolver import ADDRESS_REFUSED, KEPT, MALFORMED, RULE, Resolver

pytestmark = pytest.mark.real

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


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("api.example.com", "A", (0, ["93.184.216.34", "93.184.216.35"])),
        ("aPI.eXample.COM", "A", (0, ["93.184.216.34", "93.184.216.35"])),
        ("api.example.com", "AAAA", (0, [])),
        ("dual.example.com", "AAAA", (0, ["2606:4700::1111"])),
        ("api.example.com", "HTTPS", (0, [])),
        ("api.example.com", "TXT", (0, [])),
        ("api.example.com", "ANY", (0, [])),
        ("x.cdn.example.com", "HTTPS", (0, [])),
        ("gone.example.com", "A", (0, [])),
        ("localhost", "A", (0, ["127.0.0.1"])),
        ("localhost", "AAAA", (0, ["::1"])),
        ("app.localhost", "A", (0, ["127.0.0.1"])),
        ("box-one", "A", (0, ["127.0.0.1"])),
        ("BOX-ONE", "TXT", (0, [])),
        ("1.0.0.127.in-addr.arpa", "PTR", (3, [])),
        (".".join("1" + "0" * 31) + ".ip6.arpa", "PTR", (3, [])),
        ("34.216.184.93.in-addr.arpa", "PTR", (3, [])),
    ],
)
def test_allowed_and_own_names_are_answered_and_not_counted(
    world: World, name: str, kind: str, expected: tuple[int, list[str]]
) -> None:
    assert answers(world, name, kind) == expected
    assert world.denied == {}
    assert world.host.asked == []


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("telemetry.example", "A", "telemetry.example"),
        ("Telemetry.EXAMPLE", "AAAA", "telemetry.example"),
        ("example.com", "A", "example.com"),
        ("cdn.example.com", "A", "cdn.example.com"),
        ("xapi.example.com", "A", "xapi.example.com"),
        ("api.example.com.evil.example", "A", "api.example.com.evil.example"),
        ("secret-data.evil.example", "TXT", "secret-data.evil.example"),
        ("*.cdn.example.com", "A", "*.cdn.example.com"),
        ("1.2.3.4", "A", "1.2.3.4"),
        ("5.113.0.203.in-addr.arpa", "PTR", "5.113.0.203.in-addr.arpa"),
        ("34.216.184.93.in-addr.arpa", "TXT", "34.216.184.93.in-addr.arpa"),
        (".", "NS", "."),
    ],
)
def test_every_other_name_is_refused_counted_by_name_and_never_asked_of_the_host(
    world: World, name: str, kind: str, shown: str
) -> None:
    assert answers(world, name, kind) == (3, [])
    assert world.denied == {(shown, RULE): 1}
    assert world.host.asked == []
    assert world.pinned == []


def test_another_class_is_refused(world: World) -> None:
    client = world.client()
    client.send(bytes(dnslib.DNSRecord.question("version.bind", "TXT", "CH").pack()))
    world.step()
    assert said(dnslib.DNSRecord.parse(client.recv(4096))) == (3, [])
    assert world.denied == {("version.bind", RULE): 1}


def test_a_name_whose_every_address_was_refused_is_counted_with_the_reason(world: World) -> None:
    assert answers(world, "inner.example.com") == (3, [])
    assert world.denied == {("inner.example.com", f"{ADDRESS_REFUSED}: a private network"): 1}


def test_what_is_no_query_is_counted_and_answered_by_silence_or_a_header(world: World) -> None:
    client = world.client()
    for message in (b"", b"x", b"\0" * 12, packed("api.example.com") + b"\0" * 5000):
        client.send(message)
    client.send(b"\x12\x34\x81\x80" + packed("api.example.com")[4:])
    world.step()
    assert [len(client.recv(100)) for _ in range(2)] == [12, 12]
    client.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.recv(100)
    assert Counter({name: count for (name, _), count in world.denied.items()}) == {MALFORMED: 5}


def test_names_of_terminal_codes_are_counted_as_plain_text(world: World) -> None:
    client = world.client()
    client.send(packed("api.example.com")[:12] + b"\x05\x1b]0;x\x03com\0" + b"\0\x01\0\x01")
    world.step()
    assert list(world.denied) == [("\\027\\0930\\059x.com", RULE)]


@pytest.mark.parametrize("to", ["127.0.0.1", "127.0.0.53", "127.9.8.7", "::1"])
def test_a_reply_comes_from_the_address_that_was_asked(world: World, to: str) -> None:
    assert said(world.ask("api.example.com", to=to))[0] == 0


def test_rules_that_change_count_at_once(world: World) -> None:
    world.host.answers["a.cdn.example.com"] = Found(("93.184.216.40",))
    assert answers(world, "a.cdn.example.com") == (0, ["93.184.216.40"])
    pins = Pins([Pin("new.example.org", ("93.184.216.50",), 0.0)])
    world.resolver.use(Matcher(rules.parse_all(["new.example.org"])), pins)
    assert answers(world, "new.example.org") == (0, ["93.184.216.50"])
    assert answers(world, "a.cdn.example.com") == (3, [])
    assert answers(world, "api.example.com") == (3, [])


# ---------------------------------------------------------------- names below wildcards


def test_a_name_below_a_wildcard_is_let_through_before_the_box_learns_its_addresses(world: World) -> None:
    client = world.client()
    client.send(packed("a.cdn.example.com"))
    world.step()
    seen: list[object] = []

    def pinned(name: str, found: tuple[str, ...]) -> None:
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(100)
        seen.append((name, found))

    world.resolver._pinned = pinned
    (done,) = world.host.open
    done(Found(("93.184.216.40", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "2606:4700::1")))
    assert seen == [("a.cdn.example.com", ("93.184.216.40", "2606:4700::1"))]
    assert said(dnslib.DNSRecord.parse(client.recv(4096))) == (0, ["93.184.216.40"])
    assert answers(world, "A.CDN.example.com", "AAAA") == (0, ["2606:4700::1"])
    assert world.host.asked == ["a.cdn.example.com"]
    assert world.denied == {}


def test_what_cannot_be_let_through_is_not_told(world: World) -> None:
    def pinned(_name: str, _found: tuple[str, ...]) -> None:
        raise OSError("no such set")

    world.resolver._pinned = pinned
    world.host.answers["a.cdn.example.com"] = Found(("93.184.216.40",))
    assert answers(world, "a.cdn.example.com") == (2, [])


def test_private_answers_below_a_wildcard_are_refused_counted_and_not_pinned(world: World) -> None:
    world.host.answers["a.cdn.example.com"] = Found(("10.0.0.1", "::1"))
    assert answers(world, "a.cdn.example.com") == (3, [])
    assert answers(world, "a.cdn.example.com", "AAAA") == (3, [])
    assert world.denied == {("a.cdn.example.com", f"{ADDRESS_REFUSED}: a private network"): 2}
    assert world.pinned == []


@pytest.mark.parametrize(("error", "rcode", "asked"), [("none", 3, 1), ("again", 2, 2)])
def test_the_host_s_own_failures_are_passed_on_and_not_counted(
    world: World, error: str, rcode: int, asked: int
) -> None:
    world.host.answers["a.cdn.example.com"] = Found((), error)
    assert [answers(world, "a.cdn.example.com") for _ in range(2)] == [(rcode, [])] * 2
    assert len(world.host.asked) == asked
    assert world.denied == {}


def test_one_lookup_serves_all_who_ask_and_is_bounded(world: World) -> None:
    clients = [world.client() for _ in range(resolver.ASKERS + 1)]
    for client in clients:
        client.send(packed("a.cdn.example.com"))
    world.step(10)
    (done,) = world.host.open
    assert said(dnslib.DNSRecord.parse(clients[-1].recv(4096))) == (2, [])
    done(Found(("93.184.216.40",)))
    for client in clients[:-1]:
        assert said(dnslib.DNSRecord.parse(client.recv(4096))) == (0, ["93.184.216.40"])


def test_a_flood_of_names_below_a_wildcard_keeps_what_waits_and_what_is_kept_bounded(world: World) -> None:
    client = world.client()
    for number in range(resolver.ASKED + 50):
        client.send(packed(f"n{number}.cdn.example.com"))
        world.step(1)
    assert len(world.host.asked) == resolver.ASKED
    for number, done in enumerate(world.host.open):
        done(Found((f"93.184.{number >> 8}.{number & 255}",)))
    for number in range(resolver.KEPT_NAMES + 50):
        world.host.answers[f"m{number}.cdn.example.com"] = Found(("93.184.216.40",))
        client.send(packed(f"m{number}.cdn.example.com"))
        world.step(1)
    assert len(world.resolver._kept) == resolver.KEPT_NAMES


def test_what_waits_for_lookups_is_bounded_in_all(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "ALL_ASKERS", 20)
    client = world.client()
    for number in range(30):
        client.send(packed(f"n{number % 7}.cdn.example.com"))
    world.step(10)
    assert [said(dnslib.DNSRecord.parse(client.recv(4096)))[0] for _ in range(10)] == [2] * 10
    for done in world.host.open:
        done(Found(("93.184.216.40",)))
    assert [said(dnslib.DNSRecord.parse(client.recv(4096)))[0] for _ in range(20)] == [0] * 20
    client.send(packed("n9.cdn.example.com"))
    world.step()
    assert world.host.asked[-1] == "n9.cdn.example.com"


def test_an_answer_is_given_again_for_a_while_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    world.host.answers["a.cdn.example.com"] = Found(("93.184.216.40",))
    assert answers(world, "a.cdn.example.com") == (0, ["93.184.216.40"])
    now += KEPT - 1
    answers(world, "a.cdn.example.com")
    assert len(world.host.asked) == 1
    now += 2
    answers(world, "a.cdn.example.com")
    assert len(world.host.asked) == 2


def test_a_rule_that_is_taken_back_while_the_host_looks_opens_nothing(world: World) -> None:
    client = world.client()
    client.send(packed("a.cdn.example.com"))
    world.step()
    world.resolver.use(Matcher(()), Pins())
    world.host.open[0](Found(("93.184.216.40",)))
    assert said(dnslib.DNSRecord.parse(client.recv(4096))) == (3, [])
    assert world.pinned == []


# ---------------------------------------------------------------- floods


def test_others_are_served_while_a_flood_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_udp, "SLICE", 0.0)
    client = world.client()
    for number in range(50):
        client.send(packed(f"n{number}.evil.example"))
    reader, writer = os.pipe()
    served = []
    world.loop.add(reader, READ, lambda _events: served.append(os.read(reader, 1)))
    os.write(writer, b"x")
    world.step(1)
    assert served == [b"x"]
    assert 1 <= len(world.denied) < 50
    world.step(60)
    assert len(world.denied) == 50
    world.loop.remove(reader)
    os.close(reader)
    os.close(writer)


def test_every_query_of_a_flood_is_counted_or_told_as_lost(world: World) -> None:
    client = world.client()
    for number in range(5000):
        client.send(packed(f"n{number}.evil.example"))
    world.step(100)
    client.send(packed("last.evil.example"))  # the kernel tells of what it dropped with the next one
    world.step(3)
    assert world.lost["dns queries"] > 0
    assert sum(world.denied.values()) + world.lost["dns queries"] == 5001


# ---------------------------------------------------------------- TCP


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
    until = time.monotonic() + 10
    while not len(world.resolver._server) and time.monotonic() < until:
        world.loop.step(0.05)
    assert said(dnslib.DNSRecord.parse(received(world, client)))[0] == 0
