"""Boxes as a table: one row a box, for fleets that do not fit in panes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from backends.snapshots import BoxRow
from widgets import marks, units
from widgets.ink import Line, Run, crop_line, fill_line, line, tint, width_of
from widgets.lines import RowView
from widgets.printed import printed_line
from widgets.visible import fit, fitted, runs


class Column(NamedTuple):
    title: str
    width: int
    from_width: int  # the table is at least this wide when the column is shown
    right: bool = False


COLUMNS: dict[str, Column] = {
    "mark": Column("", 2, 0),
    "name": Column("box", 18, 0),
    "repository": Column("repository", 14, 150),
    "tier": Column("tier", 11, 0),
    "state": Column("state", 14, 0),
    "age": Column("age", 5, 70, True),
    "processes": Column("proc", 5, 70, True),
    "cpu": Column("cpu", 6, 100, True),
    "memory": Column("mem", 6, 100, True),
    "denied": Column("denied", 11, 0, True),
    "changes": Column("changes", 14, 90, True),
    "base": Column("base", 22, 130),
}
"""Columns in order; the last words of the box take what is left."""


def shown_columns(width: int, several_repositories: bool) -> list[str]:
    names = [name for name, column in COLUMNS.items() if width >= column.from_width]
    if several_repositories and "repository" not in names and width >= 100:
        names.insert(2, "repository")
    elif not several_repositories and "repository" in names:
        names.remove("repository")
    return names


class BoxTable(RowView[BoxRow]):
    """The fleet as rows; the cursor follows the box."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.why_empty = "no boxes"
        self._several = False
        self._fresh: Mapping[str, int] = {}
        self._marked: frozenset[str] = frozenset()

    def set_boxes(
        self,
        rows: tuple[BoxRow, ...] | list[BoxRow],
        fresh: Mapping[str, int] | None = None,
        marked: Iterable[str] = (),
    ) -> None:
        """``fresh`` counts by box what was refused since the person looked at it last; ``marked`` are keys
        of boxes that the person marked."""
        self._fresh = fresh or {}
        self._marked = frozenset(marked)
        self._several = len({row.repository for row in rows}) > 1
        self.set_rows(rows)

    def key_of(self, row: BoxRow) -> str:
        return row.key

    def heading(self, width: int) -> Line | None:
        parts = [
            Run(fit(column.title, column.width - 1, "right" if column.right else "left") + " ", "quiet")
            for column in (COLUMNS[name] for name in shown_columns(width, self._several))
        ]
        return fill_line((*parts, Run("last output", "quiet")), width)

    def row_line(self, index: int, row: BoxRow, width: int) -> Line:
        parts: list[Run] = []
        for name in shown_columns(width, self._several):
            column = COLUMNS[name]
            cell = crop_line(self._cell(name, row), column.width - 1)
            pad = " " * (column.width - 1 - width_of(cell))
            parts += [Run(pad), *cell, Run(" ")] if column.right else [*cell, Run(pad + " ")]
        used = sum(COLUMNS[name].width for name in shown_columns(width, self._several))
        words = (
            line(("! ", "look"), *tint(runs(row.needs), "look"))
            if row.needs
            else tint(printed_line(row.last_line), "quiet")
        )
        return (*parts, *fill_line(words, max(0, width - used)))

    def _cell(self, name: str, row: BoxRow) -> Line:
        now = time.time()
        live = row.live == "live"
        if name == "mark" and row.key in self._marked:
            return line((marks.MARKED, "accent strong"))
        if name == "mark":
            if row.needs:
                return line(("!", "look strong"))
            return line(("•", "denial strong")) if self._fresh.get(row.key) else ()
        if name == "name":
            return marks.name(row)
        if name == "repository":
            return fitted(row.repository.rsplit("/", 1)[-1] or "detached", 13, "quiet")
        if name == "tier":
            return line((row.tier, "look strong" if row.unconfined or row.caveat else "accent"))
        if name == "state":
            return marks.state(row)
        if name == "age":
            return line((units.span(now - row.created), "quiet"))
        if name == "processes":
            return line((str(row.processes) if live else "·", "" if live and row.processes else "idle"))
        if name == "cpu":
            return line(
                (units.percent(row.cpu) if live else "·", "live" if live and row.cpu >= 1 else "idle")
            )
        if name == "memory":
            return line((units.size(row.rss) if live else "·", "quiet" if live else "idle"))
        if name == "denied":
            fresh = self._fresh.get(row.key, 0)
            if fresh == row.denied:  # all of them, or none at all
                return line((f"+{units.count(fresh)}", "denial strong") if fresh else ("0", "idle"))
            old = line((units.count(row.denied), "denial"))
            return line(*old, (f" +{units.count(fresh)}", "denial strong")) if fresh else old
        if name == "changes":
            if row.stat is None or not row.stat.files:
                return line(("·", "idle"))
            return line((f"+{row.stat.added}", "added"), " ", (f"-{row.stat.deleted}", "removed"))
        return marks.base(row)

    def empty_line(self) -> Line:
        return line((self.why_empty, "idle"))
