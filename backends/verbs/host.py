"""What this host can enforce, and whether host and boxes still keep their promises."""

from __future__ import annotations

from collections.abc import Callable

from backends.snapshots import Claim
from backends.snapshots_host import Fact, HostReport


def report(*, fresh: bool = False, progress: Callable[[str], None] | None = None) -> HostReport:
    """Facts, proofs and obstacles; from an earlier run where nothing changed since, unless ``fresh``."""
    from backends.host import reporting

    return reporting.report(fresh=fresh, progress=progress)


def probe(*, fresh: bool = False) -> tuple[Claim, ...]:
    """Each tier and its claims with what came of the action that was run for it."""
    return report(fresh=fresh).claims()


def facts() -> tuple[Fact, ...]:
    """What was seen of this host without trying anything."""
    from backends.host.reporting import gather_facts

    return gather_facts()
