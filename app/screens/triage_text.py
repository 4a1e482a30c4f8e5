"""What the triage screen works out from values: its header, a bundle's proofs, what a repair is about."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from backends.snapshots import Finding
from backends.snapshots_doctor import Triage
from backends.snapshots_host import Proof
from widgets import units
from widgets.findings import MARKS, Paragraph, counts, name_of
from widgets.ink import Line, Run, line
from widgets.visible import runs

LATEST = 1e12  # seconds: what is later is no time
LONGEST = 4096  # characters of one text
MOST = 64
_FORM: dict[str, type] = {
    **dict.fromkeys(Proof._fields, str),
    **dict.fromkeys(("duration", "time", "passed"), float),
    "changed": tuple,
}
WORDS = {"fail": "fail", "warn": "will hurt", "note": "worth knowing", "ok": "hold"}


def _counted(findings: Sequence[Finding]) -> Line:
    parts: list[Run] = []
    for verdict, count in counts(findings).items():
        if count:
            mark, ink = MARKS[verdict]
            parts += line((f"  {mark} ", ink), f"{count} ", (WORDS[verdict], "quiet"))
    return tuple(parts)


def triage_line(findings: Sequence[Finding], looking: str) -> Line:
    """Crumbs, how much of what, and what is being looked at now."""
    parts = line(("fleet › ", "quiet"), ("triage", "title"), *_counted(findings))
    return line(*parts, ("  … ", "look"), *runs(looking, "look")) if looking else parts


def bundle_line(bundle: Triage, name: str, findings: Sequence[Finding]) -> Line:
    """The same of a bundle: its file, its age and the kernel that it says it is from."""
    age = units.span(max(0.0, time.time() - bundle.made))
    return line(
        ("triage › ", "quiet"),
        *runs(name, "title"),
        (f"  {age} old, Linux ", "quiet"),
        *runs(bundle.versions.get("kernel", "?")[:40], "quiet"),
        *_counted(findings),
    )


def proofs_of(bundle: Triage) -> dict[str, Proof]:
    """A bundle's proofs by id; one whose members have other types than ours is left out."""
    found = {}
    for row in bundle.proofs:
        proof = _proof(row)
        if proof is not None:
            found[proof.id] = proof
    return found


def _proof(row: Mapping[str, Any]) -> Proof | None:
    values: list[Any] = []
    for name, kind in _FORM.items():
        value = row.get(name)
        if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
            values.append(float(value) if abs(value) < LATEST else 0.0)
        elif kind is str and isinstance(value, str):
            values.append(value[:LONGEST])
        elif kind is tuple and isinstance(value, list) and all(isinstance(one, str) for one in value):
            values.append(tuple(one[:LONGEST] for one in value[:MOST]))
        else:
            return None
    return Proof(*values)


def repair_paragraphs(finding: Finding) -> list[Paragraph]:
    """What a repair is about to put right, for the question before it."""
    return [
        runs(finding.text, "strong"),
        (),
        (line(("where   ", "quiet"), *runs(name_of(finding.subject), "accent")), 8),
        (line(("seen    ", "quiet"), *runs(finding.evidence)), 8),
        (line(("repair  ", "quiet"), *runs(finding.fix, "strong")), 8),
        (),
        line("It is journalled with your name. No file of a box's tree is changed."),
    ]
