"""One entry of ``net.egress``: what a person writes, in its one spelling, or why it cannot be enforced.

``[raw:]HOST[:PORT]``, ``*.HOST[:PORT]``, ``ADDRESS[:PORT]`` (IPv6 in brackets), ``ADDRESS/BITS[:PORT]``;
without a port, 443. A name is enforced twice: by the addresses that the host resolved for it, and by the
name that the connection itself says (TLS server name or HTTP ``Host``), because an address is not a host
(rule S9). ``raw:`` gives the second up, for protocols that say no name. A wildcard is enforced by the box's
resolver together with the name that the connection says. An address or network is raw by nature.
``docs/egress.md`` has the table of verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable

from backends.egress import hostnames, networks, suffixes
from backends.egress.networks import Network
from backends.errors import BadRule as BadRule
from backends.record import NamedTuple

DEFAULT_PORT = 443
RAW = "raw:"
LONGEST = 512  # characters of what a person wrote; the longest rule with a point has 264


class Rule(NamedTuple):
    """One parsed rule. ``text`` is its one spelling: equal rules have equal texts, and it parses to itself.

    ``kind`` is ``name``, ``wildcard`` or ``network``. ``host`` is the folded name, of a wildcard the part
    below which names are admitted ("" of a network); ``network`` is None of a name. ``raw``: the connection
    need not say a name.
    """

    text: str
    kind: str
    host: str
    network: Network | None
    port: int
    raw: bool

    def admits(self, name: str) -> bool:
        """Whether the folded ``name`` is meant. A wildcard means every name below its host, not the host."""
        if self.kind == "wildcard":
            return name.endswith(f".{self.host}")
        return self.kind == "name" and name == self.host


def parse(text: str) -> Rule:
    """The rule that ``text`` states. BadRule says why there is none."""
    try:
        return _rule(text.strip())
    except ValueError as error:
        raise BadRule(
            "a destination cannot be enforced",
            f"{text[:LONGEST]!r}: {error}",
            'write "host", "host:port", "*.host", an address or a network; docs/egress.md lists what each '
            "form allows",
            code="bad-rule",
        ) from None


def parse_all(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Every rule of a policy, without repetition, in the order given. BadRule for the first that is none."""
    return tuple(dict.fromkeys(map(parse, texts)))


def _rule(text: str) -> Rule:
    if len(text) > LONGEST:
        raise ValueError(f"a destination has at most {LONGEST} characters")
    raw = text[: len(RAW)].lower() == RAW
    rest = text[len(RAW) :] if raw else text
    if "://" in rest:
        raise ValueError("a destination has no scheme: write the host alone")
    host, port = _split(rest)
    address = _network(host)
    if address is not None:
        return Rule(_shown(address, port), "network", "", address, port, True)
    if host == "*":
        raise ValueError('every destination is no list: net.mode = "host" is the word for that')
    wildcard = host.startswith("*.")
    name = hostnames.fold(host[2:] if wildcard else host)
    if hostnames.is_loopback(name):
        raise ValueError("it means the box itself, whose loopback is always its own")
    if wildcard and raw:
        raise ValueError("a wildcard is enforced by the name that a connection says, and raw: asks for none")
    if wildcard and suffixes.is_public(name):
        raise ValueError(f"whoever registers a name below .{name} would be allowed")
    shown = (RAW if raw else "") + ("*." if wildcard else "") + name + _port(port)
    return Rule(shown, "wildcard" if wildcard else "name", name, None, port, raw)


def _split(text: str) -> tuple[str, int]:
    """Host and port. A network of IPv6 is told from its port by the slash, an address by its brackets."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or ":" not in host:
            raise ValueError("brackets stand around an IPv6 address: [2001:db8::1]:443")
        if rest.startswith("/"):
            length, colon, port = rest.partition(":")
            return host + length, _number(port) if colon else DEFAULT_PORT
        if rest and not rest.startswith(":"):
            raise ValueError("behind an address in brackets stands :PORT")
        return host, _number(rest[1:]) if rest else DEFAULT_PORT
    front, slash, rest = text.partition("/")
    if slash:
        length, colon, port = rest.partition(":")
        return f"{front}/{length}", _number(port) if colon else DEFAULT_PORT
    if text.count(":") > 1:
        raise ValueError("an IPv6 address stands in brackets: [2001:db8::1]:443")
    host, colon, port = text.partition(":")
    return host, _number(port) if colon else DEFAULT_PORT


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise ValueError("a port is a number from 1 to 65535")
    return int(text)


def _network(host: str) -> Network | None:
    """The address or network that ``host`` states, None for a name."""
    front, slash, _ = host.partition("/")
    if ":" not in front and not hostnames.numeric(front.lower()):
        if slash:
            raise ValueError("a destination has no path: write the host alone")
        return None
    found = networks.network(host)
    why = networks.unusable(found)
    if why:
        raise ValueError(f"no box reaches another host there: {why}")
    return found


def _shown(found: Network, port: int) -> str:
    bracketed = found.version == 6 and found.is_address
    return (f"[{found}]" if bracketed else str(found)) + _port(port)


def _port(port: int) -> str:
    return "" if port == DEFAULT_PORT else f":{port}"
