"""An HTTP proxy for a box that has no route: CONNECT and plain HTTP, to listed destinations and no others.

It is the relay of tier ``supervised`` (``relay_net``: bounds, patience, tallies, flows) for clients that say
where they want to go instead of being redirected. The list is the same (``backends.egress``), names are
pinned the same way, and what a tunnel says inside is held to the name that it was asked for.

What this cannot see is what a relay cannot: another name than the one said outside of the encryption.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable

from backends.egress import proxied
from backends.egress.matcher import Matcher, Verdict
from backends.egress.pins import Pins
from backends.egress.proxied import Way
from backends.egress.proxyhead import Target
from backends.keeper import relay_connection, relay_net
from backends.keeper.denials import Refusal
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.keeper.proxy_connection import ProxyConnection
from backends.keeper.relay_connection import Connection
from backends.keeper.relay_net import Deny, Relay

LANE = "proxy"
BY_PROXY = "proxy"
MAX_CONNECTIONS = 512  # of one box at a time

LookUp = Callable[[str, Callable[[str], None]], None]


def looks_nothing_up(_name: str, done: Callable[[str], None]) -> None:
    """Who looks a name up where nobody does."""
    done("names below wildcards are not looked up here")


class Proxy(Relay):
    """Serves ``listeners`` from the keeper's loop until ``close``, which closes them.

    ``matcher`` and ``pins`` are asked at each request; :meth:`use` puts others in their place. ``deny``
    counts refusals (``Denials.add``), without a caller: nothing tells who in the box connected.
    ``look_up(name, done)`` has a name below a wildcard looked up and pinned, then calls ``done("")``, or
    ``done(why)`` when it has no address.
    """

    lane = LANE
    by = BY_PROXY

    def __init__(
        self,
        loop: Loop,
        log: Log,
        listeners: Iterable[socket.socket],
        matcher: Matcher,
        pins: Pins,
        *,
        deny: Deny,
        look_up: LookUp = looks_nothing_up,
        dial: Callable[[str, int], socket.socket] = relay_net.dial,
        cap: int = MAX_CONNECTIONS,
    ) -> None:
        self._matcher = matcher
        self._pins = pins
        self.look_up = look_up
        super().__init__(loop, log, listeners, _no_decision, deny=deny, dial=dial, cap=cap)

    @property
    def name_patience(self) -> float:
        """Seconds for a tunnel to say its name."""
        return relay_connection.SNIFF_PATIENCE

    def use(self, matcher: Matcher, pins: Pins) -> None:
        """Judge by these from now on. What is open goes on."""
        self._matcher, self._pins = matcher, pins

    def way(self, target: Target) -> Way:
        """Where a request leads by the list as it is now."""
        return proxied.way(self._matcher, self._pins, target)

    def count(self, where: str, rule: str, connection: Connection) -> None:
        """Count a refusal; nothing is closed here. A connection to a listed destination counts at its row."""
        self._refused += 1
        if connection.address:
            self.traffic(connection.address, connection.port, connection.name).refused += 1
        self._deny(Refusal("net", where, rule, self.lane, self.by), 0, "", 1)

    def _take(self, client: socket.socket) -> None:
        connection = ProxyConnection(self, client)
        self._live[connection] = None
        try:
            connection.begin()
        except BaseException:
            connection.end(broken=True)
            raise


def _no_decision(_address: str, _port: int, _said: str | None) -> Verdict:
    return Verdict(False, None, "a proxy is asked by name")
