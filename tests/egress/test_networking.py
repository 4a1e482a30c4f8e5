"""What a launch decides of a network: destinations of the filter, names resolved apart, what is told."""

from __future__ import annotations

import os
import time

import pytest

from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.egress.rules import BadRule, parse_all
from backends.kernel.nftables import entry
from backends.policy.model import NetPolicy, Policy
from backends.tiers import networking
from tests import support
from tests.policy.test_canonical import EXAMPLE

PINS = Pins(
    [
        Pin("a.example", ("203.0.114.1", "2a00::1"), 1.0, (("10.0.0.1", "private"),)),
        Pin("b.example", (), 1.0, (("127.0.0.1", "loopback"),), "every address is refused"),
        Pin("c.example", (), 1.0, (), "no such name"),
    ]
)


def policy(*egress: str, mode: str = "allow") -> Policy:
    return EXAMPLE._replace(tier="supervised", net=NetPolicy(mode, egress, True, True))


def matcher(*egress: str) -> Matcher:
    return Matcher(parse_all(egress))


def test_the_filter_lets_pass_what_names_and_networks_open() -> None:
    listed = matcher(
        "a.example", "a.example:8443", "198.51.101.0/24:80", "198.51.101.128/25:80", "9.9.9.9:853"
    )
    wanted = {
        *(entry(address, port) for address in ("203.0.114.1", "2a00::1") for port in (443, 8443)),
        entry("198.51.101.0/24", 80),
        entry("9.9.9.9", 853),
    }
    assert networking.entries_of(listed, PINS) == wanted


def test_a_name_that_no_rule_admits_opens_nothing() -> None:
    assert networking.entries_of(matcher("other.example"), PINS) == frozenset()


def test_init_tries_a_destination_of_each_version_that_is_not_listed() -> None:
    assert networking.decide(policy(mode="deny")).refused == (("192.0.2.1", 9), ("2001:db8::1", 9))
    found = networking.decide(policy("192.0.2.0/24:9", "0.0.0.0/0:7", "[2001:db8::1]:9")).refused
    assert found == (("192.0.2.1", 13), ("2001:db8::1", 7))


def test_a_list_that_leaves_nothing_to_prove_is_refused() -> None:
    with pytest.raises(BadRule, match="nothing to prove"):
        networking.decide(policy(*(f"0.0.0.0/0:{port}" for port in (7, 9, 13, 17, 19))))


def test_without_a_list_no_rule_is_read_and_no_name_resolved() -> None:
    def never(_: Matcher) -> Pins:
        raise AssertionError("a name was resolved")

    found = networking.decide(policy("a.example", mode="deny"), never)
    assert (found.entries, found.pinned, len(found.pins)) == (frozenset(), (), 0)
    assert found.rows[0].enforced == "no destination; refusals are counted"


def test_what_stays_closed_is_told_with_its_reason() -> None:
    names = ("a.example", "b.example", "c.example")
    found = networking.decide(policy(*names), lambda _: PINS)
    assert found.pins is PINS
    assert found.pinned == (("a.example", ("203.0.114.1", "2a00::1")),)
    row = next(row for row in found.rows if row.key == "net.egress")
    assert (row.requested, row.enforced) == ("3 rules", "2 addresses of 3 names, 0 networks")
    assert row.missing == (
        "a.example: without 10.0.0.1 (private); "
        "b.example: every address is refused: 127.0.0.1 (loopback); c.example: no such name"
    )


def test_a_long_list_of_closed_names_is_cut() -> None:
    many = Pins(Pin(f"n{n}.example", (), 1.0, (), "no such name") for n in range(100))
    row = networking.decide(policy("a.example"), lambda _: many).rows[1]
    assert row.missing.endswith("; 92 more names")
    assert len(row.missing) < 400


def test_names_are_resolved_by_a_process_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pid, before = os.getpid(), support.children()

    def resolve(names: object, **_: object) -> Pins:
        return Pins([Pin("a.example", ("203.0.114.1",), float(os.getpid()), (), str(names))])

    monkeypatch.setattr(networking, "resolve", resolve)
    (pin,) = networking.resolved(matcher("a.example", "*.other.example", "9.9.9.9"))
    assert (pin.name, pin.addresses, pin.error) == ("a.example", ("203.0.114.1",), "('a.example',)")
    assert pin.when != pid
    assert support.children() <= before, "it was collected"


def fails(*_: object, **__: object) -> Pins:
    raise OSError("no resolver")


def hangs(*_: object, **__: object) -> Pins:
    time.sleep(60)
    raise AssertionError


@pytest.mark.parametrize(
    ("resolve", "why"),
    [(fails, "OSError: no resolver"), (hangs, "the host's resolver did not answer")],
)
def test_a_resolver_that_fails_or_hangs_leaves_its_names_closed(
    resolve: object, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = support.children()
    monkeypatch.setattr(networking, "RESOLVING", 0.1)
    monkeypatch.setattr(networking, "_GRACE", 0.1)
    monkeypatch.setattr(networking, "resolve", resolve)
    pins = networking.resolved(matcher("a.example", "b.example:80"))
    assert {pin.name: (pin.addresses, pin.error) for pin in pins} == dict.fromkeys(
        ("a.example", "b.example"), ((), why)
    )
    assert support.children() <= before, "it was collected"
