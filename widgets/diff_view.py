"""The diff: rows drawn only when seen, unified, or side by side from 120 columns, and a cursor on them."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from widgets import selection as units
from widgets.diff_paint import WHOLE
from widgets.diff_rows import BLANKS, DiffRows, cells_of
from widgets.finder import Found, find
from widgets.patch import ADDED, REMOVED, PatchIndex
from widgets.selection import Selection
from widgets.suspects import Survey, survey
from widgets.visible import text_of, visible

MARGIN = 2
"""Rows that stay in sight beyond the cursor."""
COPIED = 64 << 10
"""Bytes that are copied at most: terminals drop longer OSC 52 sequences (xterm(1) takes 100 kB)."""


class DiffView(DiffRows):
    """One patch, read by lines, hunks and files. Says where the cursor is, and decides nothing itself."""

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
        Binding("s", "narrower", "Split", show=False),
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
        self._survey: Survey | None = None
        self._seen: tuple[int | None, int | None] = (None, None)
        self._told_sides = False
        self._told_row = -1  # the cursor's, when it was moved last: a place means another row in two columns

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
        here = self.row if keep else -1
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
        self.described = ()
        self._anchor = None
        self._reshape()
        if self.is_attached:
            self.scroll_to(x=0, y=top, animate=False)
        self._stand_on(place, reveal=False)

    def _stand_on(self, place: int, *, reveal: bool = True) -> None:
        place = max(0, min(place, len(self.shown) - 1))
        self.place = place
        self._told_row = self.row
        self._told_sides = self.sides
        self._selection = None
        if reveal and self.is_attached:
            margin = min(MARGIN, (self.page - 1) // 2)
            top = self.scroll_offset.y
            first = self.notes.line_of(place)
            last = first + min(self.notes.height(place), self.page - margin) - 1
            if place == 0 and first < self.page - margin:
                self.scroll_to(y=0, animate=False)
            elif first - margin < top:
                self.scroll_to(y=max(0, first - margin), animate=False)
            elif last + margin >= top + self.page:
                self.scroll_to(y=last + margin - self.page + 1, animate=False)
        self.refresh()
        if self.is_attached:
            self.post_message(self.Selected(self, self.selection))
            self._report()

    def _report(self, always: bool = False) -> None:
        row = self.row
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

    def step_hunk(self, steps: int) -> bool:
        """Brings the next (or previous) hunk of what is shown to the top; false when there is none."""
        here = self.row
        if steps > 0:
            hunks = self.index.hunks_in(max(here + 1, self._first), self._last)
        else:
            hunks = self.index.hunks_in(self._first, here)
        target = self.index.hunks[hunks[0 if steps > 0 else -1]].first if hunks else None
        if target is None:
            return False
        place = self.shown.place_of(target)
        self.scroll_to(y=self.notes.line_of(place), animate=False)
        self._stand_on(place)
        return True

    # ------------------------------------------------------------ searching

    def search(self, needle: str) -> bool:
        """Marks ``needle`` wherever it stands and goes to its first place from the cursor on; "" ends it."""
        self.found = find(self.index, needle)
        self._forget()
        self.refresh()
        self._report(always=True)
        if not len(self.found.rows):
            return not needle
        row = self.found.after(self.row - 1)
        self.go_to_row(row if row is not None else self.found.rows[0])
        return True

    def step_found(self, steps: int) -> bool:
        """Goes to the next (or previous) row that holds what was searched for; around at the ends."""
        rows = self.found.rows
        if not len(rows):
            return False
        row = self.found.after(self.row) if steps > 0 else self.found.before(self.row)
        self.go_to_row(row if row is not None else rows[0 if steps > 0 else -1])
        return True

    def action_suspect(self) -> None:
        if self._survey is None:
            self._survey = survey(self.index)
        rows = Found("", self._survey.rows)
        if not len(rows.rows):
            self.notify("no added line holds a character that is not what it seems", markup=False, timeout=4)
            return
        row = rows.after(self.row)
        self.go_to_row(row if row is not None else rows.rows[0])

    # ------------------------------------------------------------ how it is drawn

    def set_split(self, split: bool | None) -> None:
        row = self.row
        self.split = split
        self._anchor = None
        self._again(row)

    def action_blanks(self) -> None:
        row = self.row
        self.blanks = BLANKS[(BLANKS.index(self.blanks) + 1) % len(BLANKS)]
        self._anchor = None
        self._again(row)

    def _again(self, row: int) -> None:
        above = self.notes.line_of(self.place) - self.scroll_offset.y
        self._reshape()
        place = self.shown.place_of(row) if row >= 0 else 0
        self.scroll_to(x=0, y=max(0, self.notes.line_of(place) - above), animate=False)
        self._stand_on(place)
        self._report(always=True)

    def on_resize(self, event: events.Resize) -> None:
        turned = self.sides != self._told_sides
        self.resized_rows()
        if turned:
            self._told_sides = self.sides
            self._anchor = None
            self._again(self._told_row)

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

    def end_range(self) -> bool:
        """Ends a range; false when none was begun."""
        if self._anchor is None:
            return False
        self.action_range()
        return True

    def action_unit(self) -> None:
        """The cursor stands for a line, a hunk, or the file."""
        self._anchor = None
        wider = units.HUNK if self.unit == units.BLOCK else ""
        self.unit = wider or units.UNITS[(units.UNITS.index(self.unit) + 1) % len(units.UNITS)]
        self._stand_on(self.place)

    def action_narrower(self) -> None:
        """The cursor stands for less: of a file for a hunk, of a hunk for a block, of a block for a line.
        What it stands for by itself, as a header does for its hunk, is split as well."""
        stands = self.unit if self._anchor is not None or self.unit != units.LINE else self.selection.unit
        self._anchor = None
        self.unit = units.NARROWER.get(stands, units.LINE)
        place = self.place
        if self.unit in (units.BLOCK, units.LINE) and self.hunk is not None:
            place = self._changed_from(place)
        elif self.unit == units.HUNK and self.hunk is None:
            hunks = self.index.hunks_in(self._first, self._last)
            place = self.shown.place_of(self.index.hunks[hunks[0]].first) if hunks else place
        self._stand_on(place)

    def _changed_from(self, place: int) -> int:
        """The next place of this hunk that changes anything, from ``place`` on; else ``place``."""
        hunk, shown = self.hunk, self.shown
        for at in range(place, len(shown)):
            row = shown.rows_at(at)[-1]
            if self.index.hunk_at(row) != hunk:
                break
            if self.index.kinds[row] in (ADDED, REMOVED):
                return at
        return place

    def on_click(self, event: events.Click) -> None:
        place, _ = self.notes.find(event.y + self.scroll_offset.y)
        if 0 <= place < len(self.shown):
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
