"""A supervised box for attacks on its network, and what its packet filter and its gate counted."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter

from backends.kernel.nftables import Destination, Tallies
from backends.tiers import supervised
from tests.boundary import harness
from tests.boundary.harness import Box

TCP, UDP = socket.IPPROTO_TCP, socket.IPPROTO_UDP
LISTED = ("203.0.114.5:443", "198.51.101.0/24:8080", "[2001:db9::5]:443", "2a00:1::/32:8443")


def listed(*rules: str) -> contextlib.AbstractContextManager[Box]:
    return harness.box(harness.policy(net="allow", egress=rules, tier="supervised"), tier=supervised.TIER)


class Seen:
    """What the packet filter and the gate counted since this object was made."""

    def __init__(self, box: Box) -> None:
        assert box.live.network is not None
        self._box = box
        self._nft = box.live.network.nft
        self._gate = Counter(box.refused)
        self._tallies = Tallies()
        self._tallies.begin(self._nft)

    @property
    def packets(self) -> dict[Destination, int]:
        rows, total = self._tallies.read(self._nft)
        assert total == sum(rows.values())  # the set has room for all of them
        return rows

    @property
    def sockets(self) -> Counter[str]:
        new = self._box.refused - self._gate
        return Counter({detail: count for (kind, detail), count in new.items() if kind == "socket"})


CONNECT = """
import socket, sys
for word in sys.argv[1:]:
    address, port = word.rsplit("/", 1)
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.settimeout(5)
    target = socket.getaddrinfo(address, int(port), flags=socket.AI_NUMERICHOST)[0][4]
    print(word, s.connect_ex(target), flush=True)
    s.close()
"""
