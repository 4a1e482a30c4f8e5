"""A box's list of destinations beside what it leads to and what went through: one row a name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from backends.egress import addresses
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.egress.rules import Rule

if TYPE_CHECKING:
    from backends.keeper.relay_net import Row


class Line(NamedTuple):
    """The fields of :class:`backends.snapshots.EgressRow`, in its order."""

    rule: str
    name: str
    addresses: tuple[str, ...]
    port: int
    connections: int
    sent: int  # bytes
    received: int  # bytes
    refused: int
    state: str


def lines(matcher: Matcher, pins: Pins, traffic: Iterable[Row]) -> tuple[Line, ...]:
    """Each rule with the names it stands for. What one address carried for several rules shows at each."""
    rows = tuple(traffic)
    return tuple(line for rule in matcher.rules for line in _lines(rule, pins, rows))


def _lines(rule: Rule, pins: Pins, rows: tuple[Row, ...]) -> Iterator[Line]:
    if rule.network is not None:
        found = [row for row in rows if row.port == rule.port and _covers(rule, row.address)]
        through = [row for row in found if not row.name]
        yield _line(rule, "", (str(rule.network),), through, found, "open")
    elif rule.kind == "name":
        pin = pins.get(rule.host)
        yield _named(rule, rule.host, pin, rows)
    else:
        below = [pin for pin in pins if rule.admits(pin.name)]
        for pin in below:
            yield _named(rule, pin.name, pin, rows)
        if not below:
            yield Line(rule.text, "", (), rule.port, 0, 0, 0, 0, "open: nothing below it was looked up yet")


def _named(rule: Rule, name: str, pin: Pin | None, rows: tuple[Row, ...]) -> Line:
    pinned = pin.addresses if pin else ()
    there = [row for row in rows if row.port == rule.port and row.address in pinned]
    # Connections to addresses that the name had before a re-pin still count as its own.
    through = [row for row in rows if row.port == rule.port and row.name == name]
    if rule.raw:
        through += [row for row in there if not row.name]
    return _line(rule, name, pinned, through, there, _state(pin))


def _line(
    rule: Rule, name: str, shown: tuple[str, ...], through: list[Row], there: list[Row], state: str
) -> Line:
    return Line(
        rule.text,
        name,
        shown,
        rule.port,
        sum(row.connections for row in through),
        sum(row.sent for row in through),
        sum(row.received for row in through),
        sum(row.refused for row in there),
        state,
    )


def _state(pin: Pin | None) -> str:
    if pin is not None and pin.addresses:
        return "pinned"
    if pin is not None and pin.refused:
        return "refused: " + ", ".join(f"{address} is {reason}" for address, reason in pin.refused)
    return f"unresolved: {pin.error if pin and pin.error else 'it was not looked up'}"


def _covers(rule: Rule, address: str) -> bool:
    raw = addresses.packed(address) if address else None
    return raw is not None and rule.network is not None and rule.network.opens(raw).allowed
