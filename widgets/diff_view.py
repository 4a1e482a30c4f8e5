"""The diff: rows drawn only when seen, unified, or side by side from 120 columns.

Drawing a row costs a decode and a lex of its hunk's stretch; both are kept for what was seen lately only, so
a diff of a hundred thousand lines opens at once and scrolls in constant memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from widgets import patch as rows_of
from widgets.ink import Line, Run, line
from widgets.lexing import Language, language_of, lex
from widgets.lines import LineView
from widgets.patch import ADDED, FILE, HUNK, META, NOTE, REMOVED, SAME, PatchIndex
from widgets.visible import expand_tabs, runs, text_of, visible

SIDE_BY_SIDE = 120
"""Columns from which two sides stand beside each other."""

STRETCH = 200
"""Rows of a hunk that are lexed together."""

_KEPT = 1024


class DiffView(LineView):
    """One patch, read by hunks and files. Emits :class:`Hunk` when the hunk under the top row changes."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "diff--added",
        "diff--removed",
        "diff--added-part",
        "diff--removed-part",
        "diff--hunk",
        "diff--file",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_rows(-1)", "Up", show=False),
        Binding("down,j", "scroll_rows(1)", "Down", show=False),
        Binding("pageup", "scroll_pages(-1)", "Page up", show=False),
        Binding("pagedown,space", "scroll_pages(1)", "Page down", show=False),
        Binding("home,g", "edge(0)", "First", show=False),
        Binding("end,G", "edge(1)", "Last", show=False),
        Binding("left", "sideways(-8)", "Left", show=False),
        Binding("right", "sideways(8)", "Right", show=False),
    ]
    DEFAULT_CSS = "DiffView { overflow-x: auto; scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }"

    class HunkSeen(Message):
        """Another hunk, or another file, stands at the top."""

        def __init__(self, view: DiffView, hunk: int | None, file: int | None) -> None:
            super().__init__()
            self.view = view
            self.hunk = hunk
            self.file = file

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.index: PatchIndex = rows_of.EMPTY
        self.split: bool | None = None  # None: by the width
        self.note = "no changes"
        self._pairs: tuple[array[int], array[int]] | None = None
        self._first = 0
        self._last = 0
        self._at: int | None = None
        self._seen: tuple[int | None, int | None] = (None, None)
        self._languages: dict[int, Language | None] = {}
        self._forget()

    # ------------------------------------------------------------ content

    def set_index(self, index: PatchIndex, *, file: int | None = None, note: str = "no changes") -> None:
        """Shows a patch that :func:`widgets.patch.index_patch` indexed (off the UI loop when it is large):
        all of it, or one of its files. A live diff that grew keeps the reader's place."""
        keep = (
            self.scroll_offset.y if file is None and self._last == len(self.index) and self._first == 0 else 0
        )
        self.index = index
        self.note = note
        self._pairs = None
        self._languages = {}
        self._forget()
        self.show_file(file, keep)

    def show_file(self, file: int | None, place: int = 0) -> None:
        """Narrows the view to one file of the patch; ``None`` shows all. ``place`` is the row at the top."""
        if file is not None and 0 <= file < len(self.index.files):
            # The frame names the file; its own row would say it twice.
            self._first, self._last = self.index.files[file].first + 1, self.index.files[file].last
        else:
            self._first, self._last = 0, len(self.index)
        self._pairs = None
        self._at = None
        self._forget()
        self.resized_rows()
        if self.is_attached:
            self.scroll_to(x=0, y=place, animate=False)
        self.refresh()
        self._report()

    def _forget(self) -> None:
        self._strip = lru_cache(maxsize=_KEPT)(self._make_strip)
        self._stretch: Callable[[int, int], dict[int, list[Run]]] = lru_cache(maxsize=64)(self._lex_stretch)

    @property
    def sides(self) -> bool:
        """Two sides are shown."""
        return self.size.width >= SIDE_BY_SIDE if self.split is None else self.split

    def _columns(self) -> tuple[array[int], array[int]] | None:
        if not self.sides:
            return None
        if self._pairs is None:
            self._pairs = rows_of.pair_rows(self.index)
            first, last = self._first, self._last
            if (first, last) != (0, len(self.index)):
                left, right = self._pairs
                keep = [
                    place
                    for place in range(len(left))
                    if first <= (left[place] if left[place] >= 0 else right[place]) < last
                ]
                self._pairs = (array("q", (left[k] for k in keep)), array("q", (right[k] for k in keep)))
        return self._pairs

    # ------------------------------------------------------------ drawing

    def line_count(self) -> int:
        columns = self._columns()
        return max(1, len(columns[0]) if columns else self._last - self._first)

    def resized_rows(self) -> None:
        width = self.room
        if not self.sides:
            longest = max(self.index.sizes[self._first : self._last], default=0)
            width = max(width, min(longest, rows_of.LONGEST) + 16)
        self.virtual_size = Size(width, self.line_count())

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._forget()

    def render_line(self, y: int) -> Strip:
        width = self.room
        place = y + self.scroll_offset.y
        if self._first >= self._last:
            said = line((self.note if not len(self.index) else "nothing to read in this file", "idle"))
            said = said if place == 0 else ()
            return self.strip_of(said, width)
        if place >= self.line_count():
            return Strip.blank(width, self.rich_style)
        columns = self._columns()
        if columns is None:
            strip = self._strip(self._first + place, 0, self._digits())
            left = self.scroll_offset.x
            return strip.crop_extend(left, left + width, self.rich_style)
        return self._two_sides(columns[0][place], columns[1][place], width)

    def _two_sides(self, left: int, right: int, width: int) -> Strip:
        if left == right and self.index.kinds[left] in (FILE, META, HUNK, NOTE):
            return self._strip(left, 0, self._digits()).crop_extend(0, width, self.rich_style)
        half = (width - 1) // 2
        rule = Strip(self.segments(line(("│", "faint")))).apply_style(self.rich_style)
        sides = [
            self._strip(row, side, self._digits(), other).crop_extend(
                0, half + (side == 2) * (width % 2 == 0), None
            )
            if row >= 0
            else Strip.blank(half + (side == 2) * (width % 2 == 0), self.rich_style)
            for row, side, other in ((left, 1, right), (right, 2, left))
        ]
        return Strip.join([sides[0], rule, sides[1]])

    def _digits(self) -> int:
        return 5 if len(self.index) < 100_000 else 6

    def _make_strip(self, row: int, side: int, digits: int, other: int = -1) -> Strip:
        """One row as drawn; ``side`` 0 unified, 1 left, 2 right; ``other`` the row it stands beside."""
        index = self.index
        kind = index.kinds[row]
        if kind in (FILE, META, HUNK, NOTE):
            return self._plain_strip(row, kind)
        folded = not index.old[row] and not index.new[row]
        numbers = self._numbers(row, side, digits, folded)
        sign = "↪" if folded else chr(kind)
        body = self._body(row)
        under: Style | None = None
        if kind == ADDED:
            under, ink = self.get_component_rich_style("diff--added", partial=True), "added"
        elif kind == REMOVED:
            under, ink = self.get_component_rich_style("diff--removed", partial=True), "removed"
        else:
            ink = "quiet"
        if kind in (ADDED, REMOVED):
            body = self._mark_part(row, kind, body, other)
        text = line((numbers, "quiet"), (f" {sign} ", ink), *body)
        width = max(sum(cell_len(run.text) for run in text) + 1, self.room)
        return self.strip_of(text, width, under)

    def _plain_strip(self, row: int, kind: int) -> Strip:
        index = self.index
        if kind == FILE:
            place = next((n for n, file in enumerate(index.files) if file.first == row), None)
            name = index.files[place].path if place is not None else index.text(row)
            under = self.get_component_rich_style("diff--file", partial=True)
            return self.strip_of(line((" ", ""), *runs(name, "strong")), self.room, under)
        if kind == HUNK:
            head, _, context = text_of(index.text(row)).partition(" @@")
            under = self.get_component_rich_style("diff--hunk", partial=True)
            parts = line(("  " + head.removeprefix("@@ ") + "  ", "accent"), *runs(context.strip(), "quiet"))
            return self.strip_of(parts, self.room, under)
        return self.strip_of(line(("  ", ""), *runs(index.text(row), "quiet")), self.room)

    def _numbers(self, row: int, side: int, digits: int, folded: bool) -> str:
        old, new = self.index.old[row], self.index.new[row]
        if side:
            shown = old if side == 1 else new
            return str(shown).rjust(digits) if shown and not folded else " " * digits
        return f"{str(old) if old else '':>{digits}} {str(new) if new else '':>{digits}}"

    def _body(self, row: int) -> list[Run]:
        hunk = self.index.hunk_at(row)
        if hunk is None:
            return list(runs(expand_tabs(text_of(self.index.text(row)))))
        language = self._language(self.index.hunks[hunk].file)
        if language is None:
            return self._unlexed(row)
        start = self.index.hunks[hunk].first + 1
        return self._stretch(hunk, (row - start) // STRETCH)[row]

    def _unlexed(self, row: int) -> list[Run]:
        return list(runs(expand_tabs(text_of(self.index.text(row)))))

    def _language(self, file: int) -> Language | None:
        if file not in self._languages:
            self._languages[file] = language_of(self.index.files[file].path) if file >= 0 else None
        return self._languages[file]

    def _lex_stretch(self, hunk: int, stretch: int) -> dict[int, list[Run]]:
        """The lexed rows of a part of a hunk; both sides keep their own open comment or string."""
        where = self.index.hunks[hunk]
        language = self._language(where.file)
        assert language is not None
        first = where.first + 1 + stretch * STRETCH
        last = min(where.last, first + STRETCH)
        states = {REMOVED: "", ADDED: ""}
        done: dict[int, list[Run]] = {}
        for row in range(first, last):
            kind = self.index.kinds[row]
            text = expand_tabs(text_of(self.index.text(row)))
            if visible(text) != text:
                done[row] = list(runs(text))
                continue
            if kind in states:
                done[row], states[kind] = lex(text, language, states[kind])
            else:
                done[row], after = lex(text, language, states[ADDED])
                states = {REMOVED: after, ADDED: after}
        return done

    def _mark_part(self, row: int, kind: int, body: list[Run], other: int) -> list[Run]:
        """Marks what differs from the line that this one replaces, when there is one."""
        partner = other if other >= 0 else self._partner(row, kind)
        if partner < 0 or self.index.kinds[partner] not in (ADDED, REMOVED):
            return body
        mine = expand_tabs(text_of(self.index.text(row)))
        theirs = expand_tabs(text_of(self.index.text(partner)))
        head, end, _ = rows_of.differing(mine, theirs)
        if head == 0 and end == len(mine):
            return body
        if visible(mine) != mine:
            return body
        ink = "changed"
        marked: list[Run] = []
        place = 0
        for run in body:
            stop = place + len(run.text)
            for start, finish, inside in ((place, head, False), (head, end, True), (end, stop, False)):
                low, high = max(place, start), min(stop, finish)
                if low < high:
                    piece = run.text[low - place : high - place]
                    marked.append(Run(piece, f"{run.ink} {ink}".strip() if inside else run.ink))
            place = stop
        return marked

    def _partner(self, row: int, kind: int) -> int:
        """In the unified view: the line at the same place of the neighbouring block, -1 when none."""
        kinds = self.index.kinds
        start = row
        while start > 0 and kinds[start - 1] == kind and row - start < 50:
            start -= 1
        if kind == ADDED:
            top = start
            while top > 0 and kinds[top - 1] == REMOVED and start - top < 50:
                top -= 1
            found = top + (row - start)
            return found if found < start and kinds[found] == REMOVED else -1
        end = row
        while end + 1 < len(kinds) and kinds[end + 1] == REMOVED and end - row < 50:
            end += 1
        found = end + 1 + (row - start)
        return (
            found
            if found < len(kinds) and kinds[found] == ADDED and _same_block(kinds, end + 1, found)
            else -1
        )

    # ------------------------------------------------------------ moving

    def _top_row(self) -> int:
        place = min(self.scroll_offset.y, self.line_count() - 1)
        columns = self._columns()
        if columns is None:
            return self._first + place
        return max(columns[0][place], columns[1][place]) if len(columns[0]) else 0

    @property
    def hunk(self) -> int | None:
        """The hunk at the top, counted over the whole patch."""
        if self._first >= self._last:
            return None
        return self.index.hunk_at(self._here())

    def _here(self) -> int:
        """The row that was gone to, though the end of the text keeps it from the top; else the top row."""
        return self._at if self._at is not None else self._top_row()

    def step_hunk(self, steps: int) -> None:
        """Brings the next (or previous) hunk of what is shown to the top."""
        top = self._here() if self._first < self._last else 0
        hunks = [hunk for hunk in self.index.hunks if self._first <= hunk.first < self._last]
        if steps > 0:
            target = next((hunk for hunk in hunks if hunk.first > top), None)
        else:
            target = next((hunk for hunk in reversed(hunks) if hunk.first < top), None)
        if target is not None:
            self.scroll_to(y=self._place_of(target.first), animate=False)
            self._at = target.first
            self._report()

    def _place_of(self, row: int) -> int:
        columns = self._columns()
        if columns is None:
            return row - self._first
        return next((n for n, left in enumerate(columns[0]) if left == row), 0)

    def set_split(self, split: bool | None) -> None:
        row = self._top_row() if self._first < self._last else 0
        self.split = split
        self._pairs = None
        self._forget()
        self.resized_rows()
        self.scroll_to(x=0, y=self._place_of(row), animate=False)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._at = None
        self._report()

    def _report(self) -> None:
        if self._first >= self._last or not self.is_attached:
            return
        row = self._here()
        file = next((n for n, rows in enumerate(self.index.files) if rows.first <= row < rows.last), None)
        seen = (self.index.hunk_at(row), file)
        if seen != self._seen:
            self._seen = seen
            self.post_message(self.HunkSeen(self, *seen))

    def on_resize(self) -> None:  # type: ignore[override]
        self._pairs = None
        self._forget()
        self.resized_rows()

    def action_scroll_rows(self, rows: int) -> None:
        self.scroll_relative(y=rows, animate=False)

    def action_scroll_pages(self, pages: int) -> None:
        self.scroll_relative(y=pages * max(1, self.size.height - 1), animate=False)

    def action_edge(self, end: int) -> None:
        self.scroll_to(y=self.max_scroll_y if end else 0, animate=False)

    def action_sideways(self, columns: int) -> None:
        self.scroll_relative(x=columns, animate=False)


def _same_block(kinds: bytes, first: int, last: int) -> bool:
    return all(kinds[row] == ADDED for row in range(first, last + 1))


def diff_lines(index: PatchIndex, limit: int) -> list[Line]:
    """The first ``limit`` rows of a patch as inked lines, for a pane: a small one shows no context."""
    out: list[Line] = []
    for row in range(len(index)):
        if len(out) >= limit:
            break
        kind = index.kinds[row]
        if kind in (META, NOTE) or (kind == SAME and limit < 60):
            continue
        body = runs(expand_tabs(text_of(index.text(row)))[:400])
        if kind == FILE:
            place = next((file for file in index.files if file.first == row), None)
            out.append(runs(place.path if place else index.text(row), "strong"))
        elif kind == HUNK:
            out.append(line((text_of(index.text(row)).split(" @@")[0].removeprefix("@@ "), "accent")))
        elif kind == ADDED:
            out.append(line(("+ ", "added"), *(Run(run.text, f"added {run.ink}".strip()) for run in body)))
        elif kind == REMOVED:
            out.append(
                line(("- ", "removed"), *(Run(run.text, f"removed {run.ink}".strip()) for run in body))
            )
        else:
            out.append(line("  ", *(Run(run.text, f"quiet {run.ink}".strip()) for run in body)))
    return out
