"""The process tree of one box: flat rows in depth-first order, folded and selected by identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType

from backends.snapshots import ProcessId, ProcessRow
from widgets import units
from widgets.ink import Line, Run, fill_line, line
from widgets.lines import RowView
from widgets.visible import fit, runs

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a device",
    "T": "stopped",
    "t": "traced",
    "Z": "ended, not yet reaped",
    "I": "idle",
}
"""What the letter of proc_pid_stat(5) field 3 means."""


class TreeRow(NamedTuple):
    """One drawn row: a process, the guides left of it, and how many rows are folded away under it."""

    process: ProcessRow
    guide: str
    children: bool
    hidden: int


def layout(rows: Sequence[ProcessRow], folded: frozenset[ProcessId] | set[ProcessId]) -> list[TreeRow]:
    """The rows that are not folded away, with their guides; linear in ``rows``."""
    total = len(rows)
    guides: list[str] = [""] * total
    children = [False] * total
    open_at: set[int] = set()  # depths at which a later sibling follows
    for place in range(total - 1, -1, -1):
        depth = rows[place].depth
        children[place] = place + 1 < total and rows[place + 1].depth > depth
        guides[place] = "".join("│ " if level in open_at else "  " for level in range(1, depth))
        if depth:
            guides[place] += "├─" if depth in open_at else "└─"
        open_at = {level for level in open_at if level < depth}
        open_at.add(depth)
    shown: list[TreeRow] = []
    place = 0
    while place < total:
        process = rows[place]
        hidden = 0
        if process.ident in folded and children[place]:
            end = place + 1
            while end < total and rows[end].depth > process.depth:
                end += 1
            hidden = end - place - 1
        shown.append(TreeRow(process, guides[place], children[place], hidden))
        place += hidden + 1
    return shown


def process_line(row: TreeRow, width: int) -> Line:
    """One process in ``width`` cells: guides, command, then CPU, memory and age as far as there is room."""
    process = row.process
    figures = [
        Run(fit(units.percent(process.cpu), 5, "right"), _busy(process.cpu)),
        Run(fit(units.size(process.rss), 6, "right"), "quiet"),
        Run(fit(units.span(process.age), 5, "right"), "quiet"),
    ]
    if width < 34:
        figures = figures[:1]
    elif width < 44:
        figures = figures[:2]
    if width >= 72:
        figures.insert(
            0, Run(fit(f"{process.state} {process.ident.pid}", 10, "right"), _state_ink(process.state))
        )
    room = width - sum(len(run.text) for run in figures)
    mark = ("▸" if row.hidden else "▾") if row.children else "·"
    parts: list[Run] = [Run(row.guide, "faint"), Run(mark + " ", "quiet")]
    if process.state in "TtZ":
        parts.append(Run(f"{process.state} ", "look"))
    ink = "strong" if process.cpu >= 1 else ("quiet" if process.state == "Z" else "")
    parts.extend(runs(process.command or process.name, ink))
    if row.hidden:
        parts.append(Run(f"  +{row.hidden}", "accent"))
    return (*fill_line(tuple(parts), room), *figures)


def _busy(cpu: float) -> str:
    return "live strong" if cpu >= 50 else ("live" if cpu >= 1 else "idle")


def _state_ink(state: str) -> str:
    return "look" if state in "TtZ" else "quiet"


class ProcessTree(RowView[TreeRow]):
    """The tree with fold, hold and follow. :attr:`selected` is the process that an action would hit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "fold", "Fold", show=False),
        Binding("z", "hold", "Hold", show=False),
        Binding("f", "follow", "Follow", show=False),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.folded: set[ProcessId] = set()
        self.held = False
        self.following = False
        self._processes: Sequence[ProcessRow] = ()
        self._why_empty = "no process"

    def set_processes(self, rows: Sequence[ProcessRow], why_empty: str = "no process") -> None:
        """Shows ``rows`` unless the view is held; ``why_empty`` is said when there are none."""
        self._why_empty = why_empty
        self._processes = rows
        if self.held:
            return
        self.folded &= {row.ident for row in rows}
        self._layout()
        if self.following and rows:
            self.select(max(rows, key=lambda row: (row.cpu, row.ident.start)).ident)

    def _layout(self) -> None:
        self.set_rows(layout(self._processes, self.folded))

    @property
    def process(self) -> ProcessRow | None:
        """The selected process; ``None`` when it has ended since it was selected."""
        row = self.selected
        return row.process if row is not None else None

    def key_of(self, row: TreeRow) -> ProcessId:
        return row.process.ident

    def heading(self, width: int) -> Line | None:
        title = f"processes {len(self._processes)}"
        if self.held:
            title += "  HELD"
        elif self.following:
            title += "  following the busiest"
        if self.lost:
            title += "  selected process ended"
        figures = "  cpu" + ("   mem" if width >= 34 else "") + ("  age" if width >= 44 else "")
        if width >= 72:
            figures = "S    pid" + figures
        return line((fit(title, width - len(figures)), "quiet"), (figures, "quiet"))

    def row_line(self, index: int, row: TreeRow, width: int) -> Line:
        return process_line(row, width)

    def empty_line(self) -> Line:
        return line((self._why_empty, "idle"))

    def action_fold(self) -> None:
        row = self.selected
        if row is None or not row.children:
            return
        self.folded ^= {row.process.ident}
        self._layout()

    def action_hold(self) -> None:
        self.held = not self.held
        if not self.held:
            self.set_processes(self._processes, self._why_empty)
        self.refresh()

    def action_follow(self) -> None:
        self.following = not self.following
        self.set_processes(self._processes, self._why_empty)
