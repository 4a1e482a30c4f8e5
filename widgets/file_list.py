"""The files of a diff: status, what the gate says of each, how much changed, and which were reviewed."""

from __future__ import annotations

from collections.abc import Sequence

from backends.snapshots import CheckRow, FileChange
from widgets.ink import Line, Run, line
from widgets.lines import RowView
from widgets.visible import fitted

KINDS = {
    "A": ("A", "added"),
    "M": ("M", "quiet"),
    "D": ("D", "removed"),
    "R": ("R", "accent"),
    "T": ("T", "look"),
}


class FileList(RowView[FileChange]):
    """Rows by path; the cursor chooses what the diff shows."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.reviewed: set[bytes] = set()
        self._worst: dict[bytes, str] = {}

    def set_files(self, changes: Sequence[FileChange], checks: Sequence[CheckRow]) -> None:
        self._worst = {}
        for check in checks:
            bad = check.path is not None and check.verdict in ("warn", "refuse")
            if bad and self._worst.get(check.path or b"") != "refuse":
                self._worst[check.path or b""] = check.verdict
        self.set_rows(changes)

    def mark_reviewed(self) -> None:
        """Marks the selected file and goes to the next one that is not."""
        if self.selected is None:
            return
        self.reviewed ^= {self.selected.path}
        self.refresh()
        if self.selected.path in self.reviewed:
            rest = [*range(self.index + 1, len(self.rows)), *range(self.index)]
            place = next((n for n in rest if self.rows[n].path not in self.reviewed), None)
            if place is not None:
                self.select(self.rows[place].path)

    def key_of(self, row: FileChange) -> bytes:
        return row.path

    def row_line(self, index: int, row: FileChange, width: int) -> Line:
        seen = Run("✓ ", "live") if row.path in self.reviewed else Run("  ")
        verdict = self._worst.get(row.path, "")
        sign = {"warn": Run("!", "look strong"), "refuse": Run("✗", "denial strong")}.get(verdict, Run(" "))
        letter, ink = KINDS.get(row.status[:1], ("?", "look"))
        if row.added is None or row.deleted is None:
            figures = line((" binary", "idle"))
        else:
            figures = line((f" +{row.added}", "added"), (f" -{row.deleted}", "removed"))
        if row.old_mode != row.new_mode and row.old_mode and row.new_mode:
            figures = line((f" {row.old_mode & 0o777:o}→{row.new_mode & 0o777:o}", "look"), *figures)
        room = width - 6 - sum(len(run.text) for run in figures)
        here = index == self.index
        name = fitted(row.path, max(4, room), "strong" if here else "", keep="tail")
        return (seen, sign, Run(" "), Run(letter + " ", ink), *name, *figures)

    def empty_line(self) -> Line:
        return line(("no file differs from the base", "idle"))
