"""What doctor shows beside its findings: repairs that were made, and a bundle that was opened."""

from __future__ import annotations

from typing import Any

from backends.record import NamedTuple
from backends.snapshots import Finding


class Repair(NamedTuple):
    """One safe repair that ``cloche doctor --fix`` made, or tried."""

    subject: str  # "host", or the key of a box as it was before
    fix: str
    finding: str  # id of the finding that offered it
    done: bool
    text: str  # what was done, or why it was not


class Triage(NamedTuple):
    """A triage bundle: what one host said of itself and its boxes, redacted. All of it is outside text."""

    made: float
    versions: dict[str, str]
    facts: tuple[tuple[str, str, str], ...]  # id, name, value
    proofs: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]
    boxes: tuple[dict[str, Any], ...]  # manifest, policy and the tail of the journal of each
