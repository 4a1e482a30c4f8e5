"""The whole answer about this host: facts, proofs, and what stands in the way."""

from __future__ import annotations

import time
from collections.abc import Callable

from backends import tiers
from backends.host import claims, facts, probes
from backends.snapshots_host import HostReport, Proof
from backends.values import Claim

Progress = Callable[[str], None]
"""Is told in a few words what is being tried; may be called from the caller's thread only."""


def report(*, fresh: bool = False, progress: Progress | None = None) -> HostReport:
    """What this host is and what was proved on it. ``fresh``: by running everything now."""
    began = time.time()
    found = facts.gather()
    proofs: list[Proof] = []
    for name in tiers.MODULES:
        if progress:
            progress(f"tier {name}")
        proofs += [_proof(name, claim, began) for claim in probes.probe(name)]
    took = time.time() - began
    return HostReport(found, tuple(proofs), (), began, took, False, 0.0, (), ())


def _proof(tier: str, claim: Claim, now: float) -> Proof:
    proved = claim.result == probes.PROVED
    return Proof(*claim, tier, claims.without(claim.id), now, "", "" if proved else "cloche doctor", now, ())
