"""Which names and destinations a list of rules allows: one pure decision for resolver, relay and proxy.

``docs/egress.md`` has the table of verdicts, and a test holds each of its rows against this module. Taking a
rule away never allows more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backends.egress import addresses, hostnames
from backends.egress.rules import Rule
from backends.record import NamedTuple

_OWN = "an address of this host"


class Verdict(NamedTuple):
    """Whether a destination is allowed, by which rule, and why or why not (a phrase to show).

    An allowed destination whose ``rule`` is not ``raw`` is allowed only to a connection that says one of the
    names: ask again with ``said``.
    """

    allowed: bool
    rule: Rule | None
    reason: str


class Matcher:
    """The rules of one box. ``own``: numeric addresses of the host; only a rule for exactly one opens it.

    ValueError when one of ``own`` is no address: then nothing can be promised about the host.
    """

    def __init__(self, rules: Iterable[Rule], own: Iterable[str] = ()) -> None:
        self.rules = tuple(dict.fromkeys(rules))
        self._own = set()
        for one in own:
            raw = addresses.packed(one)
            if raw is None:
                raise ValueError(f"{one!r} is no address")
            self._own.add(raw)
        self._names: dict[str, list[Rule]] = {}
        self._wildcards: dict[str, list[Rule]] = {}
        self._networks: list[Rule] = []
        for rule in self.rules:
            if rule.kind == "network":
                self._networks.append(rule)
            else:
                table = self._wildcards if rule.kind == "wildcard" else self._names
                table.setdefault(rule.host, []).append(rule)

    def fixed(self) -> tuple[str, ...]:
        """The names to resolve before the box starts: all but those below wildcards."""
        return tuple(self._names)

    def name(self, name: str) -> tuple[Rule, ...]:
        """The rules that admit a DNS name, in any spelling; () for what is no name."""
        folded = hostnames.folded(name)
        found = list(self._names.get(folded, ()))
        while folded:
            folded = folded.partition(".")[2]
            found += self._wildcards.get(folded, ())
        return tuple(found)

    def answer(self, address: str) -> addresses.Verdict:
        """Whether a name may be pinned to an address: an ordinary one, or one that a rule names."""
        raw = addresses.packed(address)
        if raw is None:
            return addresses.Verdict(False, "no numeric address")
        return self._reachable(raw)

    def destination(
        self, address: str, port: int, names: Iterable[str] = (), said: str | None = None
    ) -> Verdict:
        """Whether a connection to ``address`` and ``port`` is allowed.

        ``names``: the names that pinned this address. ``said``: the name that the connection itself says,
        once it is known; then only that one counts, unless a raw rule allows the destination anyway.
        """
        raw = addresses.packed(address)
        if raw is None:
            return Verdict(False, None, "no numeric address")
        for rule in self._networks:
            if rule.port == port and self._opens(rule, raw).allowed:
                return Verdict(True, rule, f"{rule.text} allows it")
        reachable = self._reachable(raw)
        if not reachable.allowed:
            return Verdict(False, None, reachable.reason)
        rules = {name: self.name(name) for one in names if (name := hostnames.folded(one))}
        for rule in (rule for found in rules.values() for rule in found):
            if rule.raw and rule.port == port:
                return Verdict(True, rule, f"{rule.text} allows it")
        if said is not None:
            name = hostnames.folded(said)
            if name not in rules:
                return Verdict(False, None, "it says a name that did not lead to this address")
            rules = {name: rules[name]}
        return _named(rules, port)

    def elements(self, pins: Mapping[str, Iterable[str]]) -> frozenset[tuple[str, int]]:
        """Every (address, port) that the names of ``pins`` open: what the packet filter lets through."""
        found: set[tuple[str, int]] = set()
        for name, pinned in pins.items():
            ports = {rule.port for rule in self.name(name)}
            found.update((address, port) for address in pinned for port in ports)
        return frozenset(found)

    def networks(self) -> tuple[Rule, ...]:
        """The rules for addresses and networks, which the packet filter lets through as they are."""
        return tuple(self._networks)

    def _reachable(self, raw: bytes) -> addresses.Verdict:
        verdict = addresses.Verdict(False, _OWN)
        if not self._is_own(raw):
            found = addresses.special(raw)
            if found is None:
                return addresses.Verdict(True, "an address of the internet")
            verdict = addresses.Verdict(False, found.reason)
        for rule in self._networks:
            opened = self._opens(rule, raw)
            if opened.allowed:
                return addresses.Verdict(True, f"{rule.text} names it")
        return verdict

    def _is_own(self, raw: bytes) -> bool:
        return raw in self._own or (
            len(raw) == 16 and any(inner in self._own for _, inner in addresses.embedded(raw))
        )

    def _opens(self, rule: Rule, raw: bytes) -> addresses.Verdict:
        assert rule.network is not None
        if self._is_own(raw) and not rule.network.is_address:
            return addresses.Verdict(False, _OWN)
        return rule.network.opens(raw)


def _named(rules: Mapping[str, tuple[Rule, ...]], port: int) -> Verdict:
    other = ""
    for name, found in rules.items():
        for rule in found:
            if rule.port == port:
                return Verdict(True, rule, f"{rule.text} allows it")
            other = other or f"{name} is allowed on port {rule.port} only"
    return Verdict(False, None, other or "no rule allows it")
