"""What doctor found, worst first: one row for each finding, and everything known of one of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from backends.snapshots import Finding
from backends.snapshots_host import Proof
from widgets import units
from widgets.ink import Line, Run, crop_line, fill_line, line, width_of
from widgets.lines import RowView
from widgets.visible import runs

Paragraph = Line | tuple[Line, int]
HOST = "host"
INDENT = 11
MARKS: dict[str, tuple[str, str]] = {
    "fail": ("✗", "denial strong"),
    "warn": ("!", "look strong"),
    "note": ("·", "quiet"),
    "ok": ("✓", "live"),
}
ORDER = {verdict: place for place, verdict in enumerate(MARKS)}
FAULTS = ("fail", "warn")
LONGEST_SUBJECT = 18
WITH_WHY = 96
"""Columns from which on a row says why it matters beside what it found."""


def worst_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """By severity; where that is the same the host before the boxes, each in the order of its checks."""
    return tuple(
        sorted(findings, key=lambda row: (ORDER.get(row.verdict, 0), row.subject != HOST, row.subject))
    )


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many of each severity, the worst first; none left out."""
    return {verdict: sum(row.verdict == verdict for row in findings) for verdict in MARKS}


def check_of(finding: Finding) -> str:
    """Which check it is, without the subject."""
    return finding.id.removeprefix(f"{finding.subject}: ")


def name_of(subject: str) -> str:
    """A subject as rows name it: a box without its repository."""
    return subject.rpartition("/")[2]


class FindingRows(RowView[Finding]):
    """The findings; the cursor stays on the same check of the same subject when they are looked at anew."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.why_empty = "looking…"
        self.claims: frozenset[str] = frozenset()  # ids of the host's findings that state a claim
        self.again: frozenset[tuple[str, str]] = frozenset()  # keys of rows that are being looked at again

    def key_of(self, row: Finding) -> tuple[str, str]:
        return row.subject, row.id

    def empty_line(self) -> Line:
        return line((self.why_empty, "idle"))

    def where(self, row: Finding) -> Line:
        """The box; or the host, with the tier where the finding is about a claim of one."""
        named = runs(name_of(row.subject), "accent")
        if row.subject != HOST or row.id not in self.claims:
            return named
        return line(*named, " ", *runs(row.id.partition(".")[0], "quiet"))

    def _subjects(self) -> int:
        longest = max((width_of(self.where(row)) for row in self.rows), default=0)
        return min(LONGEST_SUBJECT, max(4, longest))

    def heading(self, width: int) -> Line | None:
        size = self._subjects()
        what, why = self._parts(width, size)
        parts = [Run("  "), Run("where".ljust(size + 2), "quiet"), Run("what".ljust(what), "quiet")]
        return (*parts, Run("why it matters", "quiet")) if why else tuple(parts)

    @staticmethod
    def _parts(width: int, size: int) -> tuple[int, int]:
        """Columns of what was found and of why it matters; 0 for none."""
        room = width - size - 4
        return (room // 2, room - room // 2) if width >= WITH_WHY else (room, 0)

    def row_line(self, index: int, row: Finding, width: int) -> Line:
        size = self._subjects()
        what, why = self._parts(width, size)
        mark, ink = ("…", "look") if self.key_of(row) in self.again else MARKS.get(row.verdict, ("?", "look"))
        parts = line(
            (f"{mark} ", ink),
            *fill_line(crop_line(self.where(row), size), size + 2),
        )
        text = stated(row, claim=row.subject == HOST and row.id in self.claims)
        if not why:
            return line(*parts, *crop_line(text, what))
        return line(
            *parts, *fill_line(crop_line(text, what - 2), what), *crop_line(runs(row.why, "quiet"), why)
        )


def stated(finding: Finding, *, claim: bool) -> Line:
    """What was found; of a claim that was not proved, its sentence is not left to stand alone."""
    text = runs(finding.text, "strong" if finding.verdict in FAULTS else "")
    if not claim or finding.verdict == "ok":
        return text
    return line(("not run: ", "quiet") if finding.verdict == "note" else ("does not hold: ", "look"), *text)


def _said(label: str, *rest: str | Line | tuple[str, str]) -> Paragraph:
    return line((label.ljust(INDENT), "quiet"), *rest), INDENT


def finding_paragraphs(finding: Finding, proof: Proof | None, now: float | None = None) -> list[Paragraph]:
    """The finding, why it matters, what was run and seen, and the remedy as a command."""
    mark, ink = MARKS.get(finding.verdict, ("?", "look"))
    rows: list[Paragraph] = [
        (line((f"{mark} {finding.verdict}  ", ink), *stated(finding, claim=proof is not None)), 2)
    ]
    if finding.remedy:
        rows.append(_said("remedy", runs(finding.remedy, "strong")))
    if finding.fix:
        rows.append(_said("repair", ("safe: ", "live"), runs(finding.fix), (", F makes it", "quiet")))
    where = runs(name_of(finding.subject) or HOST, "accent")
    rows += [(), _said("where", where, (" · check ", "quiet"), runs(check_of(finding)))]
    if finding.why:
        rows.append(_said("why", runs(finding.why)))
    if finding.evidence:
        rows.append(_said("seen", runs(finding.evidence)))
    if proof is not None:
        rows += _of_proof(proof, time.time() if now is None else now)
    return rows


def _of_proof(proof: Proof, now: float) -> list[Paragraph]:
    """The confined action that was run for the claim."""
    cost = f" in {proof.duration * 1000:.1f} ms" if proof.duration else ""
    ran = f"{proof.result}{cost}, {units.span(now - proof.time)} ago" if proof.time else proof.result
    rows = [_said("proof", runs(ran))]
    if proof.without and proof.result != "proved":
        rows.append(_said("without it", runs(proof.without, "look")))
    if proof.result != "proved":
        held = f"{units.span(now - proof.passed)} ago" if proof.passed else "never seen on this host"
        rows.append(_said("last held", held))
    rows += [_said("changed", runs(one, "look")) for one in proof.changed]
    return rows
