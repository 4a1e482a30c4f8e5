"""What stands between the rows of a diff: comments under their line, and what is said of the file above it.

A view without notes costs nothing: places are its lines. With notes, a line of the view is a place or a line
of a note, found by bisection. Pure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from widgets.ink import Line, line, wrap_line
from widgets.patch import PatchIndex
from widgets.shown import Shown
from widgets.visible import runs

TOP = -1
"""The place above all rows."""
MOST_LINES = 40
"""Lines of one note that are drawn."""
BAR = "  ┃ "


class Note(NamedTuple):
    """Something said about a line of one side (``old`` or ``new``), or with line 0 about the file."""

    side: str
    line: int
    head: Line
    text: str  # raw
    ink: str = ""  # of the text


class Notes:
    """Where notes stand among places, and the lines that they take."""

    def __init__(self, lines: Mapping[int, Sequence[Line]]) -> None:
        """``lines`` by the place under which they stand."""
        self._lines = lines
        self._at = sorted(place for place in lines if lines[place])
        self._before = [0]  # lines of the notes before each
        for place in self._at:
            self._before.append(self._before[-1] + len(lines[place]))
        self._start = [place + 1 + before for place, before in zip(self._at, self._before, strict=False)]

    @property
    def total(self) -> int:
        """Lines of all notes."""
        return self._before[-1]

    def line_of(self, place: int) -> int:
        """The line of the view at which a place is drawn."""
        return place + self._before[bisect_left(self._at, place)] if self._at else place

    def height(self, place: int) -> int:
        """Lines of a place with its notes."""
        return 1 + len(self._lines.get(place, ()))

    def find(self, number: int) -> tuple[int, Line | None]:
        """The place at a line of the view; with the note's own line where one is there."""
        if not self._at:
            return number, None
        found = bisect_right(self._start, number) - 1
        if found >= 0:
            place = self._at[found]
            lines = self._lines[place]
            if number < self._start[found] + len(lines):
                return place, lines[number - self._start[found]]
        return number - self._before[found + 1], None


NO_NOTES = Notes({})


def lay_out(
    notes: Sequence[Note], index: PatchIndex, shown: Shown, rows: tuple[int, int], width: int, right: int = 0
) -> Notes:
    """The notes of the file whose rows are from the first of ``rows`` to before the second, as lines.

    In two columns the second begins at cell ``right``: a note stands in the column of its line's side."""
    lines: dict[int, list[Line]] = {}
    for note in notes:
        row = row_of(index, note, *rows) if note.line else -1
        place = shown.place_of(row) if row >= 0 and len(shown) else TOP
        if not right or not note.line:
            made = note_lines(note, width)
        elif note.side == "old":
            made = note_lines(note, right - 1)
        else:
            beside = line((" " * (right - 1), ""), ("│", "faint"))
            made = [line(*beside, *part) for part in note_lines(note, width - right)]
        lines.setdefault(place, []).extend(made)
    return Notes(lines)


def row_of(index: PatchIndex, note: Note, first: int, last: int) -> int:
    """The row of a note's line, or the nearest above that is there; -1 when there is none."""
    numbers = index.old if note.side == "old" else index.new
    row = _find(numbers, note.line, first, last)
    if row >= 0:
        return row
    before = [row for row in range(first, last) if 0 < numbers[row] < note.line]
    return before[-1] if before else -1


def _find(numbers: array[int], number: int, first: int, last: int) -> int:
    try:
        return numbers.index(number, first, last)
    except ValueError:
        return -1


def note_lines(note: Note, width: int) -> list[Line]:
    """A note as lines of at most ``width`` cells, each behind a bar."""
    bar = line((BAR, "look"))
    room = max(12, width - len(BAR))
    found: list[Line] = [line(*bar, *part) for part in wrap_line(note.head, room)]
    for text in note.text.rstrip("\n").split("\n"):
        found += [line(*bar, *part) for part in wrap_line(runs(text.expandtabs(4), note.ink), room)]
        if len(found) > MOST_LINES:
            return [*found[: MOST_LINES - 1], line(*bar, ("… more in the list of comments", "quiet"))]
    return found
