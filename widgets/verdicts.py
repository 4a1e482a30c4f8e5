"""The gate's verdicts as ink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backends.snapshots import CheckRow
from widgets import marks
from widgets.ink import Line, line
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


def check_paragraph(check: CheckRow, acknowledged: Mapping[str, str] | None = None) -> Paragraph:
    """One check; ``acknowledged`` names by a warning's key who took it upon themselves."""
    sign, ink = marks.VERDICTS.get(check.verdict, ("?", "look"))
    parts = line(
        (f"{sign} ", ink), (check.id, ink if check.verdict != "pass" else "quiet"), "  ", *runs(check.reason)
    )
    if check.path is not None:
        parts = line(*parts, ("  ", ""), *runs(check.path, "strong"))
    who = (acknowledged or {}).get(check.key)
    if who is not None and check.key:
        parts = line(*parts, ("  acknowledged by ", "quiet"), *runs(who, "quiet"))
    return parts, 2
