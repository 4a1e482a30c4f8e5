"""The diff: rows drawn only when seen, unified, or side by side from 120 columns, and a cursor on them.

Drawing a row costs a decode and a lex of its hunk's stretch; both are kept for what was seen lately only, so
a diff of a hundred thousand lines opens at once and scrolls in constant memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from widgets import selection as units
from widgets.diff_paint import WHOLE, Painter
from widgets.finder import NOT_FOUND, Found, find
from widgets.ink import Line, line
from widgets.lines import LineView
from widgets.patch import EMPTY, LONGEST, PatchIndex
from widgets.selection import NO_MARKS, LineMarks, Selection
from widgets.shown import NOTHING_SHOWN, Shown, blank_changes, one_column, two_columns
from widgets.suspects import Survey, survey
from widgets.visible import TAB, text_of, visible

SIDE_BY_SIDE = 120
"""Columns from which two sides stand beside each other."""
GUTTER = 2
"""Cells before the numbers: the bar of the selection, and the mark of the decision."""
MARGIN = 2
"""Rows that stay in sight beyond the cursor."""
COPIED = 64 << 10
"""Bytes that are copied at most: terminals drop longer OSC 52 sequences (xterm(1) takes 100 kB)."""

AS_IT_IS, DRAWN, FOLDED = "blanks as they are", "blanks drawn", "changes of blanks folded"
BLANKS = (AS_IT_IS, DRAWN, FOLDED)

SIGNS: dict[str, tuple[str, str]] = {
    "accepted": ("✓", "live strong"),
    "rejected": ("✗", "removed strong"),
    "mixed": ("±", "quiet"),
}
_KEPT = 1024
_PLAIN = bytes(range(0x20, 0x7F)) + b"\n"
_ESCAPED = 6
"""Cells that one character takes at most, written as an escape of as many bytes or more than it has."""


def cells_of(patch: bytes) -> int:
    """Cells that a byte of the patch takes at most."""
    odd = patch.translate(None, _PLAIN)
    return 1 if not odd else TAB if not odd.strip(b"\t") else _ESCAPED


class DiffView(LineView):
    """One patch, read by lines, hunks and files. Says where the cursor is, and decides nothing itself."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"diff--added", "diff--removed", "diff--hunk", "diff--file"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "move_page(-1)", "Page up", show=False),
        Binding("pagedown", "move_page(1)", "Page down", show=False),
        Binding("home,g", "edge(0)", "First", show=False),
        Binding("end,G", "edge(1)", "Last", show=False),
        Binding("left", "sideways(-8)", "Left", show=False),
        Binding("right", "sideways(8)", "Right", show=False),
        Binding("v", "range", "Range", show=False),
        Binding("a", "unit", "Unit", show=False),
        Binding("w", "blanks", "Blanks", show=False),
        Binding("u", "suspect", "Suspect", show=False),
        Binding("y", "copy", "Copy", show=False),
    ]
    DEFAULT_CSS = "DiffView { overflow-x: auto; scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }"

    class HunkSeen(Message):
        """Another hunk or file has the cursor, or the diff is drawn in another way."""

        def __init__(self, view: DiffView, hunk: int | None, file: int | None) -> None:
            super().__init__()
            self.view = view
            self.hunk = hunk
            self.file = file

    class Selected(Message):
        """The cursor stands for something else now."""

        def __init__(self, view: DiffView, selection: Selection) -> None:
            super().__init__()
            self.view = view
            self.selection = selection

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, DiffView.Selected)

    class Elsewhere(Message):
        """What was looked for is in a row of another file than the one that is shown."""

        def __init__(self, view: DiffView, file: int, row: int) -> None:
            super().__init__()
            self.view = view
            self.file = file
            self.row = row

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
        self._described: Sequence[Line] = ()
        self._marks: Mapping[bytes, LineMarks] = {}
        self._survey: Survey | None = None
        self._shown: Shown | None = None
        self._selection: Selection | None = None
        self._seen: tuple[int | None, int | None] = (None, None)
        self._cells = 1
        self._forget()

    # ------------------------------------------------------------ content

    def set_index(
        self,
        index: PatchIndex,
        *,
        file: int | None = None,
        note: str = "no changes",
        survey: Survey | None = None,
        keep: bool = False,
    ) -> None:
        """Shows a patch that :func:`widgets.patch.index_patch` indexed (off the UI loop when it is large):
        all of it, or one of its files. A live diff that grew keeps the reader's place; ``keep`` keeps the
        cursor on its line (the same patch with another context)."""
        whole = file is None and self._last == len(self.index) and self._first == 0
        top, place = (self.scroll_offset.y, self.place) if whole else (0, 0)
        here = self._row if keep else -1
        numbers = (self.index.old[here], self.index.new[here]) if here >= 0 else (0, 0)
        self.index = index
        self._cells = cells_of(index.patch)
        self.note = note
        self._survey = survey
        self.found = find(index, self.found.needle)
        self.show_file(file, top, place)
        if any(numbers):
            self.go_to_line(*numbers)

    def show_file(self, file: int | None, top: int = 0, place: int = 0) -> None:
        """Narrows the view to one file of the patch; ``None`` shows all. ``top`` is the place at the top."""
        if file is not None and 0 <= file < len(self.index.files):
            # The frame names the file; its own row would say it twice.
            self._first, self._last = self.index.files[file].first + 1, self.index.files[file].last
        else:
            self._first, self._last = 0, len(self.index)
        self._described = ()
        self._anchor = None
        self._reshape()
        if self.is_attached:
            self.scroll_to(x=0, y=top, animate=False)
        self._stand_on(place, reveal=False)

    def set_description(self, lines: Sequence[Line]) -> None:
        """Says below the rows what the file is, when its content is no lines; goes with the file."""
        self._described = lines
        self.resized_rows()
        self.refresh()

    def set_marks(self, marks: Mapping[bytes, LineMarks]) -> None:
        """Paints decisions and comments, by path; what is not named is undecided."""
        self._marks = marks
        self.refresh()

    def _reshape(self) -> None:
        """What is shown, or how, is another: rows are placed and drawn anew."""
        self._shown = None
        self._selection = None
        self._forget()
        self.resized_rows()
        self.refresh()

    def _forget(self) -> None:
        folded = b""
        if self.blanks == FOLDED:
            folded = blank_changes(self.index, self._first, self._last)
        self.painter = Painter(
            self.index,
            blanks=self.blanks == DRAWN,
            folded=(self._first, folded),
            needle=self.found.needle,
        )
        self._strips: Callable[[int, int, int], tuple[Strip, Strip, Style]]
        self._strips = lru_cache(maxsize=_KEPT)(self._make_strips)
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
                self._shown = one_column(self.index, self._first, self._last, self.painter.folded[1])
        return self._shown

    # ------------------------------------------------------------ drawing

    def line_count(self) -> int:
        return max(1, len(self.shown) + len(self._described))

    def resized_rows(self) -> None:
        longest = min(LONGEST, max(self.index.sizes[self._first : self._last], default=0)) * self._cells
        room = self._side_width(1) - GUTTER - self.painter.head_width(1 if self.sides else 0)
        self.virtual_size = Size(self.room + max(0, longest + 1 - room), self.line_count())

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._forget()

    def _side_width(self, side: int) -> int:
        if not self.sides:
            return self.room
        half = (self.room - 1) // 2
        return half if side == 1 else self.room - 1 - half

    def render_line(self, y: int) -> Strip:
        width = self.room
        place = y + self.scroll_offset.y
        shown = self.shown
        if place >= len(shown):
            return self._below(place - len(shown), width)
        cursor = place == self.place
        left, right = shown.left[place], shown.right[place]
        if not shown.sides:
            return self._side(left, 0, -1, width, cursor)
        if left == right and self.index.kinds[left] in WHOLE:
            return self._side(left, 0, -1, width, cursor)
        rule = Strip(self.segments(line(("│", "faint")))).apply_style(self.rich_style)
        one = self._side(left, 1, right if right != left else -1, self._side_width(1), cursor)
        two = self._side(right, 2, left if right != left else -1, self._side_width(2), cursor)
        return Strip.join([one, rule, two])

    def _below(self, number: int, width: int) -> Strip:
        if number < len(self._described):
            return self.strip_of(line("  ", *self._described[number]), width)
        if number or len(self.shown) or self._described:
            return Strip.blank(width, self.rich_style)
        said = self.note if not len(self.index) else "nothing to read in this file"
        return self.strip_of(line((said, "idle")), width)

    def _side(self, row: int, side: int, other: int, width: int, cursor: bool) -> Strip:
        """One row, or its half: the gutter and the numbers stand still, the text moves sideways."""
        over = self.get_component_rich_style("line--cursor", partial=True) if cursor else Style.null()
        if row < 0:
            return Strip.blank(width, self.rich_style + over)
        head, body, style = self._strips(row, side, other)
        gutter = Strip(self.segments(self._gutter(row, cursor)))
        if cursor:
            style += over
            head, body = (Strip(self.segments(parts)) for parts in self.painter.paint(row, side, other)[:2])
            head, body = head.apply_style(style), body.apply_style(style)
        room = max(0, width - GUTTER - head.cell_length)
        start = self.scroll_offset.x if head.cell_length else 0
        drawn = Strip.join([gutter.apply_style(style), head, body.crop_extend(start, start + room, style)])
        return drawn.crop_extend(0, width, style)

    def _make_strips(self, row: int, side: int, other: int) -> tuple[Strip, Strip, Style]:
        painted = self.painter.paint(row, side, other)
        style = self.rich_style
        if painted.under:
            style += self.get_component_rich_style(f"diff--{painted.under}", partial=True)
        head, body = Strip(self.segments(painted.head)), Strip(self.segments(painted.body))
        return head.apply_style(style), body.apply_style(style), style

    def _gutter(self, row: int, cursor: bool) -> Line:
        selection = self.selection
        several = selection.unit != units.LINE or self._anchor is not None
        bar = ("▌", "accent") if cursor or (several and row in selection.rows) else (" ", "")
        return line(bar, self._sign(row))

    def _sign(self, row: int) -> tuple[str, str]:
        file = self.index.file_at(row)
        marks = self._marks.get(self.index.files[file].path, NO_MARKS) if file is not None else NO_MARKS
        if marks is NO_MARKS:
            return (" ", "")
        hunk = self.index.hunk_at(row)
        if hunk is None:
            return SIGNS.get(marks.whole, (" ", ""))
        header = self.index.hunks[hunk].first == row
        old, new = self._hunk_masks(hunk) if header else units.masks(self.index, (row,))
        if not header and marks.noted(old, new):
            return ("“", "look strong")
        return SIGNS.get(marks.of(old, new), (" ", ""))

    def _masks_of_hunk(self, hunk: int) -> tuple[int, int]:
        where = self.index.hunks[hunk]
        return units.masks(self.index, range(where.first, where.last))

    # ------------------------------------------------------------ the cursor

    @property
    def _row(self) -> int:
        """The row of the cursor, the new side's where there are two; -1 when nothing is shown."""
        shown = self.shown
        return shown.rows_at(min(self.place, len(shown) - 1))[-1] if len(shown) else -1

    @property
    def selection(self) -> Selection:
        """What a decision would be about now."""
        if self._selection is None:
            self._selection = units.select(self.index, self.shown, self.unit, self.place, self._anchor)
        return self._selection

    @property
    def hunk(self) -> int | None:
        """The hunk of the cursor, counted over the whole patch."""
        return self.index.hunk_at(self._row) if self._row >= 0 else None

    def _stand_on(self, place: int, *, reveal: bool = True) -> None:
        place = max(0, min(place, len(self.shown) - 1))
        self.place = place
        self._selection = None
        if reveal and self.is_attached:
            margin = min(MARGIN, (self.page - 1) // 2)
            top = self.scroll_offset.y
            if place - margin < top:
                self.scroll_to(y=max(0, place - margin), animate=False)
            elif place + margin >= top + self.page:
                self.scroll_to(y=place + margin - self.page + 1, animate=False)
        self.refresh()
        if self.is_attached:
            self.post_message(self.Selected(self, self.selection))
            self._report()

    def _report(self, always: bool = False) -> None:
        row = self._row
        seen = (self.index.hunk_at(row), self.index.file_at(row)) if row >= 0 else (None, None)
        if (always or seen != self._seen) and self.is_attached:
            self._seen = seen
            self.post_message(self.HunkSeen(self, *seen))

    def go_to_row(self, row: int) -> None:
        """Puts the cursor on a row of the patch; one of a file that is not shown is asked for."""
        if not self._first <= row < self._last:
            file = self.index.file_at(row)
            if file is not None:
                self.post_message(self.Elsewhere(self, file, row))
            return
        self._stand_on(self.shown.place_of(row))

    def go_to_line(self, old: int, new: int) -> None:
        """Puts the cursor on a line by its numbers, 0 for a side it is not on."""
        rows = range(self._first, self._last)
        row = next((n for n in rows if (self.index.old[n], self.index.new[n]) == (old, new)), -1)
        if row >= 0:
            self._stand_on(self.shown.place_of(row))

    def step_hunk(self, steps: int) -> None:
        """Brings the next (or previous) hunk of what is shown to the top."""
        here = self._row
        hunks = [hunk.first for hunk in self.index.hunks if self._first <= hunk.first < self._last]
        if steps > 0:
            target = next((first for first in hunks if first > here), None)
        else:
            target = next((first for first in reversed(hunks) if first < here), None)
        if target is not None:
            place = self.shown.place_of(target)
            self.scroll_to(y=place, animate=False)
            self._stand_on(place)

    # ------------------------------------------------------------ searching

    def search(self, needle: str) -> bool:
        """Marks ``needle`` wherever it stands and goes to its first place from the cursor on; "" ends it."""
        self.found = find(self.index, needle)
        self._forget()
        self.refresh()
        self._report(always=True)
        if not len(self.found.rows):
            return not needle
        row = self.found.after(self._row - 1)
        self.go_to_row(row if row is not None else self.found.rows[0])
        return True

    def step_found(self, steps: int) -> bool:
        """Goes to the next (or previous) row that holds what was searched for; around at the ends."""
        rows = self.found.rows
        if not len(rows):
            return False
        row = self.found.after(self._row) if steps > 0 else self.found.before(self._row)
        self.go_to_row(row if row is not None else rows[0 if steps > 0 else -1])
        return True

    def action_suspect(self) -> None:
        if self._survey is None:
            self._survey = survey(self.index)
        rows = Found("", self._survey.rows)
        if not len(rows.rows):
            self.notify("no added line holds a character that is not what it seems", markup=False, timeout=4)
            return
        row = rows.after(self._row)
        self.go_to_row(row if row is not None else rows.rows[0])

    # ------------------------------------------------------------ how it is drawn

    def set_split(self, split: bool | None) -> None:
        row = self._row
        self.split = split
        self._anchor = None
        self._again(row)

    def action_blanks(self) -> None:
        row = self._row
        self.blanks = BLANKS[(BLANKS.index(self.blanks) + 1) % len(BLANKS)]
        self._anchor = None
        self._again(row)

    def _again(self, row: int) -> None:
        above = self.place - self.scroll_offset.y
        self._reshape()
        place = self.shown.place_of(row) if row >= 0 else 0
        self.scroll_to(x=0, y=max(0, place - above), animate=False)
        self._stand_on(place)
        self._report(always=True)

    def on_resize(self, event: events.Resize) -> None:
        row = self._row if self._shown is not None else -1
        turned = self._shown is not None and self._shown.sides != self.sides
        self._forget()
        self.resized_rows()
        if turned and row >= 0:
            self._anchor = None
            self._stand_on(self.shown.place_of(row))
        self._report(always=turned)

    # ------------------------------------------------------------ keys

    def action_move(self, steps: int) -> None:
        self._stand_on(self.place + steps)

    def action_move_page(self, pages: int) -> None:
        step = pages * max(1, self.page - 1)
        self.scroll_relative(y=step, animate=False)
        self._stand_on(self.place + step)

    def action_edge(self, end: int) -> None:
        self._stand_on(len(self.shown) - 1 if end else 0)
        self.scroll_to(y=self.max_scroll_y if end else 0, animate=False)

    def action_sideways(self, columns: int) -> None:
        self.scroll_relative(x=columns, animate=False)

    def action_range(self) -> None:
        """Begins a range at the cursor, or ends it."""
        self._anchor = self.place if self._anchor is None else None
        self._stand_on(self.place)

    def action_unit(self) -> None:
        """The cursor stands for a line, a hunk, or the file."""
        self._anchor = None
        self.unit = units.UNITS[(units.UNITS.index(self.unit) + 1) % len(units.UNITS)]
        self._stand_on(self.place)

    def on_click(self, event: events.Click) -> None:
        place = event.y + self.scroll_offset.y
        if place < len(self.shown):
            self._stand_on(place)

    def copied_text(self) -> tuple[str, int, bool]:
        """The selected lines for a clipboard, how many they are, and whether all of them: without signs and
        numbers, and whatever a terminal would obey written as an escape."""
        out: list[str] = []
        size = 0
        for row in self.selection.rows:
            if self.index.kinds[row] in WHOLE:
                continue
            text = "\t".join(visible(part) for part in text_of(self.index.text(row)).split("\t"))
            size += len(text.encode()) + 1
            if size > COPIED:
                return "\n".join(out), len(out), False
            out.append(text)
        return "\n".join(out), len(out), True

    def action_copy(self) -> None:
        text, count, whole = self.copied_text()
        if not count:
            self.notify("no line is selected", severity="warning", markup=False, timeout=4)
            return
        self.app.copy_to_clipboard(text)
        said = f"{count} line{'s' if count != 1 else ''} copied"
        self.notify(
            said if whole else f"{said}; the rest is too long for a clipboard", markup=False, timeout=4
        )
