"""What a launch needs of a box's private network, decided on the host before the first fork.

The host resolves the listed names here, once, and pins them (:mod:`backends.egress.pins`). Inside, only
pinned addresses pass the packet filter, and only the keeper answers questions for names.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from typing import NoReturn

from backends.egress import artefact, routes, rules
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins, resolve
from backends.kernel import netlink, nftables
from backends.kernel.nftables import Entry
from backends.policy.model import Policy
from backends.record import NamedTuple
from backends.tiers.netns import NetworkPlan
from backends.tiers.protocol import BoxNetwork
from backends.values import Enforcement

RESOLVING = 5.0  # seconds for all names together
_GRACE = 1.0
_SHOWN = 8  # names, and addresses of each, in the row of what is missing
# Documentation addresses (RFC 5737, RFC 3849) and ports of old services: nobody lists all of them, so one of
# each version is off every list and must be refused.
_NOBODY = ("192.0.2.1", "2001:db8::1")
_PORTS = (9, 7, 13, 17, 19)


class Networking(NamedTuple):
    """The network of one launch."""

    plan: NetworkPlan
    entries: frozenset[Entry]
    pins: Pins
    own: tuple[str, ...]  # addresses of the host
    pinned: tuple[tuple[str, tuple[str, ...]], ...]  # names and addresses for the hosts file
    refused: tuple[tuple[str, int], ...]  # destinations that init must find refused
    rows: tuple[Enforcement, ...]

    def live(self, sockets: tuple[socket.socket, ...], hosts: int) -> BoxNetwork:
        """The network of the launched box; ``sockets`` as :func:`backends.tiers.netns.build` made them.

        ``hosts`` writes its hosts file.
        """
        relay4, relay6, *dns, nft = sockets
        return BoxNetwork(relay4, relay6, tuple(dns), nft, self.pins, self.entries, self.own, hosts)


def decide(policy: Policy, resolver: Callable[[Matcher], Pins] | None = None) -> Networking:
    """Parses the list, resolves its names and loads the packet filter.

    ``BadRule`` for a rule that cannot be enforced, ``Refused`` where the filter cannot be encoded. A name
    that cannot be resolved stays closed; the row of ``net.egress`` names it.
    """
    matcher, pins, own = listed(policy, resolver)
    entries = entries_of(matcher, pins)
    made = artefact.load()
    return Networking(
        plan=NetworkPlan(made.batch, made.labels, *nftables.planned((), entries)),
        entries=entries,
        pins=pins,
        own=own,
        pinned=tuple((pin.name, pin.addresses) for pin in pins if pin.addresses),
        refused=tuple(_off_list(address, entries) for address in _NOBODY),
        rows=_rows(policy, matcher, pins),
    )


def listed(
    policy: Policy, resolver: Callable[[Matcher], Pins] | None = None
) -> tuple[Matcher, Pins, tuple[str, ...]]:
    """The list of ``policy``, its names resolved and pinned now, and the host's own addresses, which no name
    opens. ``BadRule`` as :func:`decide`.
    """
    own = netlink.own_addresses()
    matcher = Matcher(rules.parse_all(policy.net.egress) if policy.net.mode == "allow" else (), own)
    return matcher, (resolver or resolved)(matcher) if matcher.fixed() else Pins(), own


def entries_of(matcher: Matcher, pins: Pins) -> frozenset[Entry]:
    """The destinations that the packet filter lets pass; the relay judges each connection once more."""
    found = [nftables.entry(address, port) for address, port in matcher.elements(pins.by_name())]
    for rule in matcher.networks():
        assert rule.network is not None
        found.append(Entry(rule.network.packed, rule.network.bits, rule.port))
    return nftables.reduced(found)


def _off_list(address: str, entries: Iterable[Entry]) -> tuple[str, int]:
    taken = list(entries)
    for port in _PORTS:
        if not any(one.covers(nftables.entry(address, port)) for one in taken):
            return address, port
    raise rules.BadRule(
        "the list leaves nothing to prove",
        f"{address} is listed at the ports {', '.join(map(str, _PORTS))}",
        "leave one of them out",
        code="bad-rule",
    )


# ---- names, resolved by a process of its own: it takes threads, and a keeper forks


def resolved(matcher: Matcher) -> Pins:
    """The pins of every listed name. One that could not be resolved in time is pinned to nothing."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _resolve(matcher, writer)
    os.close(writer)
    try:
        data = _read(reader, time.monotonic() + RESOLVING + _GRACE)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)  # not reaped yet, so its number is still its own
        os.waitpid(child, 0)
    try:
        told = json.loads(data)
        if not isinstance(told, str):
            return Pins.from_json(told)
        why = told
    except ValueError:  # no answer, or one that ends in the middle
        why = "the host's resolver did not answer"
    now = time.time()
    return Pins(Pin(name, (), now, (), why) for name in matcher.fixed())


def _resolve(matcher: Matcher, writer: int) -> NoReturn:
    told: object = ""
    try:
        told = resolve(matcher.fixed(), timeout=RESOLVING, answer=routes.answer(matcher)).as_json()
    except Exception as error:  # noqa: BLE001 - whatever it was, it is why the names stay closed
        told = f"{type(error).__name__}: {error}"
    finally:
        data = memoryview(json.dumps(told).encode())
        while data:
            data = data[os.write(writer, data) :]
        os._exit(0)


def _read(reader: int, until: float) -> bytes:
    out = bytearray()
    while select.select([reader], [], [], max(0.0, until - time.monotonic()))[0]:
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            return bytes(out)
        out += chunk
    return b""


# ---- what is shown


def _rows(policy: Policy, matcher: Matcher, pins: Pins) -> tuple[Enforcement, ...]:
    closed = []
    for pin in pins:
        left_out = ", ".join(f"{address} ({reason})" for address, reason in pin.refused[:_SHOWN])
        if not pin.addresses:
            closed.append(f"{pin.name}: {pin.error}" + (f": {left_out}" if left_out else ""))
        elif left_out:
            closed.append(f"{pin.name}: without {left_out}")
    if len(closed) > _SHOWN:
        closed[_SHOWN:] = [f"{len(closed) - _SHOWN} more names"]
    addresses = {address for pin in pins for address in pin.addresses}
    listed = len(matcher.rules)
    return (
        Enforcement(
            "net.mode",
            policy.net.mode,
            "listed destinations over TCP, nothing else"
            if listed
            else "no destination; refusals are counted",
            "",
            "network namespace, nftables, socket gate" + (", relay" if listed else ""),
            "network, sockets",
        ),
        Enforcement(
            "net.egress",
            f"{listed} rules",
            f"{len(addresses)} addresses of {len(pins)} names, {len(matcher.networks())} networks",
            "; ".join(closed),
            "nftables, relay, resolver",
            "network",
        ),
        *_repinned(policy),
        Enforcement("net.loopback", "true", "the box's own", "", "network namespace", "network"),
    )


def _repinned(policy: Policy) -> tuple[Enforcement, ...]:
    if policy.net.repin is None:
        return ()
    said = f"{policy.net.repin} s"
    return (Enforcement("net.repin", said, "names are looked up again, journalled", "", "keeper", ""),)
