"""What is known of this host, three things apart: facts that were seen, claims, and proofs that were run."""

from __future__ import annotations

from backends.record import NamedTuple
from backends.values import Claim


class Fact(NamedTuple):
    """One observation: a stable id, its name for people, the value as found, and what it belongs to.

    A fact proves nothing: what is present may still not work, and what is absent may not be needed.
    """

    id: str
    text: str
    value: str
    group: str  # one of backends.host.facts.GROUPS


class Proof(NamedTuple):
    """One claim of a tier, with the confined action that was run for it. The first five fields are a Claim.

    The row whose ``id`` is the tier's own name is the verdict on the whole tier.
    """

    id: str  # "process", or "process.write-outside"
    text: str
    result: str  # proved, failed, not run
    evidence: str
    duration: float  # seconds
    tier: str
    without: str  # what becomes false where the claim does not hold
    time: float  # when it was run, seconds since the epoch
    cause: str  # id in backends.host.causes, "" when it is proved or the cause is not known
    remedy: str  # what to do, "" when it is proved
    passed: float  # when it last held on this host, 0.0: never seen to
    changed: tuple[str, ...]  # what is different since then: "kernel: 6.1 -> 6.12"

    def claim(self) -> Claim:
        """The sentence and its result, as boxes and screens know it."""
        return Claim(*self[:5])


class Obstacle(NamedTuple):
    """One cause that keeps tiers of this host from their promise, or narrows it."""

    id: str
    what: str
    why: str
    remedy: str  # a command where there is one
    tiers: tuple[str, ...]  # that are affected
    evidence: str  # what was seen or run


class HostReport(NamedTuple):
    """The whole answer of ``cloche probe``."""

    facts: tuple[Fact, ...]
    proofs: tuple[Proof, ...]
    obstacles: tuple[Obstacle, ...]
    time: float  # when the proofs were run, seconds since the epoch
    duration: float  # seconds that took
    cached: bool  # it is the answer of an earlier run, under the same conditions
    age: float  # seconds since it was run
    conditions: tuple[tuple[str, str], ...]  # what the answer depends on: another one makes it void
    injected: tuple[str, ...]  # failures that were asked for (CLOCHE_INJECT); such an answer is never kept
    not_kept: str = ""  # why the answer could not be kept for the next time, "" when it is

    def claims(self) -> tuple[Claim, ...]:
        """Every claim with its result."""
        return tuple([proof.claim() for proof in self.proofs])

    def verdict(self, tier: str) -> Proof | None:
        """The proof of a whole tier, None where this version has no such tier."""
        return next((proof for proof in self.proofs if proof.id == tier), None)
