"""What the packet filter of a box refused, said in a tally's words, and who tried it.

The filter counts exactly and knows addresses; the gate sees who connects and counts nothing of it. Both meet
here: a count from the one, a command from the other.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple

from backends.egress import addresses
from backends.egress import pins as pinning
from backends.egress.matcher import Matcher
from backends.egress.pins import Pins
from backends.keeper.callers import Caller
from backends.keeper.denials import Refusal
from backends.kernel.nftables import Destination
from backends.kernel.notify import Address

LANE = "kernel"
BY_FILTER = "nftables"
DNS_PORT = 53
DENIED = "net.mode = deny"
ONLY_TCP = "only TCP leads out of the box"
NO_RULE = "no rule of net.egress allows it"
REMEMBERED = 4096  # destinations whose last caller is remembered
_PROTOCOLS = {
    socket.IPPROTO_ICMP: "icmp",
    socket.IPPROTO_UDP: "udp",
    socket.IPPROTO_ICMPV6: "icmpv6",
    132: "sctp",
    136: "udplite",
}


class Who(NamedTuple):
    """A process as a tally names it; 0 and "" where it is not known."""

    pid: int
    command: str


NOBODY = Who(0, "")


class Asked:
    """The last caller of each destination, by what the gate saw of connect(2) and of datagrams."""

    def __init__(self) -> None:
        self._callers: dict[tuple[str, int], Who] = {}
        self.names = NOBODY  # who last turned to a name server of the box

    def remember(self, address: Address, caller: Caller) -> None:
        """``caller`` is about to send to ``address``. What the keeper answers on is asked for names."""
        where = pinning.spelled(address.text)
        if not where:
            return
        who = Who(caller.pid, caller.command)
        if address.port == DNS_PORT and own(where):
            self.names = who
            return
        key = (where, address.port)
        self._callers.pop(key, None)
        if len(self._callers) >= REMEMBERED:
            del self._callers[next(iter(self._callers))]
        self._callers[key] = who

    def who(self, address: str, port: int) -> Who:
        """Who last turned to a destination; the address in the kernel's spelling."""
        return self._callers.get((address, port), NOBODY)


def own(address: str) -> bool:
    """Whether an address in its one spelling means the box itself: loopback or unspecified."""
    return address in ("::", "::1", "0.0.0.0") or address.startswith("127.")  # noqa: S104 (a comparison)


def refusal(where: Destination, mode: str, matcher: Matcher, pins: Pins) -> Refusal:
    """The row of a tally that refused packets to ``where`` belong to.

    The host is the name that a person's rule knows the address by, else the address.
    """
    names = pins.names(where.address)
    host = names[0] if names else f"[{where.address}]" if ":" in where.address else where.address
    if where.protocol == socket.IPPROTO_TCP:
        shown = f"{host}:{where.port}"
    else:
        protocol = _PROTOCOLS.get(where.protocol, f"protocol {where.protocol}")
        shown = f"{host}:{where.port}/{protocol}" if where.port else f"{host}/{protocol}"
    return Refusal("net", shown + _note(where), _rule(where, mode, matcher, names), LANE, BY_FILTER)


def _note(where: Destination) -> str:
    """What a reader of the tally should not have to know."""
    if where.port == DNS_PORT:
        return " (name server)"
    reason = addresses.classify(where.address).reason
    return f" ({addresses.METADATA})" if addresses.METADATA in reason else ""


def _rule(where: Destination, mode: str, matcher: Matcher, names: tuple[str, ...]) -> str:
    if mode != "allow":
        return DENIED
    if where.protocol != socket.IPPROTO_TCP:
        return ONLY_TCP
    verdict = matcher.destination(where.address, where.port, names)
    return NO_RULE if verdict.allowed else verdict.reason


Deny = Callable[[Refusal, int, str, int], None]
