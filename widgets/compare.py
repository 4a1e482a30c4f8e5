"""Boxes beside each other: one row for each box, and for each file what every box made of it."""

from __future__ import annotations

from backends.snapshots_compare import ComparedBox, ComparedFile, Version
from widgets import marks, units
from widgets.ink import Line, Run, crop_line, fill_line, line, width_of
from widgets.lines import RowView
from widgets.visible import fit, runs

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What a box is called above the columns of its files."""

COLUMNS = (
    ("box", 19, False),
    ("state", 15, False),
    ("files", 6, True),
    ("lines", 15, True),
    ("size", 6, True),
    ("last test", 14, False),
    ("tried", 8, False),
    ("refused", 8, True),
    ("ran for", 8, True),
)
"""Title, width, and whether the cells stand at the right."""
NARROW_WITHOUT = ("size", "tried", "state")
"""Columns that go first where there is no room for all."""


def shown_columns(width: int) -> list[tuple[str, int, bool]]:
    """The columns that fit into ``width`` cells."""
    kept = list(COLUMNS)
    for name in NARROW_WITHOUT:
        if sum(size for _, size, _ in kept) + 3 <= width:
            break
        kept = [column for column in kept if column[0] != name]
    return kept


class BoxRows(RowView[ComparedBox]):
    """The boxes; ``pair`` are the two whose files are set against each other."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.pair: tuple[int, int] = (0, 1)

    def set_pair(self, pair: tuple[int, int]) -> None:
        self.pair = pair
        self.refresh()

    def key_of(self, row: ComparedBox) -> str:
        return row.row.key

    def heading(self, width: int) -> Line | None:
        parts = [Run("   ")]
        for title, size, right in shown_columns(width):
            parts.append(Run(fit(title, size - 1, "right" if right else "left") + " ", "quiet"))
        return fill_line(tuple(parts), width)

    def row_line(self, index: int, row: ComparedBox, width: int) -> Line:
        ink = "accent strong" if index in self.pair else "quiet"
        parts: list[Run] = [Run(f"{LETTERS[index]}  ", ink)]
        for title, size, right in shown_columns(width):
            cell = crop_line(box_cell(title, row), size - 1)
            pad = " " * (size - 1 - width_of(cell))
            parts += [Run(pad), *cell, Run(" ")] if right else [*cell, Run(pad + " ")]
        return tuple(parts)

    def empty_line(self) -> Line:
        return line(("reading the boxes…", "idle"))


def box_cell(title: str, box: ComparedBox) -> Line:
    """What stands in one column of a box's row."""
    if title == "box":
        return marks.name(box.row)
    if title == "state":
        return marks.state(box.row) if box.frozen else line(*marks.state(box.row), (" now", "quiet"))
    if title == "files":
        return line(str(box.stat.files))
    if title == "lines":
        return line((f"+{box.stat.added}", "added"), " ", (f"-{box.stat.deleted}", "removed"))
    if title == "size":
        return line((units.size(box.size), "quiet"))
    if title == "last test":
        return _tests(box)
    if title == "tried":
        return _end(box.tried[-1].exit) if box.tried else line(("·", "idle"))
    if title == "refused":
        return line((units.count(box.denied), "denial strong" if box.denied else "idle"))
    return line((units.span(box.seconds), "quiet"))


def _tests(box: ComparedBox) -> Line:
    if not box.tests:
        return line(("none ran", "idle"))
    more = f" of {len(box.tests)}" if len(box.tests) > 1 else ""
    inside = " inside" if box.tests[-1].inside else ""
    return line(*_end(box.tests[-1].exit), (inside, "idle"), (more, "quiet"))


def _end(code: int | None) -> Line:
    if code is None:
        return line(("no end seen", "look"))
    return line((f"exit {code}", "live" if code == 0 else "look strong"))


class FileRows(RowView[ComparedFile]):
    """The files that any of the boxes changed; equal numbers in a row are the same to the byte."""

    CELL = 13

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.boxes: tuple[ComparedBox, ...] = ()
        self.pair: tuple[int, int] = (0, 1)
        self.why_empty = ""

    def set_pair(self, pair: tuple[int, int]) -> None:
        self.pair = pair
        self.refresh()

    def key_of(self, row: ComparedFile) -> bytes:
        return row.path

    def _cell_width(self, width: int) -> int:
        return max(4, min(self.CELL, (width - 24) // max(1, len(self.boxes))))

    def heading(self, width: int) -> Line | None:
        cell = self._cell_width(width)
        room = max(8, width - cell * len(self.boxes))
        parts = [Run(fit("file", room - 1) + " ", "quiet")]
        for place in range(len(self.boxes)):
            ink = "accent strong" if place in self.pair else "quiet"
            parts.append(Run(fit(LETTERS[place], cell), ink))
        return fill_line(tuple(parts), width)

    def row_line(self, index: int, row: ComparedFile, width: int) -> Line:
        cell = self._cell_width(width)
        room = max(8, width - cell * len(self.boxes))
        name = crop_line(runs(row.path), room - 1)
        parts: list[Run] = [*name, Run(" " * (room - width_of(name)))]
        for version in row.versions:
            told = crop_line(version_cell(version, row.numbers, cell), cell - 1)
            parts += [*told, Run(" " * (cell - width_of(told)))]
        return tuple(parts)

    def empty_line(self) -> Line:
        return line((self.why_empty, "idle"))


def version_cell(version: Version | None, numbers: int, width: int) -> Line:
    """What a box made of a file: which version, its status, its lines."""
    if version is None:
        return line(("·", "idle"))
    ink = "quiet" if numbers == 1 else ("accent", "look", "live", "denial")[(version.number - 1) % 4]
    parts = line((f"{version.number}", f"{ink} strong"), (f"{version.status}", "quiet"))
    if version.added is None or width < 9:
        return parts
    return line(*parts, " ", (f"+{version.added}", "added"), (f"-{version.deleted}", "removed"))
