"""Which destinations a box without a network cannot reach, for the tally.

The empty network namespace refuses them; the keeper only sees the attempts that name an address. Where a
packet filter counts what it refuses, exactly, the attempts are only remembered for their callers' sake.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from backends.keeper.callers import Caller
from backends.keeper.denials import Refusal
from backends.kernel.notify import Address
from backends.policy.model import Policy

if TYPE_CHECKING:
    from backends.keeper.packets import Asked

LANE = "keeper"
BY_NAMESPACE = "network namespace"
DNS_PORT = 53
# Every lookup of glibc, also of a user's name, asks its cache daemon first. No boundary is tried by it, so it
# is counted apart from the refusals.
NAME_CACHE = (b"/run/nscd/socket", b"/var/run/nscd/socket")
_LIFE = 1.0  # seconds that the host's abstract sockets are remembered


class Network:
    """The rules for connect(2) and for datagrams with an address, of one policy.

    ``asked`` remembers callers where a packet filter counts.
    """

    def __init__(self, policy: Policy, asked: Asked | None = None) -> None:
        self._mode = policy.net.mode
        self._asked = asked
        self._abstract: set[str] = set()
        self._read_at = 0.0

    def judge(self, address: Address) -> Refusal | None:
        """The refusal that an internet address meets, None when it can be reached or is no address."""
        if self._asked is not None:
            return None
        if self._mode != "deny" or not address.text:
            return None
        rule = "net.mode = deny"
        host = f"[{address.text}]" if ":" in address.text else address.text
        if address.port == DNS_PORT:
            # Also on loopback, where a library without a configured name server asks for one.
            return Refusal("net", f"{host}:{DNS_PORT} (name server)", rule, LANE, BY_NAMESPACE)
        if _own(address.text):
            return None
        return Refusal("net", f"{host}:{address.port}{_named(address.text)}", rule, LANE, BY_NAMESPACE)

    def remember(self, address: Address, caller: Callable[[], Caller]) -> None:
        """Somebody is about to turn to ``address``; ``caller()`` says who."""
        if self._asked is not None and address.text:
            self._asked.remember(address, caller())

    def abstract(self, name: str) -> Refusal | None:
        """A host's abstract socket; with a network of its own the box has other ones of the same names."""
        if self._mode == "host":
            return None
        now = time.monotonic()
        if now > self._read_at + _LIFE:
            self._abstract = _abstract_names()
            self._read_at = now
        if name not in self._abstract:
            return None
        return Refusal("socket", f"unix:{name}", "host sockets are not granted", LANE, BY_NAMESPACE)


def _named(text: str) -> str:
    """What a reader of the tally should not have to know: that an address gives out a cloud's credentials."""
    from backends.egress import addresses  # not before a box asks for a network that it does not have

    return f" ({addresses.METADATA})" if addresses.METADATA in addresses.classify(text).reason else ""


def _own(text: str) -> bool:
    """Whether an address means the box itself: loopback or unspecified, also as an IPv4-mapped one."""
    try:
        if ":" not in text:
            raw = b"\0" * 10 + b"\xff\xff" + socket.inet_pton(socket.AF_INET, text)
        else:
            raw = socket.inet_pton(socket.AF_INET6, text)
    except OSError:
        return False
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return raw[12] == 127 or raw[12:] == b"\0" * 4
    return raw[:15] == b"\0" * 15 and raw[15] in (0, 1)


def _abstract_names() -> set[str]:
    """The abstract sockets of our network namespace, from /proc/net/unix."""
    with open("/proc/net/unix", "rb") as file:
        names = [line.split(b" ")[-1].strip() for line in file]
    return {name.decode("utf-8", "surrogateescape") for name in names if name.startswith(b"@")}
