"""Whether the names of a box's list still stand for the addresses that they were pinned to."""

from __future__ import annotations

from typing import Any, cast

from backends.doctor.policy import trusted
from backends.doctor.rows import Box, Voice, command
from backends.egress import rules
from backends.egress.matcher import Matcher
from backends.egress.pins import Pins, resolve
from backends.evidence import journal
from backends.kernel import netlink
from backends.snapshots import Finding

PATIENCE = 3.0  # seconds for all names together
SHOWN = 4


def check(box: Box) -> list[Finding]:
    """One row for a box that is held to a list with names."""
    policy = trusted(box.paths, box.manifest)
    if policy is None or policy.net.mode != "allow":
        return []
    matcher = Matcher(rules.parse_all(policy.net.egress), netlink.own_addresses())
    names = tuple(matcher.fixed())
    if not names:
        return []
    voice = Voice(box.paths.key, "egress")
    now = resolve(names, timeout=PATIENCE, answer=matcher.answer)
    before = pinned(box)
    repin = command("cloche", "egress", box.paths.key, "--repin")
    restart = repin if box.live.kind == "live" else command("cloche", "run", box.paths.key, "--", "true")
    lost = [f"{pin.name}: {pin.error}" for pin in now if not pin.addresses]
    moved = [
        f"{name}: pinned {', '.join(old)}; now {', '.join(now.addresses(name))}"
        for name, old in before.items()
        if old and name in names and now.addresses(name) and not set(old) & set(now.addresses(name))
    ]
    if lost:
        why = "the box cannot reach these names: what cannot be resolved stays closed"
        text = "names of the list cannot be resolved here"
        return [voice.warn(text, "; ".join(lost[:SHOWN]), why, restart)]
    if moved and box.live.kind == "live":
        why = "the box holds addresses that its names left; whoever has them now is reachable under the name"
        text = "names of the list stand for other addresses than those pinned"
        return [voice.warn(text, "; ".join(moved[:SHOWN]), why, repin)]
    if moved:
        why = "a start pins them anew; nothing is reachable meanwhile"
        return [voice.note("names of the list moved since the last launch", "; ".join(moved[:SHOWN]), why)]
    return [voice.ok("the names of the list resolve to what is pinned", f"{len(names)} names")]


def pinned(box: Box) -> dict[str, tuple[str, ...]]:
    """Each name with the addresses that the journal told last; nothing for a box that was never launched."""
    found: dict[str, tuple[str, ...]] = {}
    for record in journal.read(box.paths.journal):
        if record.kind == "pins":
            try:
                found = dict(Pins.from_json(record.data.get("pins")).by_name())
            except ValueError:
                continue  # the check of the chain tells
        elif record.kind == "repin":
            changed = cast("list[dict[str, Any]]", record.data.get("changed", []))
            for one in changed:
                found[str(one["name"])] = tuple(map(str, one["new"]))
    return found
