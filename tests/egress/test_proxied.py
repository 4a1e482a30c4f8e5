"""Where a target leads: never further than the matcher lets the name and its pinned addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.egress import proxied
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.egress.proxyhead import Target
from backends.egress.rules import parse

NO, GOOD = "no rule allows it", "a.example allows it"
A, B, V6, OWN, PRIVATE = "93.184.215.14", "93.184.215.15", "2a00:77::10", "93.184.215.99", "10.1.2.3"
NAMES = ("a.example", "b.example", "x.wild.example", "deep.x.wild.example", "wild.example", "in.example")


def way(rules: list[str], pins: dict[str, tuple[str, ...]], host: str, port: int = 443) -> proxied.Way:
    return proxied.way(_matcher(rules), _pins(pins), Target(host, port, True))


def _matcher(rules: list[str]) -> Matcher:
    return Matcher(map(parse, rules), (OWN,))


def _pins(pins: dict[str, tuple[str, ...]]) -> Pins:
    return Pins(Pin(name, addresses, 1.0) for name, addresses in pins.items())


@pytest.mark.parametrize(
    ("rules", "pins", "host", "port", "expected"),
    [
        (["a.example"], {"a.example": (A, V6)}, "a.example", 443, ((A, V6), False, GOOD, False)),
        (["raw:a.example:22"], {"a.example": (A,)}, "a.example", 22,
         ((A,), True, "raw:a.example:22 allows it", False)),
        (["*.wild.example"], {}, "x.wild.example", 443, ((), False, "its name was not looked up", True)),
        (["*.wild.example"], {"x.wild.example": (B,)}, "x.wild.example", 443,
         ((B,), False, "*.wild.example allows it", False)),
        (["*.wild.example"], {"wild.example": (B,)}, "wild.example", 443, ((), False, NO, False)),
        (["a.example"], {}, "a.example", 443, ((), False, "its name was not looked up", False)),
        (["a.example"], {"a.example": (A,)}, "a.example", 80,
         ((), False, "a.example is allowed on port 443 only", False)),
        (["a.example"], {"a.example": (A,), "b.example": (A,)}, "b.example", 443, ((), False, NO, False)),
        (["a.example"], {"a.example": (A,)}, A, 443, ((), False, NO, False)),
        ([A], {"a.example": (A,)}, A, 443, ((A,), True, f"{A} allows it", False)),
        ([A], {"a.example": (A,)}, "a.example", 443, ((), False, NO, False)),
        (["a.example"], {"a.example": (OWN,)}, "a.example", 443,
         ((), False, "an address of this host", False)),
        (["a.example"], {"a.example": (PRIVATE, A)}, "a.example", 443, ((A,), False, GOOD, False)),
        (["a.example", f"{OWN}:443"], {"a.example": (OWN,)}, "a.example", 443,
         ((OWN,), False, GOOD, False)),
    ],
)  # fmt: skip
def test_a_target_leads_where_a_rule_and_a_pin_say(
    rules: list[str], pins: dict[str, tuple[str, ...]], host: str, port: int, expected: tuple[object, ...]
) -> None:
    assert way(rules, pins, host, port) == expected


def test_few_addresses_of_a_name_are_tried() -> None:
    many = tuple(f"93.184.{n}.1" for n in range(60))
    assert way(["a.example"], {"a.example": many}, "a.example").addresses == many[: proxied.MOST_WAYS]


RULES = [
    "a.example",
    "a.example:80",
    "raw:b.example:22",
    "*.wild.example",
    "in.example",
    "10.0.0.0/8:443",
    A,
    OWN,
]
ADDRESSES = st.sampled_from([A, B, V6, OWN, PRIVATE, "127.0.0.1", "::1", "169.254.169.254"])


@given(
    st.lists(st.sampled_from(RULES), unique=True),
    st.dictionaries(st.sampled_from(NAMES), st.lists(ADDRESSES, max_size=4).map(tuple)),
    st.one_of(st.sampled_from(NAMES), ADDRESSES),
    st.sampled_from([22, 80, 443, 8080]),
)
def test_nothing_is_reached_that_the_matcher_refuses(
    rules: list[str], pins: dict[str, tuple[str, ...]], host: str, port: int
) -> None:
    found = way(rules, pins, host, port)
    matcher = _matcher(rules)
    for address in found.addresses:
        named = () if address == host else (host,)
        verdict = matcher.destination(address, port, named, host if named else None)
        assert verdict.allowed, (found, verdict)
        assert address == host or address in pins[host]
    if found.addresses and not found.raw:
        assert any(rule.port == port for rule in matcher.name(host))
    assert found.reason


def test_loopback_never_goes_to_the_proxy() -> None:
    told = proxied.variables()
    assert told["https_proxy"] == told["HTTPS_PROXY"] == told["http_proxy"] == "http://127.0.0.1:3128"
    assert told["no_proxy"] == told["NO_PROXY"] == "localhost,127.0.0.1,::1"
    assert "HTTP_PROXY" not in told  # a CGI program would take it from a header (CVE-2016-5385)
