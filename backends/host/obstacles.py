"""What stands in the way on this host: causes that proofs met, and those that facts alone tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from backends.host import probes
from backends.host.causes import BY_ID
from backends.snapshots_host import Fact, Obstacle, Proof

# What the value of a fact begins with, and the cause that it tells of.
_FACTS = (
    ("lsm", "not told", "lsm-list"),
    ("podman", "absent", "podman-absent"),
    ("podman", "no answer", "podman-hung"),
    ("podman", "rootful", "podman-rootful"),
    ("kvm", "absent", "kvm-absent"),
    ("kvm", "cannot be opened", "kvm-refused"),
    ("kvm", "opens; no guest boots", "kvm-boots-nothing"),
)


def find(facts: Iterable[Fact], proofs: Iterable[Proof]) -> tuple[Obstacle, ...]:
    """One row for each cause; first those that keep a tier from being had."""
    found: dict[str, Obstacle] = {}
    for one in (*_met(proofs), *_told(facts)):
        before = found.get(one.id)
        if before is not None:
            one = before._replace(tiers=tuple(dict.fromkeys((*before.tiers, *one.tiers))))
        found[one.id] = one
    return tuple(sorted(found.values(), key=lambda one: BY_ID[one.id].narrows))


def _met(proofs: Iterable[Proof]) -> Iterator[Obstacle]:
    for proof in proofs:
        cause = BY_ID.get(proof.cause)
        verdict = proof.id == proof.tier
        if cause is None or (proof.result == probes.NOT_RUN and not cause.narrows):
            continue  # it was not run because of a verdict that is told by itself
        if verdict or cause.narrows or cause.id.startswith("proof-"):
            yield Obstacle(cause.id, cause.what, cause.why, cause.remedy, (proof.tier,), proof.evidence)


def _told(facts: Iterable[Fact]) -> Iterator[Obstacle]:
    for fact in facts:
        for ident, beginning, name in _FACTS:
            if fact.id == ident and fact.value.startswith(beginning):
                cause = BY_ID[name]
                evidence = f"{fact.text}: {fact.value}"
                yield Obstacle(cause.id, cause.what, cause.why, cause.remedy, cause.tiers, evidence)
