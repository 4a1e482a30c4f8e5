"""Why a box gets the tier it gets, as the command line and the dialog show it."""

from __future__ import annotations

from backends.record import NamedTuple

TAKEN, DEARER, NEVER, REFUSED, ABSENT = "taken", "dearer", "never", "refused", "absent"
"""``taken``: auto takes it. ``dearer``: it could be had, and costs more. ``never``: auto never takes it.
``refused``: it cannot enforce a key, or this host cannot have it. ``absent``: no part of this version."""


class Weighed(NamedTuple):
    """One tier beside a policy on this host."""

    tier: str
    state: str  # one of the words above
    why: str  # one sentence
    remedy: str  # what would change it, "" where nothing has to
    proof: str  # what was run here and seen, "" when nothing was
    start: float | None  # seconds that a minimal box took here from start to end, None: not measured


class Reasoning(NamedTuple):
    """Every tier weighed for one profile, and what ``auto`` makes of it."""

    profile: str
    tier: str  # the one that auto takes, "" when none can be had
    why: str  # one sentence
    rows: tuple[Weighed, ...]  # in the order of the questions; see backends.tiers.choosing.QUESTIONS
    age: float | None  # seconds since the proofs were run, None when none was asked

    def row(self, tier: str) -> Weighed | None:
        """The row of ``tier``."""
        return next((row for row in self.rows if row.tier == tier), None)
