"""The network of one supervised box on the keeper's side: what leads out, what was refused, what is changed.

Three hold the list, and all three are told of a change here: the packet filter inside (addresses and ports),
the name server (names), the relay (both, and what a connection says). The list is widened by a person's act
alone, never where the profile denies the network, and never from inside.
"""

from __future__ import annotations

import os
import time

from backends.egress import pins as pinning
from backends.egress.matcher import Matcher, Verdict
from backends.egress.pins import Pin
from backends.keeper import libraries, packets
from backends.keeper.listed import Listed, Record, Routed
from backends.keeper.log import Log
from backends.keeper.lookup import Lookups
from backends.keeper.loop import Loop
from backends.keeper.packets import Deny
from backends.keeper.relay_net import Relay
from backends.keeper.resolver import Resolver
from backends.kernel import nftables
from backends.kernel.nftables import Destination, Entry, Tallies
from backends.policy.model import Policy
from backends.tiers import etc
from backends.tiers.networking import entries_of
from backends.tiers.protocol import BoxNetwork

LIVE_NAMES = 1024  # names below wildcards that are pinned at a time
READING = 0.05  # part of the time that may go into reading the packet filter's counters
OTHER_WAYS = 3  # addresses of a name that are tried when the one that a program chose does not answer


class Egress(Listed):
    """Owns the sockets of ``network``. ``Refused`` where a library is missing."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        policy: Policy,
        network: BoxNetwork,
        deny: Deny,
        record: Record,
        *,
        box: str,
    ) -> None:
        # Init is at work now and nobody waits for us; without it no name could be answered.
        libraries.load("dnslib")
        super().__init__(loop, log, policy, network.pins, network.own, deny, record)
        self._network = network
        self._box = box
        self._entries: frozenset[Entry] = network.entries
        self._tallies = Tallies()
        self._counted: dict[Destination, int] = {}
        self._others = 0
        self._read_at = 0.0
        self._resolver: Resolver | None = None

    # ------------------------------------------------------------ life

    def begin(self) -> None:
        """The box is proved: count, answer and relay from now on."""
        network = self._network
        self._tallies.begin(network.nft)
        self._lookups = Routed(Lookups(self._loop, self._log))
        self._resolver = Resolver(
            self._loop,
            self._log,
            network.dns,
            self._matcher,
            self._pins,
            self._deny,
            pinned=self._pinned,
            resolve=self._lookups,
            caller=lambda: self.asked.names,
            lost=lambda what, count: self._record("lost", {"what": what, "count": count}),
            names=(self._box,),
        )
        self._relay = Relay(
            self._loop,
            self._log,
            (network.relay4, network.relay6),
            self._decide,
            deny=self._deny,
            caller=self.asked.who,
            ways=self._ways,
        )
        self._repin_later()
        self._record("pins", {"pins": self._pins.as_json(), "own": list(network.own)})

    def tick(self) -> None:
        """Once a second."""
        if self._resolver is None or self._closed:
            return
        self._resolver.tick()
        self._look_at_host()
        now = time.monotonic()
        if now >= self._read_at:
            self.count_up()
            # A flood of destinations must not leave the relay without its turn.
            self._read_at = now + (time.monotonic() - now) / READING
        self._in_time()

    def _judge_by(self, matcher: Matcher) -> None:
        if self._resolver is not None:
            self._resolver.use(matcher, self._pins)

    def count_up(self) -> None:
        """Count all that was refused so far."""
        if self._resolver is None or self._closed:
            return
        try:
            self._count()
        except OSError as error:
            # The filter's counters only grow: what is missing now comes with the next reading.
            self._log.failure("the packet filter's counters", error)

    def close(self) -> None:
        """Count a last time, end every connection and close the network's sockets; twice does no harm."""
        if self._closed:
            return
        try:
            if self._resolver is not None:
                self._count()
            self.tell()
        except OSError as error:
            self._log.failure("the last count of refused packets", error)
            self._record("lost", {"what": "packets refused at the end", "count": 1})
        self._closed = True
        if self._relay is not None:
            self._relay.close()
        if self._resolver is not None:
            self._resolver.close()
        self._network.close()

    # ------------------------------------------------------------ what was refused

    def _count(self) -> None:
        """Add what the packet filter refused since the last time; exact, whatever found no row included."""
        rows, total = self._tallies.read(self._network.nft)
        for where, packets_now in rows.items():
            new = packets_now - self._counted.get(where, 0)
            if new > 0:
                self._counted[where] = packets_now
                refusal = packets.refusal(where, self._policy.net.mode, self._matcher, self._pins)
                pid, command = self.asked.who(where.address, where.port)
                self._deny(refusal, pid, command, new)
        others = total - sum(rows.values())
        if others > self._others:
            self._record("lost", {"what": "denials", "count": others - self._others})
            self._others = others

    def _decide(self, address: str, port: int, said: str | None) -> Verdict:
        names = self._pins.names(address)
        if said is not None:
            # It was let in by the pins of its time; a request of it is judged by them too.
            names = (*names, *self._former.names(address))
        return self._matcher.destination(address, port, names, said)

    def _ways(self, name: str, address: str, port: int) -> tuple[str, ...]:
        """Other pinned addresses of a name that was said, those of the other version of IP first."""
        found = [
            one
            for one in self._pins.addresses(name)
            if one != address and self._matcher.destination(one, port, (name,), name).allowed
        ]
        return tuple(sorted(found, key=lambda one: (":" in one) == (":" in address)))[:OTHER_WAYS]

    # ------------------------------------------------------------ what is let through

    def _use(self, matcher: Matcher) -> None:
        """Have the packet filter and the name server hold ``matcher`` with the pins as they are now."""
        self._entries = nftables.change(self._network.nft, self._entries, entries_of(matcher, self._pins))
        self._matcher = matcher
        if self._resolver is not None:
            self._resolver.use(matcher, self._pins)
        self._write_hosts()

    def _write_hosts(self) -> None:
        """Most libraries read the box's hosts file before they ask the name server."""
        names = set(self._matcher.fixed())
        pinned = [(pin.name, pin.addresses) for pin in self._pins if pin.name in names]
        data = etc.hosts_file(self._box, pinned).encode("ascii")
        os.pwrite(self._network.hosts, data, 0)
        os.ftruncate(self._network.hosts, len(data))

    def _pinned(self, name: str, addresses: tuple[str, ...]) -> None:
        """Let a name below a wildcard through, before the box learns its addresses. Raises when it cannot.

        Addresses that it had a moment ago stay: programs may keep them.
        """
        before = self._pins.get(name)
        had = before.addresses if before is not None else ()
        both = tuple(dict.fromkeys((*addresses, *had)))[: pinning.MOST_ADDRESSES]
        if name not in self._live and len(self._live) >= LIVE_NAMES:
            self._forget(len(self._live) // 8)
        if not self._pins.put(Pin(name, both, time.time())):
            raise ValueError(f"no room is left for the addresses of {name}")
        ports = {rule.port for rule in self._matcher.name(name)}
        wanted = {nftables.entry(address, port) for address in both for port in ports}
        try:
            nftables.change(self._network.nft, (), wanted - self._entries)
        except OSError:
            self._pins.drop(name)
            if before is not None:
                self._pins.put(before)
            raise
        self._entries |= wanted
        self._live.pop(name, None)
        self._live[name] = None

    def _forget(self, count: int) -> None:
        """Close the ways to the names below wildcards that were looked up longest ago."""
        for name in list(self._live)[:count]:
            del self._live[name]
            self._retire(name)
        self._entries = nftables.change(
            self._network.nft, self._entries, entries_of(self._matcher, self._pins)
        )
