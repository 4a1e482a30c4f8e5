"""What a name stands for is decided once, by every answer, and written down."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.egress import pins as pinning
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins, judged, resolve
from backends.egress.rules import parse_all

MATCHER = Matcher(parse_all(["a.example", "b.example", "10.0.0.0/8:22"]))
ANSWERS = [
    "8.8.8.8",
    "1.1.1.1",
    "10.0.0.1",
    "::ffff:8.8.8.8",
    "2606:4700::1",
    "fe80::1%eth0",
    "169.254.169.254",
]


def row(address: str) -> tuple[Any, ...]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return family, socket.SOCK_STREAM, 6, "", (address, 0)


def test_all_public_answers_are_pinned_and_each_other_is_refused_with_its_reason() -> None:
    def lookup(name: str, *_: object) -> list[tuple[Any, ...]]:
        return [
            row(one)
            for one in ("8.8.8.8", "1.1.1.1", "192.168.0.1", "2606:4700::1", "8.8.8.8", "fe80::1%eth0")
        ]

    before = time.time()
    pin = resolve(["A.example."], lookup, answer=MATCHER.answer).get("a.EXAMPLE")
    assert pin is not None
    assert pin.name == "a.example"
    assert pin.addresses == ("1.1.1.1", "8.8.8.8", "2606:4700::1")
    assert pin.refused == (("192.168.0.1", "a private network"), ("fe80::1", "link-local"))
    assert pin.error == ""
    assert before <= pin.when <= time.time()


def test_a_private_answer_is_pinned_where_a_rule_names_it() -> None:
    pins = resolve(["a.example"], lambda *_: [row("10.0.0.1")], answer=MATCHER.answer)
    assert pins.addresses("a.example") == ("10.0.0.1",)


def test_a_name_whose_every_answer_is_refused_or_that_fails_says_so() -> None:
    def lookup(name: str, *_: object) -> list[tuple[Any, ...]]:
        if name == "b.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if name == "c.example":
            raise UnicodeError("label too long")
        return [row("127.0.0.1")] if name == "a.example" else []

    pins = resolve(["a.example", "b.example", "c.example", "d.example"], lookup, answer=MATCHER.answer)
    assert {pin.name: (pin.addresses, pin.error) for pin in pins} == {
        "a.example": ((), "every address is refused"),
        "b.example": ((), "Name or service not known"),
        "c.example": ((), "label too long"),
        "d.example": ((), "it has no address"),
    }


def test_a_lookup_that_hangs_holds_up_nobody_else_and_starts_nothing_later() -> None:
    release = threading.Event()
    asked: list[str] = []

    def lookup(name: str, *_: object) -> list[tuple[Any, ...]]:
        asked.append(name)
        if name.startswith("slow"):
            release.wait(30)
        return [row("8.8.8.8")]

    slow = [f"slow{number}.example" for number in range(16)]
    pins = resolve(["fast.example", *slow, "late.example"], lookup, timeout=0.3, answer=MATCHER.answer)
    release.set()
    assert pins.addresses("fast.example") == ("8.8.8.8",)
    pin = pins.get("slow3.example")
    assert pin is not None and (pin.addresses, pin.error) == ((), "no answer in 0.3 s")
    for thread in [one for one in threading.enumerate() if one.name == "resolve"]:
        thread.join(10)
    assert len(asked) <= 18


def test_many_names_are_asked_for_at_once_but_not_all() -> None:
    lock = threading.Lock()
    now, most = 0, 0

    def lookup(name: str, *_: object) -> list[tuple[Any, ...]]:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1
        return [row("8.8.8.8")]

    pins = resolve([f"n{number}.example" for number in range(100)], lookup, 30, answer=MATCHER.answer)
    assert len(pins) == 100
    assert all(pin.addresses == ("8.8.8.8",) for pin in pins)
    assert 1 < most <= 16


def test_what_is_no_name_is_never_looked_up() -> None:
    def lookup(name: str, *_: object) -> list[tuple[Any, ...]]:
        raise AssertionError(name)

    with pytest.raises(ValueError, match="number"):
        resolve(["a.example", "2130706433"], lookup, answer=MATCHER.answer)


def test_an_address_knows_the_names_that_led_to_it() -> None:
    pins = Pins([Pin("b.example", ("8.8.8.8", "1.1.1.1"), 1.0), Pin("a.example", ("8.8.8.8",), 1.0)])
    assert pins.names("8.8.8.8") == pins.names("::ffff:8.8.8.8") == ("a.example", "b.example")
    assert pins.names("9.9.9.9") == pins.names("x") == ()
    pins.put(Pin("b.example", ("9.9.9.9",), 2.0))
    assert (pins.names("8.8.8.8"), pins.names("1.1.1.1"), pins.names("9.9.9.9")) == (
        ("a.example",),
        (),
        ("b.example",),
    )
    pins.drop("a.example")
    pins.drop("never.example")
    assert pins.names("8.8.8.8") == ()
    assert pins.by_name() == {"b.example": ("9.9.9.9",)}


def test_names_and_addresses_are_bounded() -> None:
    pins = Pins(Pin(f"n{number}.example", (), 0.0) for number in range(pinning.MOST_NAMES))
    assert not pins.put(Pin("more.example", ("8.8.8.8",), 0.0))
    assert pins.put(Pin("n0.example", ("8.8.8.8",), 0.0))
    assert len(pins) == pinning.MOST_NAMES
    assert pins.get("more.example") is None
    flood = [f"8.8.{number >> 8}.{number & 255}" for number in range(1, 1000)]
    pin = judged("a.example", flood, MATCHER.answer, 0.0)
    assert len(pin.addresses) == pinning.MOST_ADDRESSES
    assert len(pin.refused) == pinning.MOST_ADDRESSES


@given(st.lists(st.sampled_from(ANSWERS), max_size=8), st.floats(0, 4e9))
def test_pins_read_back_from_the_journal_as_they_were(found: list[str], when: float) -> None:
    pins = Pins(
        [judged("b.example", found, MATCHER.answer, when), Pin("a.example", (), when, (), "no answer")]
    )
    again = Pins.from_json(json.loads(json.dumps(pins.as_json())))
    assert again.by_name() == pins.by_name()
    assert sorted(again) == sorted(pins)
    assert again.as_json() == pins.as_json()


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [1],
        [{}],
        [{"name": "A.example", "addresses": [], "when": 1, "refused": [], "error": ""}],
        [{"name": "a.example", "addresses": ["010.0.0.1"], "when": 1, "refused": [], "error": ""}],
        [{"name": "a.example", "addresses": ["::ffff:8.8.8.8"], "when": 1, "refused": [], "error": ""}],
        [{"name": "a.example", "addresses": [], "when": "1", "refused": [], "error": ""}],
        [{"name": "a.example", "addresses": [], "when": 1, "refused": ["x"], "error": ""}],
        [{"name": 1, "addresses": [], "when": 1, "refused": [], "error": ""}],
    ],
)
def test_anything_else_is_no_pins(value: object) -> None:
    with pytest.raises(ValueError, match="pin"):
        Pins.from_json(value)
