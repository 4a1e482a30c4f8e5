"""The files of a diff as a tree: status, what the gate says of each, what changed, which were reviewed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from textual.widget import Widget

from backends.snapshots import CheckRow, FileChange
from widgets import units
from widgets.ink import Line, Run, crop_line_left, fill_line, line, width_of
from widgets.lines import RowView
from widgets.suspects import named, suspects
from widgets.visible import text_of

KINDS = {
    "A": ("A", "added"),
    "M": ("M", "quiet"),
    "D": ("D", "removed"),
    "R": ("R", "accent"),
    "C": ("C", "accent"),
    "T": ("T", "look"),
}
DECIDED = {
    "accepted": Run("✓", "live strong"),
    "rejected": Run("✗", "removed strong"),
    "mixed": Run("±", "quiet"),
}
"""The sign of a file, or of a folded folder, by what was decided of it."""
BULK = {"generated": "gen", "vendored": "vend"}
"""How a file that nobody wrote by hand is called in its row."""
ROOM_FOR_COUNTS = 48
"""Cells of the list from which a file that is decided in part shows its counts beside its changes."""
DEEPEST = 24
"""Folders within folders that get rows of their own."""


class FileDone(NamedTuple):
    """How far the review of one file is. Parts of it, such as its mode, count like lines."""

    accepted: int
    rejected: int
    undecided: int
    comments: int = 0
    blocked: bool = False  # something that was accepted cannot be carried out

    @property
    def state(self) -> str:
        """accepted, rejected, mixed; "" while nothing is decided."""
        having = [name for name, count in zip(("accepted", "rejected", ""), self, strict=False) if count]
        return having[0] if len(having) == 1 else "mixed" if having else ""


class TreeRow(NamedTuple):
    """A folder of several changed files, or a file with the folders that hold nothing else."""

    depth: int
    name: bytes  # what is shown, relative to the row that this one is under
    path: bytes
    file: int  # place in the list of changes; of a folder, of its first file
    files: int  # of a folder; 0 for a file
    added: int
    deleted: int


def tree_rows(changes: Sequence[FileChange], folded: frozenset[bytes] | set[bytes]) -> list[TreeRow]:
    """The rows of a list of changes that is in path order; what is below a folded folder has none."""
    rows: list[TreeRow] = []
    todo = [(0, len(changes), 0, 0)]  # first, last, bytes of the path that are said above, depth
    while todo:
        first, last, said, depth = todo.pop()
        if first >= last:
            continue
        path = changes[first].path
        slash = path.find(b"/", said)
        end = first + 1
        if slash >= 0 and depth < DEEPEST:
            folder = path[: slash + 1]
            while end < last and changes[end].path.startswith(folder):
                end += 1
        todo.append((end, last, said, depth))
        if end == first + 1:
            change = changes[first]
            figures = (change.added or 0, change.deleted or 0)
            rows.append(TreeRow(depth, path[said:], path, first, 0, *figures))
            continue
        inside = changes[first:end]
        folder = _common_folder(min(c.path for c in inside), max(c.path for c in inside))
        rows.append(
            TreeRow(
                depth,
                folder[said:],
                folder,
                first,
                end - first,
                sum(change.added or 0 for change in inside),
                sum(change.deleted or 0 for change in inside),
            )
        )
        if folder not in folded:
            todo.append((first, end, len(folder), depth + 1))
    return rows


def _common_folder(one: bytes, other: bytes) -> bytes:
    """The folder that both are in; what lies between them in order is in it too."""
    size = 0
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            break
        if mine == 0x2F:
            size = place + 1
    return one[:size]


class FileList(RowView[TreeRow]):
    """Rows by path; the cursor chooses what the diff shows, Enter folds a folder."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.changes: Sequence[FileChange] = ()
        self.leads_to: Widget | None = None  # gets the keys when a file is chosen, before the next one comes
        self.reviewed: set[bytes] = set()
        self._worst: dict[bytes, str] = {}
        self._folded: set[bytes] = set()
        self._suspects: Mapping[int, tuple[int, str]] = {}
        self._decided: Mapping[bytes, FileDone] = {}
        self._bulk: Mapping[bytes, str] = {}

    # ------------------------------------------------------------ values

    def set_files(self, changes: Sequence[FileChange], checks: Sequence[CheckRow]) -> None:
        self._worst = {}
        for check in checks:
            bad = check.path is not None and check.verdict in ("warn", "refuse")
            if bad and self._worst.get(check.path or b"") != "refuse":
                self._worst[check.path or b""] = check.verdict
        self.changes = changes
        self._fold_bulk()
        self.set_rows(tree_rows(changes, self._folded))

    def set_bulk(self, kinds: Mapping[bytes, str]) -> None:
        """Files that nobody wrote by hand (generated, vendored), by path: folders of nothing else are folded,
        others are drawn fainter and say so. To be called before the files are set."""
        self._bulk = kinds

    def _fold_bulk(self) -> None:
        bulk = [0]
        for change in self.changes:
            bulk.append(bulk[-1] + (change.path in self._bulk))
        if bulk[-1]:
            rows = tree_rows(self.changes, frozenset())
            self._folded |= {
                row.path
                for row in rows
                if row.files and bulk[row.file + row.files] - bulk[row.file] == row.files
            }

    def set_suspects(self, files: Mapping[int, tuple[int, str]]) -> None:
        """Files (by place) with added lines that hold characters that are not what they seem."""
        self._suspects = files
        self.refresh()

    def set_decided(self, decided: Mapping[bytes, FileDone]) -> None:
        """How much of each file is decided; nothing of one that is not named. The same mapping may come
        again, changed."""
        self._decided = decided
        self.refresh()

    def set_reviewed(self, paths: set[bytes]) -> None:
        """The files that are marked as read."""
        self.reviewed = paths
        self.refresh()

    # ------------------------------------------------------------ the cursor

    @property
    def change(self) -> FileChange | None:
        """The file of the cursor, ``None`` on a folder."""
        row = self.selected
        return self.changes[row.file] if row is not None and not row.files else None

    @property
    def file(self) -> int | None:
        """The place of that file among the changes."""
        row = self.selected
        return row.file if row is not None and not row.files else None

    def step_file(self, steps: int) -> None:
        """The next file (or the one before) that is shown; folders are passed over."""
        place = self.index + steps
        while 0 <= place < len(self.rows):
            if not self.rows[place].files:
                self._stand_on(place)
                return
            place += steps

    def select_file(self, file: int) -> None:
        """The cursor on a file by its place; the folders above it are unfolded."""
        if not 0 <= file < len(self.changes):
            return
        path = self.changes[file].path
        folded = {folder for folder in self._folded if not path.startswith(folder)}
        if folded != self._folded:
            self._folded = folded
            self.set_rows(tree_rows(self.changes, folded))
        self.select((path, False))

    def fold(self) -> bool:
        """Folds or unfolds the folder of the cursor; false on a file."""
        row = self.selected
        if row is None or not row.files:
            return False
        self._folded ^= {row.path}
        self.set_rows(tree_rows(self.changes, self._folded))
        return True

    def action_choose(self) -> None:
        if not self.fold():
            if self.leads_to is not None:
                self.screen.set_focus(self.leads_to)
            super().action_choose()

    @property
    def here(self) -> tuple[bytes, ...]:
        """The file under the cursor, or all files of the folder."""
        row = self.selected
        if row is None:
            return ()
        return tuple(change.path for change in self.changes[row.file : row.file + max(1, row.files)])

    def step_unread(self) -> None:
        """To the next file that is shown and not marked as read, around at the end."""
        rest = [*range(self.index + 1, len(self.rows)), *range(self.index)]
        place = next((n for n in rest if not self.rows[n].files and not self._seen(self.rows[n])), None)
        if place is not None:
            self._stand_on(place)

    def _seen(self, row: TreeRow) -> bool:
        inside = self.changes[row.file : row.file + max(1, row.files)]
        return all(change.path in self.reviewed for change in inside)

    # ------------------------------------------------------------ drawing

    def key_of(self, row: TreeRow) -> tuple[bytes, bool]:
        return row.path, bool(row.files)

    def row_line(self, index: int, row: TreeRow, width: int) -> Line:
        seen = Run("✓ ", "live") if self._seen(row) else Run("  ")
        sign = self._sign(row)
        indent = Run(" " * (1 + min(2 * row.depth, width // 4)), "faint")
        here = "strong" if index == self.index else ""
        if row.files:
            letter = Run("▸ " if row.path in self._folded else "▾ ", "accent")
            figures = line(
                (f" {row.files}", "quiet"), (f" +{row.added}", "added"), (f" -{row.deleted}", "removed")
            )
        else:
            change = self.changes[row.file]
            letter = Run(*KINDS.get(change.status[:1], ("?", "look")))._replace()
            letter = Run(letter.text + " ", letter.ink)
            figures = _figures(change)
        if row.files and row.path in self._folded:
            figures = self._with_folder(figures, row)
        elif not row.files and (done := self._decided.get(row.path)) is not None:
            figures = _with_decisions(figures, done, width)
        bulk = self._bulk.get(row.path, "") if not row.files else ""
        if bulk:
            here = here or "quiet"
            figures = line((f" {BULK.get(bulk, bulk)}", "quiet"), *figures)
        room = width - 6 - (len(indent.text) - 1) - width_of(figures)
        room = max(4, room)
        name = fill_line(crop_line_left(named(row.name[-4 * room - 64 :], here), room), room)
        return (seen, sign, indent, letter, *name, *figures)

    def _with_folder(self, figures: Line, row: TreeRow) -> Line:
        """The figures of a folded folder with the one state of its files."""
        inside = self.changes[row.file : row.file + row.files]
        dones = [self._decided.get(change.path) for change in inside]
        states = {done.state if done is not None else "" for done in dones}
        state = states.pop() if len(states) == 1 else "mixed"
        return line(*figures, " ", DECIDED[state]) if state else figures

    def _sign(self, row: TreeRow) -> Run:
        places = range(row.file, row.file + max(1, row.files))
        if row.files and row.path not in self._folded:
            return Run(" ")  # its files are in sight
        verdicts = {self._worst.get(self.changes[place].path, "") for place in places}
        if "refuse" in verdicts:
            return Run("✗", "denial strong")
        odd = any(place in self._suspects for place in places) or _odd_name(row.name)
        if "warn" in verdicts or odd:
            return Run("!", "look strong")
        return Run(" ")

    def empty_line(self) -> Line:
        return line(("no file differs from the base", "idle"))


def _with_decisions(figures: Line, done: FileDone, width: int) -> Line:
    """A file's figures with what was decided of it; of a part the counts, instead of the changes when both do
    not fit."""
    state = done.state
    end: list[Run] = []
    if state == "mixed":
        counts = ((" ✓", "live"), (" ✗", "removed"), (" ○", "quiet"))
        end = [Run(f"{sign}{units.count(n)}", ink) for n, (sign, ink) in zip(done, counts, strict=False) if n]
        figures = figures if width >= ROOM_FOR_COUNTS else ()
    elif state:
        end = [Run(" "), DECIDED[state]]
    if done.comments:
        end.append(Run(f" “{units.count(done.comments)}", "look"))
    if done.blocked:
        end.append(Run(" ⊘", "look strong"))
    return line(*figures, *end)


def _odd_name(name: bytes) -> bool:
    return not name.isascii() and any(suspect.kind for suspect in suspects(text_of(name)))


def _figures(change: FileChange) -> Line:
    if change.added is None or change.deleted is None:
        figures = line((" binary", "idle"))
    else:
        figures = line((f" +{change.added}", "added"), (f" -{change.deleted}", "removed"))
    if change.old_mode != change.new_mode and change.old_mode and change.new_mode:
        modes = f" {change.old_mode & 0o777:o}→{change.new_mode & 0o777:o}"
        figures = line((modes, "look"), *figures)
    return figures
