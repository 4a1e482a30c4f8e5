"""The frozen values of an export that is read again, for front ends and JSON."""

from __future__ import annotations

from backends.record import NamedTuple
from backends.snapshots import CheckRow, Finding, ReviewView

SAME = "same"
ONLY_NOW = "only now"
ONLY_THEN = "only then"


class Judged(NamedTuple):
    """A check of the gate, as the receipt records it and as it says now, where it was run again."""

    row: CheckRow
    # same, only now (the receipt has it not), only then (not said any more, or to be seen in the box only)
    when: str


class AskedFor(NamedTuple):
    """Changes that a reviewer requested of an earlier proposal."""

    time: float
    who: str
    scripted: bool
    snapshot: str
    comments: int
    rejected: int


class BundleView(NamedTuple):
    """An export, as far as it can be told where its box is not."""

    source: str  # the folder or file
    exported: float
    findings: tuple[Finding, ...]  # what of it holds: hashes, signature, journal, patch against receipt
    view: ReviewView  # its checks are those of now where they were run again, else those of the receipt
    rerun: bool  # the patch was applied to the base in a repository here, and the gate asked again
    why_not: str  # why it was not, "" when it was
    judged: tuple[Judged, ...]  # the checks then and now; empty when they were not run again
    requests: tuple[AskedFor, ...]
