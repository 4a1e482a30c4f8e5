"""What the box screen works out from values: its header, its tabs, and what a kill is about to hit."""

from __future__ import annotations

from backends.snapshots import BoxRow, ProcessRow
from widgets import marks, units
from widgets.ink import Line, line
from widgets.tabs import Tab
from widgets.visible import runs, visible


def box_line(row: BoxRow, trouble: str) -> Line:
    """Crumbs, tier and state, then what a person should look at."""
    parts = line(("fleet › ", "quiet"), *marks.name(row), "  ", *marks.tier(row), "  ", *marks.state(row))
    if trouble:
        return line(*parts, ("  ~ ", "look"), *runs(trouble, "look"))
    if row.needs:
        return line(*parts, ("  ! ", "look strong"), *runs(row.needs, "look"))
    return parts


def box_tabs(row: BoxRow, changes: tuple[int, int] | None, session: int | None) -> tuple[Tab, ...]:
    """The tabs with their figures; ``changes`` are added and removed lines of the diff that was read last."""
    denied = line((units.count(row.denied), "denial strong")) if row.denied else ()
    stat = marks.changes(row)[:3] if row.stat and row.stat.files else ()
    if changes is not None and changes != (0, 0):
        stat = line((f"+{changes[0]}", "added"), " ", (f"-{changes[1]}", "removed"))
    return (
        Tab("denials", "1", "Denials", denied),
        Tab("changes", "2", "Changes", stat),
        Tab("sessions", "3", "Terminal", line((f"#{session}", "accent")) if session is not None else ()),
        Tab("timeline", "4", "Timeline"),
        Tab("policy", "5", "Policy"),
    )


def kill_paragraphs(process: ProcessRow, row: BoxRow) -> list[Line | tuple[Line, int]]:
    """The one process that a kill would end, by the identity that was selected."""
    started = f"{units.span(process.age)} ago"
    return [
        line(("pid ", "quiet"), str(process.ident.pid), ("  started ", "quiet"), started),
        runs(process.command[:400], "strong"),
        (),
        line(f"Sends SIGKILL to this process of {visible(row.name)}. Its children go on."),
    ]
