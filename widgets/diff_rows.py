"""Rows of a patch as they are drawn: in one column or two, with bars, marks, and text that moves sideways.

Drawing a row costs a decode and a lex of its hunk's stretch; both are kept for what was seen lately only, so
a diff of a hundred thousand lines opens at once and scrolls in constant memory.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

from widgets import selection as units
from widgets.diff_paint import WHOLE, Painter
from widgets.finder import NOT_FOUND, Found
from widgets.ink import Line, line
from widgets.inked import drawn
from widgets.lines import LineView
from widgets.notes import NO_NOTES, Note, Notes, lay_out
from widgets.patch import EMPTY, HUNK, LONGEST, PatchIndex
from widgets.selection import NO_MARKS, NO_SELECTION, LineMarks, Selection
from widgets.shown import NOTHING_SHOWN, Shown, blank_changes, one_column, two_columns
from widgets.visible import TAB

SIDE_BY_SIDE = 120
"""Columns from which two sides stand beside each other."""
GUTTER = 2
"""Cells before the numbers: the bar of the selection, and the mark of the decision."""

AS_IT_IS, DRAWN, FOLDED = "blanks as they are", "blanks drawn", "changes of blanks folded"
BLANKS = (AS_IT_IS, DRAWN, FOLDED)

SIGNS: dict[str, tuple[str, str]] = {
    "accepted": ("✓", "live strong"),
    "rejected": ("✗", "removed strong"),
    "mixed": ("±", "quiet"),
}
_KEPT = 512
_PLAIN = bytes(range(0x20, 0x7F)) + b"\n"
_ESCAPED = 6
"""Cells that one byte takes at most: a character of two bytes is written as an escape of six."""


def cells_of(patch: bytes) -> int:
    """Cells that a byte of the patch takes at most."""
    odd = patch.translate(None, _PLAIN)
    return 1 if not odd else TAB if not odd.strip(b"\t") else _ESCAPED


class Cells(NamedTuple):
    """A row as segments, with the cells that they take, and the names of what lies beneath."""

    head: list[Segment]
    head_cells: int
    body: list[Segment]
    body_cells: int
    under: str


def _cells_in(segments: list[Segment]) -> int:
    return sum(cell_len(segment.text) for segment in segments)


class DiffRows(LineView):
    """What of a patch stands where, and what it looks like."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"diff--added", "diff--removed", "diff--hunk", "diff--file"}

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.index: PatchIndex = EMPTY
        self.split: bool | None = None  # None: by the width
        self.note = "no changes"
        self.place = 0
        self.unit = units.LINE
        self.blanks = AS_IT_IS
        self.found: Found = NOT_FOUND
        self._anchor: int | None = None
        self._first = 0
        self._last = 0
        self.described: Sequence[Line] = ()
        self._marks: Mapping[bytes, LineMarks] = {}
        self._notes: Mapping[bytes, Sequence[Note]] = {}
        self._laid: tuple[Shown, int, Notes] | None = None
        self._shown: Shown | None = None
        self._selection: Selection | None = None
        self._known: Selection = NO_SELECTION
        self._covers: tuple[Selection, Container[int]] = (NO_SELECTION, ())
        self._folded = b""
        self._cells = 1
        self._forget()

    def set_description(self, lines: Sequence[Line]) -> None:
        """Says below the rows what the file is, when its content is no lines; goes with the file."""
        self.described = lines
        self.resized_rows()
        self.refresh()

    def set_marks(self, marks: Mapping[bytes, LineMarks]) -> None:
        """Paints decisions, by path; what is not named is undecided. The same mapping may come again,
        changed: it is read whenever a row is drawn."""
        self._marks = marks
        self.refresh()

    def set_notes(self, notes: Mapping[bytes, Sequence[Note]]) -> None:
        """Shows comments under their lines, by path; the cursor stays on its line and where it is seen."""
        above = self.notes.line_of(self.place) - self.scroll_offset.y
        self._notes = notes
        self._laid = None
        self.resized_rows()
        if self.is_attached and self.scroll_offset.y:
            self.scroll_to(y=max(0, self.notes.line_of(self.place) - above), animate=False)
        self.refresh()

    @property
    def notes(self) -> Notes:
        """What stands between the rows."""
        if not self._notes or self._first >= self._last:
            return NO_NOTES
        shown, width = self.shown, self.room
        if self._laid is None or self._laid[0] is not shown or self._laid[1] != width:
            file = self.index.file_at(self._first)
            path = self.index.files[file].path if file is not None else b""
            notes = self._notes.get(path, ())
            right = self._side_width(1) + 1 if self.sides else 0
            rows = (self._first, self._last)
            made = lay_out(notes, self.index, shown, rows, width, right) if notes else NO_NOTES
            self._laid = (shown, width, made)
        return self._laid[2]

    def _reshape(self) -> None:
        """What is shown, or how, is another: rows are placed and drawn anew."""
        self._shown = None
        self._laid = None
        self._selection = None
        self._known = NO_SELECTION
        fold = self.blanks == FOLDED
        self._folded = blank_changes(self.index, self._first, self._last) if fold else b""
        self._forget()
        self.resized_rows()
        self.refresh()

    def _forget(self) -> None:
        """Rows look different from now on."""
        self.painter = Painter(
            self.index,
            blanks=self.blanks == DRAWN,
            folded=(self._first, self._folded),
            needle=self.found.needle,
        )
        self._forget_styles()

    def _forget_styles(self) -> None:
        self._styles: dict[tuple[str, str], Style] = {}
        self._drawn: Callable[[int, int, int, str], Cells]
        self._drawn = lru_cache(maxsize=_KEPT)(self._draw)
        self._hunk_masks = lru_cache(maxsize=256)(self._masks_of_hunk)

    @property
    def sides(self) -> bool:
        """Two sides are shown."""
        return self.size.width >= SIDE_BY_SIDE if self.split is None else self.split

    @property
    def shown(self) -> Shown:
        """Which rows stand where."""
        if self._first >= self._last:
            return NOTHING_SHOWN
        if self._shown is None or self._shown.sides != self.sides:
            if self.sides:
                self._shown = two_columns(self.index, self._first, self._last)
            else:
                self._shown = one_column(self.index, self._first, self._last, self._folded)
        return self._shown

    # ------------------------------------------------------------ drawing

    def line_count(self) -> int:
        return max(1, len(self.shown) + len(self.described) + self.notes.total)

    def resized_rows(self) -> None:
        longest = min(LONGEST, max(self.index.sizes[self._first : self._last], default=0)) * self._cells
        room = self._side_width(1) - GUTTER - self.painter.head_width(1 if self.sides else 0)
        self.virtual_size = Size(self.room + max(0, longest + 1 - room), self.line_count())

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._forget_styles()

    def _side_width(self, side: int) -> int:
        if not self.sides:
            return self.room
        half = (self.room - 1) // 2
        return half if side == 1 else self.room - 1 - half

    def render_line(self, y: int) -> Strip:
        width = self.room
        place, said = self.notes.find(y + self.scroll_offset.y)
        if said is not None:
            return self.strip_of(said, width)
        shown = self.shown
        if place >= len(shown):
            return self._below(place - len(shown), width)
        cursor = "cursor" if place == self.place else ""
        left, right = shown.left[place], shown.right[place]
        if not shown.sides or (left == right and self.index.kinds[left] in WHOLE):
            return Strip(self._side(left, 0, -1, width, cursor), width)
        other_left, other_right = (left, right) if left != right else (-1, -1)
        return Strip(
            [
                *self._side(left, 1, other_right, self._side_width(1), cursor),
                Segment("│", self._style("", "faint")),
                *self._side(right, 2, other_left, self._side_width(2), cursor),
            ],
            width,
        )

    def _below(self, number: int, width: int) -> Strip:
        if number < len(self.described):
            return self.strip_of(line("  ", *self.described[number]), width)
        if number or len(self.shown) or self.described:
            return Strip.blank(width, self.rich_style)
        said = self.note if not len(self.index) else "nothing to read in this file"
        return self.strip_of(line((said, "idle")), width)

    def _side(self, row: int, side: int, other: int, width: int, cursor: str) -> list[Segment]:
        """One row, or its half: the gutter and the numbers stand still, the text moves sideways."""
        if row < 0:
            return [Segment(" " * width, self._style(cursor, ""))]
        head, head_cells, body, body_cells, under = self._drawn(row, side, other, cursor)
        if self.index.kinds[row] == HUNK and (counts := self._counts(row, under)):
            body = [*body[:1], *counts, *body[1:]]
            body_cells += _cells_in(counts)
        room = max(0, width - GUTTER - head_cells)
        start = self.scroll_offset.x if head_cells else 0
        if start or body_cells > room:
            body = list(Strip(body, body_cells).crop(start, start + room))
            body_cells = max(0, min(room, body_cells - start))
        pad = Segment(" " * (room - body_cells), self._style(under, ""))
        return [*self._gutter(row, under, bool(cursor)), *head, *body, pad]

    def _draw(self, row: int, side: int, other: int, cursor: str) -> Cells:
        """What of a row stays the same wherever it is scrolled to."""
        painted = self.painter.paint(row, side, other)
        under = f"{painted.under} {cursor}".strip()
        head = [Segment(drawn(run.text), self._style(under, run.ink)) for run in painted.head]
        body = [Segment(drawn(run.text), self._style(under, run.ink)) for run in painted.body]
        return Cells(head, _cells_in(head), body, _cells_in(body), under)

    def _style(self, under: str, ink: str) -> Style:
        """The style of an ink on what lies beneath: an added or removed line, the cursor."""
        style = self._styles.get((under, ink))
        if style is None:
            style = self.rich_style
            for name in under.split():
                kind = "line" if name == "cursor" else "diff"
                style += self.get_component_rich_style(f"{kind}--{name}", partial=True)
            style += self.ink(ink)
            self._styles[under, ink] = style
        return style

    def _gutter(self, row: int, under: str, cursor: bool) -> tuple[Segment, Segment]:
        bar = "▌" if cursor or row in self._covered else " "
        sign, ink = self._sign(row)
        return Segment(bar, self._style(under, "accent")), Segment(sign, self._style(under, ink))

    @property
    def _covered(self) -> Container[int]:
        """The rows of a selection of several."""
        selection = self.selection
        if selection is not self._covers[0]:
            several = selection.unit != units.LINE or self._anchor is not None
            self._covers = (selection, selection.rows if several else ())
        return self._covers[1]

    def _sign(self, row: int) -> tuple[str, str]:
        file = self.index.file_at(row)
        marks = self._marks.get(self.index.files[file].path, NO_MARKS) if file is not None else NO_MARKS
        if marks is NO_MARKS:
            return (" ", "")
        hunk = self.index.hunk_at(row)
        if hunk is None or marks.one:
            names = units.parts_at(self.index, row)
            names = () if marks.one and names != (units.MODE,) else names
            return SIGNS.get(marks.of_parts(names or tuple(marks.parts)), (" ", ""))
        header = self.index.hunks[hunk].first == row
        old, new = self._hunk_masks(hunk) if header else units.masks(self.index, (row,))
        return SIGNS.get(marks.of(old, new), (" ", ""))

    def _counts(self, row: int, under: str) -> list[Segment]:
        """How much of a hunk is decided, for its first row; nothing while nothing is."""
        file, hunk = self.index.file_at(row), self.index.hunk_at(row)
        if file is None or hunk is None:
            return []
        marks = self._marks.get(self.index.files[file].path, NO_MARKS)
        if marks is NO_MARKS or marks.one:
            return []
        tally = marks.tally(*self._hunk_masks(hunk))
        if not (tally.accepted or tally.rejected):
            return []
        words = (("accepted", "live"), ("rejected", "removed"), ("open", "quiet"))
        return [
            Segment(f"{word} {count}  ", self._style(under, ink))
            for count, (word, ink) in zip(tally, words, strict=True)
            if count
        ]

    def _masks_of_hunk(self, hunk: int) -> tuple[int, int]:
        where = self.index.hunks[hunk]
        return units.masks(self.index, range(where.first, where.last))

    # ------------------------------------------------------------ the cursor

    @property
    def row(self) -> int:
        """The row of the cursor, the new side's where there are two; -1 when nothing is shown."""
        shown = self.shown
        return shown.rows_at(min(self.place, len(shown) - 1))[-1] if len(shown) else -1

    @property
    def line_numbers(self) -> tuple[int, int]:
        """The numbers of the cursor's line on both sides, or of the nearest above; 0 where there is none."""
        old = new = 0
        row = self.row
        while row >= self._first and not (old and new):
            old, new = old or self.index.old[row], new or self.index.new[row]
            row -= 1
        return old, new

    @property
    def selection(self) -> Selection:
        """What a decision would be about now."""
        if self._selection is None:
            self._selection = self._known = units.select(
                self.index, self.shown, self.unit, self.place, self._anchor, self._known
            )
        return self._selection

    @property
    def hunk(self) -> int | None:
        """The hunk of the cursor, counted over the whole patch."""
        return self.index.hunk_at(self.row) if self.row >= 0 else None
