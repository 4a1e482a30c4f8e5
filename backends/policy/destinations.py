"""What to know about one destination: a rule that is enforced and still lets more through than it seems."""

from __future__ import annotations

from collections.abc import Iterator

from backends.egress import addresses, suffixes
from backends.egress.networks import Network
from backends.egress.rules import Rule, parse

# Prefixes below these are more than one organisation's: what is written is rarely what is meant.
WIDE_IPV4 = 16
WIDE_IPV6 = 32
_SPOKEN_PORTS = (80, 443)  # where nearly every server speaks HTTP or TLS, and says its name


def dangers(text: str) -> Iterator[str]:
    """A sentence for each thing to know about the rule ``text`` of a resolved policy."""
    rule = parse(text)
    if rule.network is not None:
        yield from _network(rule.network)
    elif rule.kind == "wildcard":
        yield _wildcard(rule)
    elif rule.raw and rule.port in _SPOKEN_PORTS:
        yield (
            f"whatever else is served at the addresses of {rule.host} is allowed too, because no connection "
            "has to say a name"
        )


def _wildcard(rule: Rule) -> str:
    hoster = suffixes.shared(rule.host)
    if hoster:
        return f"every name below {rule.host} is allowed, and anybody can have one: {hoster} serves strangers"
    return f"every name below {rule.host} is allowed, data can leave in the name"


def _network(network: Network) -> Iterator[str]:
    if network.bits < (WIDE_IPV4 if network.version == 4 else WIDE_IPV6):
        yield f"{_count(network)} addresses are allowed, with any protocol and whoever has them"
    found = addresses.special(network.packed)
    if found is None or found.bits == addresses.NO_RANGE or network.bits < found.bits:
        return
    if found.reason == addresses.METADATA:
        yield "a cloud's metadata service gives out this machine's credentials to whoever asks"
    else:
        yield f"the box reaches {_place(found.reason)}, which is not the internet, with any protocol"


def _count(network: Network) -> str:
    free = len(network.packed) * 8 - network.bits
    return f"{1 << free:,}" if free <= 32 else f"2^{free}"


def _place(reason: str) -> str:
    return reason if reason.startswith("a ") else f"addresses that are {reason}"
