"""The decision about names and destinations (kind N2), for any list of rules."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.egress import addresses
from backends.egress.matcher import Matcher
from backends.egress.rules import Rule, parse_all

NAMES = ["a.example", "b.a.example", "c.b.a.example", "d.example", "xn--bcher-kva.example"]
ADDRESSES = [
    "8.8.8.8",
    "1.1.1.1",
    "10.0.0.1",
    "10.9.9.9",
    "169.254.169.254",
    "127.0.0.1",
    "2606:4700::1",
    "fd00::1",
]
RULES = [
    "a.example",
    "a.example:80",
    "*.a.example",
    "*.b.a.example:22",
    "raw:d.example:22",
    "raw:a.example",
    "d.example",
    "bücher.example",
    "8.8.8.8",
    "10.0.0.0/8",
    "10.0.0.1:22",
    "0.0.0.0/0",
    "0.0.0.0/0:80",
    "169.254.169.254",
    "169.254.0.0/16:80",
    "2606:4700::/32",
    "fd00::/8:22",
    "::/0",
]
ALL = parse_all(RULES)

rules = st.lists(st.sampled_from(ALL), max_size=6)
names = st.lists(st.sampled_from(NAMES), max_size=3)
some_address = st.sampled_from(ADDRESSES)
some_port = st.sampled_from([22, 80, 443])


def test_nothing_is_allowed_without_a_rule() -> None:
    for address in ADDRESSES:
        assert not Matcher([]).destination(address, 443, NAMES, NAMES[0]).allowed
    assert Matcher([]).name("a.example") == ()


@given(rules, rules, some_address, some_port, names, st.none() | st.sampled_from(NAMES))
def test_taking_a_rule_away_never_allows_more(
    few: list[Rule], more: list[Rule], address: str, port: int, held: list[str], said: str | None
) -> None:
    narrow, wide = Matcher(few), Matcher([*few, *more])
    if narrow.destination(address, port, held, said).allowed:
        assert wide.destination(address, port, held, said).allowed
    if narrow.answer(address).allowed:
        assert wide.answer(address).allowed
    assert all(set(narrow.name(name)) <= set(wide.name(name)) for name in NAMES)


@given(rules, some_address, some_port, names)
def test_what_is_allowed_is_allowed_by_a_rule_for_that_port_and_for_nothing_that_is_never_reached(
    held: list[Rule], address: str, port: int, pinned: list[str]
) -> None:
    verdict = Matcher(held).destination(address, port, pinned)
    assert verdict.allowed is (verdict.rule is not None)
    if verdict.rule is None:
        return
    assert verdict.rule in held
    assert verdict.rule.port == port
    assert address != "127.0.0.1"
    if address == "169.254.169.254":
        assert "169.254.169.254" in {rule.text.partition(":")[0] for rule in held}
    if verdict.rule.network is None:
        assert any(verdict.rule.admits(name) for name in pinned)


@given(rules, some_address, some_port, names, st.sampled_from([*NAMES, "evil.example", "", "8.8.8.8"]))
def test_a_connection_that_must_say_a_name_is_allowed_only_for_one_that_led_there(
    held: list[Rule], address: str, port: int, pinned: list[str], said: str
) -> None:
    matcher = Matcher(held)
    before, after = (
        matcher.destination(address, port, pinned),
        matcher.destination(address, port, pinned, said),
    )
    if after.allowed:
        assert before.allowed
    if after.rule is not None and not after.rule.raw:
        assert said in pinned
        assert after.rule.admits(said)
    if before.rule is not None and before.rule.raw:
        assert after == before


@given(rules, st.sampled_from(["8.8.8.8", "10.0.0.1", "169.254.169.254", "127.0.0.1"]), some_port, names)
def test_an_ipv4_mapped_address_is_the_ipv4_address(
    held: list[Rule], address: str, port: int, pinned: list[str]
) -> None:
    matcher = Matcher(held)
    for form in (f"::ffff:{address}", f"::FFFF:{address}", f"0:0:0:0:0:ffff:{address}"):
        assert matcher.destination(form, port, pinned) == matcher.destination(address, port, pinned)
        assert matcher.answer(form) == matcher.answer(address)


@pytest.mark.parametrize(
    "form",
    [
        "134744072",
        "0x08080808",
        "010.010.010.010",
        "8.8.2056",
        "8.8.8.8.",
        " 8.8.8.8",
        "8.8.8.8\0",
        "",
        "a.example",
    ],
)
def test_no_other_form_is_an_address(form: str) -> None:
    matcher = Matcher(ALL)
    assert matcher.destination(form, 443, NAMES).reason == "no numeric address"
    assert not matcher.answer(form).allowed


@given(st.integers(0, 2**32 - 1))
def test_decimal_octal_and_hexadecimal_forms_are_neither_names_nor_addresses(number: int) -> None:
    matcher = Matcher(ALL)
    dotted = [number >> shift & 255 for shift in (24, 16, 8, 0)]
    forms = [str(number), hex(number), f"0{number:o}", ".".join(map(hex, dotted))]
    forms += [".".join(f"0{part:o}" for part in dotted), f"{dotted[0]}.{number & 0xFFFFFF}"]
    for form in forms:
        assert matcher.name(form) == ()
        assert matcher.name(f"{form}.") == ()
        if form != str(ipaddress.ip_address(number)):
            assert not matcher.destination(form, 443).allowed


@given(st.sampled_from(NAMES), st.data())
def test_a_name_in_any_case_with_a_final_dot_is_the_same_name(name: str, data: st.DataObject) -> None:
    matcher = Matcher(ALL)
    mixed = "".join(data.draw(st.sampled_from([char, char.upper()])) for char in name)
    assert matcher.name(mixed) == matcher.name(f"{mixed}.") == matcher.name(name) != ()
    assert matcher.name(f"{mixed}..") == ()


@given(st.text(max_size=30) | st.text("a.ex-mple\0*", max_size=30))
def test_a_wildcard_admits_only_names_below_its_host(name: str) -> None:
    found = Matcher(parse_all(["*.a.example"])).name(name)
    assert bool(found) is (
        name.isascii()
        and name.lower().removesuffix(".").endswith(".a.example")
        and all(
            part.strip("abcdefghijklmnopqrstuvwxyz0123456789_-") == "" for part in name.lower().split(".")
        )
        and "" not in name.removesuffix(".").split(".")
        and not any(part[0] == "-" or part[-1] == "-" for part in name.removesuffix(".").split(".") if part)
    )


def test_the_hosts_own_address_is_opened_by_its_own_rule_only() -> None:
    wide = Matcher(parse_all(["10.0.0.0/8", "a.example"]), own=["10.0.0.1", "8.8.8.8"])
    assert wide.destination("10.0.0.2", 443).allowed
    assert wide.destination("10.0.0.1", 443).reason == "an address of this host"
    assert wide.destination("::ffff:10.0.0.1", 443).reason == "an address of this host"
    assert wide.destination("8.8.8.8", 443, ["a.example"], "a.example").reason == "an address of this host"
    assert wide.answer("8.8.8.8") == addresses.Verdict(False, "an address of this host")
    exact = Matcher(parse_all(["10.0.0.1:22", "a.example"]), own=["10.0.0.1"])
    assert exact.destination("10.0.0.1", 22).allowed
    assert exact.answer("10.0.0.1").allowed
    with pytest.raises(ValueError, match="no address"):
        Matcher([], own=["localhost"])


def test_an_own_address_inside_of_another_form_is_refused_too() -> None:
    matcher = Matcher(parse_all(["a.example", "::/0", "64:ff9b::/96"]), own=["8.8.8.8"])
    for form in ("64:ff9b::8.8.8.8", "2002:808:808::1"):
        assert not matcher.answer(form).allowed, form
        assert not matcher.destination(form, 443, ["a.example"], "a.example").allowed, form


def test_what_the_packet_filter_lets_through_is_what_names_and_ports_open() -> None:
    matcher = Matcher(
        parse_all(["a.example", "a.example:80", "*.a.example", "raw:d.example:22", "10.0.0.0/8:5432"])
    )
    pins = {
        "a.example": ["8.8.8.8", "2606:4700::1"],
        "b.a.example": ["8.8.8.8"],
        "d.example": ["1.1.1.1"],
        "x.y": ["9.9.9.9"],
    }
    assert matcher.elements(pins) == {
        ("8.8.8.8", 443),
        ("8.8.8.8", 80),
        ("2606:4700::1", 443),
        ("2606:4700::1", 80),
        ("1.1.1.1", 22),
    }
    assert [rule.text for rule in matcher.networks()] == ["10.0.0.0/8:5432"]
    assert matcher.fixed() == ("a.example", "d.example")
