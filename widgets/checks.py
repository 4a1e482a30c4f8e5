"""The evidence beside a diff: the gate's verdicts, what ran, what was refused, what could not be seen."""

from __future__ import annotations

from collections.abc import Sequence

from backends.snapshots import CheckRow, ReviewView
from widgets import marks, units
from widgets.ink import Line, line
from widgets.lines import Document
from widgets.tally import tally_rows
from widgets.visible import runs

Paragraph = tuple[Line, int]


def count_verdicts(checks: Sequence[CheckRow]) -> dict[str, int]:
    counts = {"pass": 0, "warn": 0, "refuse": 0}
    for check in checks:
        counts[check.verdict] = counts.get(check.verdict, 0) + 1
    return counts


def verdict_line(checks: Sequence[CheckRow]) -> Line:
    """``11 pass  2 warn  0 refuse``."""
    counts = count_verdicts(checks)
    return line(
        (f"✓ {counts['pass']} pass", "live"),
        (f"  ! {counts['warn']} warn", "look strong" if counts["warn"] else "idle"),
        (f"  ✗ {counts['refuse']} refuse", "denial strong" if counts["refuse"] else "idle"),
    )


def check_paragraph(check: CheckRow) -> Paragraph:
    sign, ink = marks.VERDICTS.get(check.verdict, ("?", "look"))
    parts = line(
        (f"{sign} ", ink), (check.id, ink if check.verdict != "pass" else "quiet"), "  ", *runs(check.reason)
    )
    if check.path is not None:
        parts = line(*parts, ("  ", ""), *runs(check.path, "strong"))
    return parts, 2


def evidence_paragraphs(review: ReviewView) -> list[Paragraph]:
    """Worst first: what refuses, what warns, what ran, what was denied, what was not seen, what passed."""
    order = {"refuse": 0, "warn": 1}
    bad = sorted(
        (check for check in review.checks if check.verdict in order), key=lambda check: order[check.verdict]
    )
    rows: list[Paragraph] = [check_paragraph(check) for check in bad]
    if rows:
        rows.append(((), 0))
    rows.append((line(("Ran", "title")), 0))
    for session in review.sessions:
        code = "running" if session.exit is None else f"exit {session.exit}"
        ink = "quiet" if session.exit == 0 else "look"
        took = f"  {units.span(session.ended - session.started)}" if session.ended is not None else ""
        rows.append((line(*runs(" ".join(session.argv)[:200]), (f"  {code}", ink), (took, "quiet")), 2))
    if not review.sessions:
        rows.append((line(("nothing ran in this box", "idle")), 2))
    rows.append(((), 0))
    rows.append(
        (
            line(
                ("Denied ", "title"),
                (str(review.tally.total), "denial strong" if review.tally.total else "quiet"),
            ),
            0,
        )
    )
    for row in tally_rows(review.tally):
        if row.denial is None:
            rows.append((row.sentence, 9))
        else:
            denial = row.denial
            rows.append(
                (
                    line(
                        (f"{denial.kind:<9}", "denial"), *runs(denial.object), (f" ×{denial.count}", "denial")
                    ),
                    9,
                )
            )
    if review.diff.skipped:
        rows.append(((), 0))
        rows.append((line(("Not read", "title")), 0))
        rows += [
            (line(*runs(path, "look"), "  ", *runs(why, "quiet")), 2) for path, why in review.diff.skipped
        ]
    good = [check for check in review.checks if check.verdict == "pass"]
    if good:
        rows.append(((), 0))
        rows.append((line(("Passed", "title")), 0))
        rows += [check_paragraph(check) for check in good]
    return rows


class Evidence(Document):
    """The evidence panel of the gate."""

    def set_review(self, review: ReviewView) -> None:
        self.set_paragraphs(evidence_paragraphs(review))
