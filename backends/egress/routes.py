"""Which of a name's addresses this host has a way to: a box would take one that leads nowhere for good.

A program tries the addresses of a name one after another until a connect(2) succeeds. In a box it always
does, for the relay takes it, and only then finds that the host has no IPv6. So such an address is not told.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from backends.egress.pins import Pin

NO_ROUTE = "this host has no route to it"


def routed(address: str) -> bool:
    """Whether this host's routes lead to a numeric address. No packet is sent (connect(2) of a datagram
    socket only looks the route up).
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            probe.connect((address, 443))
    except OSError:
        return False
    return True


def leading(addresses: Sequence[str], has_route: Callable[[str], bool] = routed) -> tuple[str, ...]:
    """The addresses that the host has a route to; all of them where it has none to any.

    A host that is cut off for a moment leaves no better choice.
    """
    return tuple(address for address in addresses if has_route(address)) or tuple(addresses)


def within(pin: Pin, has_route: Callable[[str], bool] = routed) -> Pin:
    """``pin`` with its leading addresses; the others are among those that are refused, with the reason."""
    kept = leading(pin.addresses, has_route)
    left_out = tuple((address, NO_ROUTE) for address in pin.addresses if address not in kept)
    return pin._replace(addresses=kept, refused=(*pin.refused, *left_out)) if left_out else pin
