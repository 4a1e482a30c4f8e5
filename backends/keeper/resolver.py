"""The name server of one supervised box: pinned names from their pins, everything else refused and counted.

It holds sockets that were opened inside of the box's network namespace. Nothing that a box sends is ever
passed on; a name below a wildcard rule is looked up by the host (:mod:`backends.keeper.lookup`), its answers
are judged like those of the launch, and they are let through the packet filter before the box learns them.

==========================================  ==========================================================
the question                                the answer
==========================================  ==========================================================
A, AAAA of a name with a rule of its own    what is pinned for it; none of that family: no data
A, AAAA of a name below a wildcard          what the host finds and the rules admit, kept ``KEPT`` seconds
either, with every address refused          NXDOMAIN, counted by name with the reason
another type of an allowed name             no data: HTTPS and SVCB records would lead past the pins
``localhost``, below it, the box's name     loopback
PTR                                         NXDOMAIN; counted unless it asks for a pinned or loopback address
every other name, every other class         NXDOMAIN, counted by name
no query, or one that is malformed          FORMERR, NOTIMP or silence, counted as ``(malformed)``
==========================================  ==========================================================

NXDOMAIN stands for "refused", see :func:`backends.keeper.dns_messages.refusal`.

What a wildcard gives away: the letters of a name below it are the box's to choose, and they reach the name
servers of that domain (in lower case, at most ``backends.keeper.lookup.AT_ONCE`` names at a time).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from backends.egress import hostnames
from backends.egress import pins as pinning
from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.keeper import dns_messages as messages
from backends.keeper.denials import Refusal
from backends.keeper.dns_messages import AAAA, IN, NOERROR, NXDOMAIN, PTR, SERVFAIL, A, Query, Unfit
from backends.keeper.dns_tcp import Server
from backends.keeper.dns_udp import Answer, Port
from backends.keeper.log import Log
from backends.keeper.lookup import Done, Found, Lookups
from backends.keeper.loop import Loop

LANE = "keeper"
BY_RESOLVER = "resolver"
RULE = "no rule of net.egress admits the name"
ADDRESS_REFUSED = "every address of it is refused"
MALFORMED = "(malformed)"  # no name is shown with parentheses
PINNED_TTL = 60  # seconds that a program may keep a pinned address
LIVE_TTL = 10  # the same of a name below a wildcard
KEPT = 30.0  # seconds that what the host found is given again
KEPT_NAMES = 1024
ASKED = 256  # names that wait for a lookup
ASKERS = 64  # queries that wait for one of them
ALL_ASKERS = 1024  # queries that wait for any
_REVERSE = (".in-addr.arpa", ".ip6.arpa")

Deny = Callable[[Refusal, int, str, int], None]


class _Lookups(Protocol):
    """What answers names below wildcards: :class:`backends.keeper.lookup.Lookups`."""

    def ask(self, name: str, done: Done) -> None: ...
    def tick(self) -> None: ...
    def close(self) -> None: ...


class _Kept(NamedTuple):
    pin: Pin
    error: str
    until: float


class _Waiting(NamedTuple):
    query: Query
    send: Callable[[bytes], None]


class Resolver:
    """Answers on ``sockets`` (datagram and listening, IPv4 and IPv6), which are its own from now on.

    ``deny(refusal, pid, command, count)`` counts refused queries. ``pinned(name, addresses)`` is told of a
    name below a wildcard before the box gets its addresses; when it raises, the box gets none. ``caller()``
    is who asked last, as far as known; ``lost(what, count)`` counts what nobody saw. ``names`` are the
    box's own.
    """

    def __init__(
        self,
        loop: Loop,
        log: Log,
        sockets: Iterable[socket.socket],
        matcher: Matcher,
        pins: Pins,
        deny: Deny,
        *,
        pinned: Callable[[str, tuple[str, ...]], None],
        resolve: _Lookups | None = None,
        caller: Callable[[], tuple[int, str]] = lambda: (0, ""),
        lost: Callable[[str, int], None] = lambda _what, _count: None,
        names: Collection[str] = (),
    ) -> None:
        self._log = log
        self._matcher = matcher
        self._pins = pins
        self._deny = deny
        self._pinned = pinned
        self._lookups: _Lookups = Lookups(loop, log) if resolve is None else resolve
        self._caller = caller
        self._lost = lost
        self._own = frozenset(hostnames.folded(name) for name in names) - {""}
        self._kept: dict[str, _Kept] = {}
        self._waiting: dict[str, list[_Waiting]] = {}
        self._askers = 0
        self._ports: list[Port] = []
        listeners = []
        for one in sockets:
            if one.type == socket.SOCK_STREAM:
                listeners.append(one)
            else:
                self._ports.append(
                    Port(loop, log, one, self._datagram, lambda count: lost("dns queries", count))
                )
        self._server = Server(loop, log, listeners, self._message, self._unfit)

    def use(self, matcher: Matcher, pins: Pins) -> None:
        """Decide by these from now on; what the host found for the rules before is forgotten."""
        self._matcher, self._pins = matcher, pins
        self._kept.clear()

    def tick(self) -> None:
        """Once a second: end connections that are quiet and lookups that have no answer."""
        self._server.tick()
        self._lookups.tick()

    def close(self) -> None:
        self._server.close()
        for port in self._ports:
            port.close()
        self._lookups.close()
        self._waiting.clear()
        self._askers = 0

    # ------------------------------------------------------------ messages

    def _datagram(self, data: bytes, answer: Answer) -> None:
        self._serve(data, answer, messages.for_udp)

    def _message(self, data: bytes, answer: Answer) -> None:
        self._serve(data, answer, lambda _query, whole: whole)

    def _serve(self, data: bytes, answer: Answer, fitted: Callable[[Query, bytes], bytes]) -> None:
        """Answer one message, now or later. Whatever goes wrong costs this message and nothing else."""
        try:
            query = messages.parse(data)
            if isinstance(query, Unfit):
                self._unfit(query.name)
                answer(query.reply)
                return
            self._decide(query, lambda whole: answer(fitted(query, whole)))
        except Exception as error:  # noqa: BLE001 (reported; a client that gets no answer asks again)
            self._log.failure("resolver", error)
            self._lost("dns queries", 1)
            answer(None)

    def _unfit(self, name: str = "") -> None:
        self._count(name or MALFORMED, "no query that a resolver sends")

    def _count(self, name: str, rule: str) -> None:
        pid, command = self._caller()
        self._deny(Refusal("dns", name, rule, LANE, BY_RESOLVER), pid, command, 1)

    def _refuse(self, query: Query, send: Callable[[bytes], None], rule: str = RULE) -> None:
        self._count(query.name, rule)
        send(messages.refusal(query, rule))

    # ------------------------------------------------------------ names

    def _decide(self, query: Query, send: Callable[[bytes], None]) -> None:
        host = query.host
        if query.class_ != IN or host is None:
            self._refuse(query, send)
        elif host in self._own or hostnames.is_loopback(host):
            send(_addresses(query, ("127.0.0.1", "::1"), PINNED_TTL))
        elif host.endswith(_REVERSE):
            self._reverse(query, send)
        else:
            rules = self._matcher.name(host)
            if not rules:
                self._refuse(query, send)
            elif query.type not in (A, AAAA):
                send(messages.reply(query))
            elif all(rule.kind == "wildcard" for rule in rules):
                self._live(query, host, send)
            else:
                self._from_pin(query, self._pins.get(host), send, PINNED_TTL)

    def _reverse(self, query: Query, send: Callable[[bytes], None]) -> None:
        address = pinning.spelled(messages.reverse_address(query.labels))
        if query.type == PTR and address and (_loopback(address) or self._pins.names(address)):
            send(messages.reply(query, NXDOMAIN))
        else:
            self._refuse(query, send)

    def _from_pin(self, query: Query, pin: Pin | None, send: Callable[[bytes], None], ttl: int) -> None:
        if pin is not None and pin.refused and not pin.addresses:
            self._refuse(query, send, f"{ADDRESS_REFUSED}: {pin.refused[0][1]}")
        else:
            send(_addresses(query, pin.addresses if pin else (), ttl))

    # ------------------------------------------------------------ names below wildcards

    def _live(self, query: Query, host: str, send: Callable[[bytes], None]) -> None:
        kept = self._kept.get(host)
        if kept is not None and kept.until > time.monotonic():
            self._give(_Waiting(query, send), kept)
            return
        waiting = self._waiting.get(host)
        full = len(self._waiting) >= ASKED if waiting is None else len(waiting) >= ASKERS
        if full or self._askers >= ALL_ASKERS:
            send(messages.reply(query, SERVFAIL))
            return
        self._askers += 1
        if waiting is not None:
            waiting.append(_Waiting(query, send))
        else:
            self._waiting[host] = [_Waiting(query, send)]
            self._lookups.ask(host, lambda found: self._found(host, found))

    def _found(self, host: str, found: Found) -> None:
        """The host's answer: judge it, open the way to what is admitted, and only then tell the box."""
        waiting = self._waiting.pop(host, [])
        self._askers -= len(waiting)
        now = time.time()
        kept = _Kept(Pin(host, (), now), found.error, time.monotonic() + KEPT)
        if not self._matcher.name(host):
            kept = kept._replace(error="none")  # the rule was taken back meanwhile
        elif not found.error:
            kept = kept._replace(pin=pinning.judged(host, found.addresses, self._matcher.answer, now))
            if kept.pin.addresses:
                try:
                    self._pinned(host, kept.pin.addresses)
                except Exception as error:  # noqa: BLE001 (reported; what is not let through is not told)
                    self._log.failure("resolver pinned", error)
                    kept = kept._replace(error="again")
        if kept.error != "again":
            self._keep(host, kept)
        for one in waiting:
            self._give(one, kept)

    def _give(self, one: _Waiting, kept: _Kept) -> None:
        if kept.error:
            one.send(messages.reply(one.query, SERVFAIL if kept.error == "again" else NXDOMAIN))
        else:
            self._from_pin(one.query, kept.pin, one.send, LIVE_TTL)

    def _keep(self, host: str, kept: _Kept) -> None:
        self._kept.pop(host, None)
        if len(self._kept) >= KEPT_NAMES:
            del self._kept[next(iter(self._kept))]
        self._kept[host] = kept


def _addresses(query: Query, addresses: Sequence[str], ttl: int) -> bytes:
    if query.type not in (A, AAAA):
        return messages.reply(query)
    wanted = [one for one in addresses if (":" in one) == (query.type == AAAA)]
    return messages.reply(query, NOERROR, wanted, ttl)


def _loopback(address: str) -> bool:
    return address in ("::", "::1") or address.startswith(("127.", "0."))
