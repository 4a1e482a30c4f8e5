"""Where a supervised box may send packets: each rule with its pins, and what went through it."""

from __future__ import annotations

from backends.snapshots import EgressRow
from widgets import units
from widgets.ink import Line, line
from widgets.visible import runs

Paragraph = tuple[Line, int]

INKS = {"pinned": "live", "open": "live", "unresolved": "look", "refused": "denial"}
INDENT = 4


def egress_paragraphs(rows: tuple[EgressRow, ...] | str) -> list[Paragraph]:
    """One paragraph for each destination; a sentence where nobody can tell; nothing for a tier without."""
    if not rows:
        return [] if rows == "" else [_title(), (line(("  nothing: no destination is listed", "quiet")), 2)]
    if isinstance(rows, str):
        return [_title(), (line(("? ", "idle"), *runs(rows, "idle")), 2)]
    return [_title(), *(paragraph for row in rows for paragraph in _row(row))]


def _title() -> Paragraph:
    return line(("Where packets may go", "title")), 0


def _row(row: EgressRow) -> list[Paragraph]:
    word, _, why = row.state.partition(":")
    ink = INKS.get(word, "look")
    name = f"{row.name}:{row.port}" if row.name else row.rule
    head = line((f"{word} ", ink), *runs(name, "strong"))
    if row.name and row.rule not in (name, row.name):
        head = line(*head, ("  by ", "quiet"), *runs(row.rule, "accent"))
    if why:
        head = line(*head, "  ", *runs(why.strip(), "look"))
    figures = line(
        ("↑", "quiet"), f"{units.size(row.sent)} ", ("↓", "quiet"), units.size(row.received),
        (f"  {units.count(row.connections)} connection{'' if row.connections == 1 else 's'}", "quiet"),
    )  # fmt: skip
    if row.refused:
        figures = line(*figures, (f"  refused {units.count(row.refused)}", "denial strong"))
    found = [(head, INDENT), (line("    ", *figures), INDENT)]
    if row.name and row.addresses:  # a rule of addresses says them itself
        found.append((line(("    pinned to ", "quiet"), *runs(" ".join(row.addresses))), INDENT + 2))
    return found
