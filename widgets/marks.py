"""Marks and words of states: each state can be told without colour."""

from __future__ import annotations

from backends.snapshots import BoxRow
from widgets import units
from widgets.ink import Line, Run, line
from widgets.visible import runs, visible

STATES: dict[str, tuple[str, str]] = {
    "created": ("○", "quiet"),
    "running": ("▶", "live"),
    "idle": ("‖", "idle"),
    "proposed": ("◆", "look"),
    "applied": ("✓", "accent"),
    "aborted": ("✕", "idle"),
}
"""Mark and ink of each state of the lifecycle."""

MARKED = "+"
"""Before the name of a box that the person marked."""

LIVE: dict[str, tuple[str, str, str]] = {
    "slow": ("~", "look", "keeper slow"),
    "lost": ("†", "look strong", "keeper lost"),
}
"""Mark, ink and words of what may be wrong with a keeper."""

VERDICTS: dict[str, tuple[str, str]] = {
    "pass": ("✓", "live"),
    "warn": ("!", "look strong"),
    "refuse": ("✗", "denial strong"),
}
RESULTS: dict[str, tuple[str, str]] = {
    "proved": ("✓", "live"),
    "failed": ("✗", "denial strong"),
    "not run": ("?", "idle"),
}


def state(row: BoxRow) -> Line:
    """Mark and word for where the box is; trouble with its keeper comes first."""
    if row.live in LIVE:
        mark, ink, word = LIVE[row.live]
        return line((f"{mark} {word}", ink))
    mark, ink = STATES.get(row.state, ("?", "look"))
    return line((f"{mark} {row.state}", ink))


def tier(row: BoxRow) -> Line:
    """The tier; where nothing confines the box, or less is promised than usual, that is said beside it."""
    if row.unconfined:
        return line((row.tier, "look"), (" UNCONFINED", "look strong"))
    if row.caveat:
        return line((row.tier, "look"), (f" {row.caveat.partition(':')[0].upper()}", "look strong"))
    return line((row.tier, "accent"))


def base(row: BoxRow) -> Line:
    """Branch and commit of the base, and how far the branch moved on."""
    if not row.base:
        return line(("no base", "idle"))
    branch = visible(row.base_ref.removeprefix("refs/heads/")) or "detached"
    parts: list[Run] = [Run(f"{branch}@{row.base[:7]}", "quiet")]
    if row.drift:
        parts.append(Run(f" {row.drift} behind", "look"))
    elif row.drift is None and row.base_ref:
        parts.append(Run(" branch gone", "look"))
    return tuple(parts)


def changes(row: BoxRow) -> Line:
    if row.stat is None:
        return line(("no diff yet", "idle"))
    if not row.stat.files:
        return line(("no changes", "idle"))
    files = "file" if row.stat.files == 1 else "files"
    return line(
        (f"+{row.stat.added}", "added"),
        " ",
        (f"-{row.stat.deleted}", "removed"),
        (f" in {row.stat.files} {files}", "quiet"),
    )


def overdue(row: BoxRow, now: float) -> Line:
    if row.expires is None or now < row.expires:
        return ()
    return line((f"overdue {units.span(now - row.expires)}", "look"))


def name(row: BoxRow) -> Line:
    return runs(row.name, "title")
