"""The keeper's name server, on plain loopback sockets: what it answers and counts, what a flood can do."""

from __future__ import annotations

import os
import time
from collections import Counter

import dnslib
import pytest

from backends.egress import rules
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.keeper import dns_udp, resolver
from backends.keeper.lookup import Found
from backends.keeper.loop import READ
from backends.keeper.resolver import ADDRESS_REFUSED, KEPT, MALFORMED, RULE
from tests.keeper.resolver_stepped import World, answers, packed, said, world

__all__ = ["world"]

pytestmark = pytest.mark.real

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
