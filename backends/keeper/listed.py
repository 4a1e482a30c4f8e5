"""The list of destinations of one live box, whoever holds the box to it: what is pinned, changed and told.

A packet filter with a relay (``egress``) or a proxy (``proxy_egress``) does the holding. The list is widened
by a person's act alone, never where the profile denies the network, and never from inside.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from backends.egress import pins as pinning
from backends.egress import routes, rules
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.egress.rules import Rule
from backends.errors import ClocheError, Refused
from backends.keeper import egress_rows
from backends.keeper.egress_rows import Line
from backends.keeper.log import Log
from backends.keeper.lookup import Found, Lookups
from backends.keeper.loop import Loop
from backends.keeper.packets import Asked, Deny
from backends.keeper.relay_net import Relay
from backends.kernel import netlink
from backends.policy.model import Policy

if TYPE_CHECKING:
    from backends.keeper.relay_net import Row

TOLD_EVERY = 60.0  # seconds between two records of what went through
_AT_A_TIME = 32  # names of a re-pin that wait for the host's resolver
WHY = {"none": "the host knows no such name", "again": "the host's resolver gave no answer"}

Record = Callable[[str, Mapping[str, object]], None]
Done = Callable[["dict[str, object] | ClocheError"], None]


class Listed(ABC):
    """``deny(refusal, pid, command, count)`` counts, ``record`` journals.

    Nothing is answered, let through or counted before :meth:`begin`: until then init proves its claims.
    """

    variables: Mapping[str, str] = MappingProxyType({})  # what a session is told of the way out

    def __init__(
        self,
        loop: Loop,
        log: Log,
        policy: Policy,
        pins: Pins,
        own: tuple[str, ...],
        deny: Deny,
        record: Record,
    ) -> None:
        self._loop = loop
        self._log = log
        self._policy = policy
        self._deny = deny
        self._record = record
        self.asked = Asked()
        self._pins = pins
        self._former = Pins()  # what live connections were let through by, after their names were pinned anew
        self._matcher = Matcher(rules.parse_all(policy.net.egress) if policy.net.mode == "allow" else (), own)
        self._own = own  # addresses of the host, which gains and loses some
        self._live: dict[str, None] = {}  # names below wildcards, the oldest first
        self._told: dict[tuple[str, int, str], Row] = {}
        self._told_at = time.monotonic()
        self._repin_at = 0.0
        self._lookups: Routed | None = None
        self._relay: Relay | None = None
        self._closed = False

    # ------------------------------------------------------------ what holds the box to it

    @abstractmethod
    def begin(self) -> None:
        """The box is proved: count, answer and let through from now on."""

    @abstractmethod
    def tick(self) -> None:
        """Once a second."""

    @abstractmethod
    def count_up(self) -> None:
        """Count all that was refused so far."""

    @abstractmethod
    def close(self) -> None:
        """Count a last time, end every connection and close what listens; twice does no harm."""

    @abstractmethod
    def _use(self, matcher: Matcher) -> None:
        """Have all that holds the box hold ``matcher`` with the pins as they are now.

        ``OSError`` where one of them takes no more; then nothing was changed.
        """

    @abstractmethod
    def _judge_by(self, matcher: Matcher) -> None:
        """The same list with other addresses of the host: what was let through goes on."""

    # ------------------------------------------------------------ what comes by itself

    def due(self) -> float:
        """When names are looked up anew, in monotonic seconds; 0 for never."""
        return self._repin_at

    def _look_at_host(self) -> None:
        """An address that the host gained since the launch is its own: no network and no name opens it."""
        try:
            own = netlink.own_addresses()
        except OSError as error:
            self._log.failure("the host's own addresses", error)
            return
        if set(own) != set(self._own):
            self._own = own
            self._matcher = Matcher(self._matcher.rules, own)
            self._judge_by(self._matcher)

    def _in_time(self) -> None:
        """Tell and look up anew what is due now."""
        now = time.monotonic()
        if now >= self._told_at + TOLD_EVERY:
            self.tell()
        if self._repin_at and now >= self._repin_at:
            self._repin_later()
            self.repin("net.repin", self._repinned_by_itself)

    def _repin_later(self) -> None:
        if self._policy.net.repin is not None:
            self._repin_at = time.monotonic() + self._policy.net.repin

    def _repinned_by_itself(self, told: dict[str, object] | ClocheError) -> None:
        if isinstance(told, ClocheError):
            self._log.failure("net.repin", told)

    def _retire(self, name: str) -> None:
        pin = self._pins.get(name)
        if pin is not None and pin.addresses:
            both = tuple(dict.fromkeys((*pin.addresses, *self._former.addresses(name))))
            self._former.put(pin._replace(addresses=both[: pinning.MOST_ADDRESSES]))
        self._pins.drop(name)

    # ------------------------------------------------------------ what a person changes

    def allow(self, text: str, who: str, done: Done) -> None:
        """Take a rule from now on; ``done`` gets the reply, at once or when its name was looked up.

        Raises ``Refused`` where the profile denies the network, ``BadRule`` for what is no rule.
        """
        if self._policy.net.mode != "allow":
            raise Refused(
                f"the running box does not take {text}",
                "its profile denies the network, and what denies all is never widened while it runs",
                'decide it in the profile: net.mode = "allow" with net.egress',
                code="deny-all",
            )
        rule = rules.parse(text)
        if rule in self._matcher.rules:
            done({"rule": rule.text, "pins": self._shown((rule.host,)), "known": True})
        elif rule.kind == "name" and not self._is_fixed(rule.host):
            self._ask((rule.host,), lambda found: self._answered(rule, who, found, done))
        else:
            self._add(rule, who, done)

    def _is_fixed(self, name: str) -> bool:
        return name in self._matcher.fixed() and bool(self._pins.addresses(name))

    def _answered(self, rule: Rule, who: str, found: Mapping[str, Found], done: Done) -> None:
        after = Matcher((*self._matcher.rules, rule), self._own)
        pin = pinned(rule.host, found[rule.host], after)
        if not pin.addresses:
            refused = ", ".join(f"{address} is {reason}" for address, reason in pin.refused)
            done(
                Refused(
                    f"the running box does not take {rule.text}",
                    f"{pin.error}: {refused}" if refused else pin.error,
                    "see that the host resolves the name to an address of the internet, and try again",
                    code="unresolved",
                )
            )
            return
        self._add(rule, who, done, pin)

    def _add(self, rule: Rule, who: str, done: Done, pin: Pin | None = None) -> None:
        self.count_up()  # what was refused until now was refused by the rules until now
        before = self._pins.get(pin.name) if pin is not None else None
        if pin is not None and not self._pins.put(pin):
            done(_full(f"at most {pinning.MOST_NAMES} names are pinned"))
            return
        try:
            self._use(Matcher((*self._matcher.rules, rule), self._own))
        except OSError as error:
            if pin is not None:
                self._pins.drop(pin.name)
                if before is not None:
                    self._pins.put(before)
            done(_full(f"the packet filter takes no more: {error.strerror}"))
            return
        self._live.pop(rule.host, None)  # no longer one that may go
        shown = self._shown((rule.host,))
        self._record("egress-rule", {"rule": rule.text, "who": who, "pins": shown})
        done({"rule": rule.text, "pins": shown, "known": False})

    def repin(self, who: str, done: Done) -> None:
        """Look every listed name up again. Live connections go on; a name without an answer keeps its pin."""
        self._ask(self._matcher.fixed(), lambda found: self._repinned(found, who, done))

    def _repinned(self, found: Mapping[str, Found], who: str, done: Done) -> None:
        self.count_up()
        changed: list[dict[str, object]] = []
        kept: list[dict[str, object]] = []
        undo: list[Pin] = []
        for name, answer in found.items():
            before = self._pins.get(name)
            pin = pinned(name, answer, self._matcher)
            old = list(before.addresses) if before else []
            if not pin.addresses:
                why = pin.error if not pin.refused else f"{pin.error}: {pin.refused[0][1]}"
                kept.append({"name": name, "addresses": old, "why": why})
            elif old != list(pin.addresses):
                changed.append({"name": name, "old": old, "new": list(pin.addresses)})
                undo += [before] if before else []
                self._retire(name)
                self._pins.put(pin)
        try:
            self._use(self._matcher)
        except OSError as error:
            for pin in undo:
                self._pins.put(pin)
            done(_full(f"the packet filter takes no more: {error.strerror}"))
            return
        told: dict[str, object] = {"names": len(found), "changed": changed, "kept": kept}
        self._record("repin", {"who": who, **told})
        done(told)

    def _ask(self, names: Collection[str], then: Callable[[Mapping[str, Found]], None]) -> None:
        """Have the host look ``names`` up, some at a time, and call ``then`` with all the answers."""
        found: dict[str, Found] = {}
        todo = list(reversed(list(names)))

        def answered(name: str, answer: Found) -> None:
            found[name] = answer
            if todo:
                ask(todo.pop())
            elif len(found) == len(names):
                then(found)

        def ask(name: str) -> None:
            assert self._lookups is not None
            self._lookups.ask(name, lambda answer: answered(name, answer), first=True)

        if not names:
            then(found)
        for _ in range(min(_AT_A_TIME, len(todo))):
            if todo:
                ask(todo.pop())

    # ------------------------------------------------------------ what is shown

    def _shown(self, names: Collection[str]) -> dict[str, object]:
        return {name: list(self._pins.addresses(name)) for name in names if name and self._pins.get(name)}

    def rows(self) -> tuple[Line, ...]:
        """Each destination of the list with what went through it."""
        return egress_rows.lines(self._matcher, self._pins, self._relay.rows() if self._relay else ())

    def tell(self, least: float = 0.0) -> None:
        """Journal what went through since the last time, by destination, if that is ``least`` seconds ago."""
        now = time.monotonic()
        if now < self._told_at + least:
            return
        self._told_at = now
        for row in self._relay.rows() if self._relay is not None and not self._closed else ():
            key = (row.address, row.port, row.name)
            before = self._told.get(key)
            if before == row:
                continue
            self._told[key] = row
            base = before or row._replace(connections=0, failed=0, refused=0, sent=0, received=0)
            self._record(
                "traffic",
                {
                    "address": row.address,
                    "port": row.port,
                    "name": row.name,
                    "connections": row.connections - base.connections,
                    "failed": row.failed - base.failed,
                    "sent": row.sent - base.sent,
                    "received": row.received - base.received,
                },
            )


class Routed:
    """Lookups without the addresses that this host has no route to, where it has one to any other."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self.tick = lookups.tick
        self.close = lookups.close

    def ask(self, name: str, done: Callable[[Found], None], *, first: bool = False) -> None:
        def found(answer: Found) -> None:
            leading = tuple(filter(routes.routed, answer.addresses))
            done(answer._replace(addresses=leading or answer.addresses))

        self._lookups.ask(name, found, first=first)


def pinned(name: str, found: Found, matcher: Matcher) -> Pin:
    """The pin that an answer of the host makes."""
    if found.error:
        return Pin(name, (), time.time(), (), WHY.get(found.error, found.error))
    return pinning.judged(name, found.addresses, routes.answer(matcher), time.time())


def _full(why: str) -> Refused:
    return Refused(
        "the running box keeps its destinations as they were",
        why,
        "end it and start it again: cloche stop",
        code="egress-full",
    )
