"""Which addresses this host can send to at all.

Inside a box every listed address answers to connect(2): the relay takes the connection, then dials. A
program that tries IPv6 first would never fall back to IPv4 on a host that has no IPv6. So an address that the
host has no route to is not pinned.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from backends.egress import addresses
from backends.egress.matcher import Matcher

UNROUTED = "this host has no route to it"


def routed(address: str) -> bool:
    """Whether the host has a route to a numeric address now. Nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.inet_pton(family, address)  # or a name would be looked up
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            probe.connect((address, 9))
    except OSError:
        return False
    return True


def answer(matcher: Matcher) -> Callable[[str], addresses.Verdict]:
    """What judges each address of an answer, as :func:`backends.egress.pins.resolve` takes it."""

    def judge(address: str) -> addresses.Verdict:
        verdict = matcher.answer(address)
        if verdict.allowed and not routed(address):
            return addresses.Verdict(False, UNROUTED)
        return verdict

    return judge
