"""The evidence beside a diff: parts that fold, a cursor over what they hold, and the way to the file."""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from backends.snapshots import ReviewView
from widgets.evidence import Item, Part, evidence_parts
from widgets.ink import Line, line, wrap_line
from widgets.lines import SCROLL_KEYS, LineView
from widgets.verdicts import Paragraph, check_paragraph, count_verdicts, verdict_line

__all__ = ["Evidence", "Paragraph", "check_paragraph", "count_verdicts", "verdict_line"]

_BESIDE = ("left", "right")


class Evidence(LineView):
    """The evidence panel of the gate. Enter folds a part, or asks for the file that an item is about."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(key for key in SCROLL_KEYS if isinstance(key, Binding) and key.key not in _BESIDE),
        Binding("enter", "choose", "Open", show=False),
        Binding("left", "fold(True)", "Fold", show=False),
        Binding("right", "fold(False)", "Unfold", show=False),
    ]

    class Jump(Message):
        """The person wants to see a file, at ``line`` of the proposal (0: wherever it begins)."""

        def __init__(self, view: Evidence, path: bytes, line: int) -> None:
            super().__init__()
            self.view = view
            self.path = path
            self.line = line

        @property
        def control(self) -> Evidence:
            return self.view

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.parts: tuple[Part, ...] = ()
        self.cursor = 0
        self._folded: dict[str, bool] = {}  # what a person chose; else as the part begins
        self._rows: list[tuple[Part, Item | None]] = []
        self._wrapped: list[Line] = []
        self._tops: list[int] = []  # first line of each row
        self._width = -1

    def set_review(self, review: ReviewView) -> None:
        """Show the evidence of ``review``; folds and cursor stay where they are."""
        parts = evidence_parts(review)
        if parts != self.parts:
            self.parts = parts
            self._lay()

    def is_folded(self, part: Part) -> bool:
        """Whether only the title of a part is shown."""
        return self._folded.get(part.id, part.folded)

    @property
    def row(self) -> tuple[Part, Item | None] | None:
        """Where the cursor is: a part, and its item or ``None`` on its title."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def _lay(self) -> None:
        self._rows = []
        for part in self.parts:
            self._rows.append((part, None))
            if not self.is_folded(part):
                self._rows += [(part, item) for item in part.items]
        self.cursor = max(0, min(self.cursor, len(self._rows) - 1))
        self._width = -1
        self.resized_rows()
        self.refresh()

    # ------------------------------------------------------------ drawing

    def _wrap(self) -> list[Line]:
        width = max(8, self.room)
        if width != self._width:
            self._width = width
            self._wrapped, self._tops = [], []
            for part, item in self._rows:
                self._tops.append(len(self._wrapped))
                if item is None:
                    sign = "▸ " if self.is_folded(part) else "▾ "
                    self._wrapped += wrap_line(line((sign, "quiet"), *part.title), width, 2)
                else:
                    self._wrapped += wrap_line(item.text, width, item.indent)
        return self._wrapped

    def line_count(self) -> int:
        return len(self._wrap())

    def line_at(self, index: int, width: int) -> Line:
        lines = self._wrap()
        return lines[index] if index < len(lines) else ()

    def under(self, index: int) -> Style | None:
        if not self.has_focus or not self._rows or self._row_at(index) != self.cursor:
            return None
        return self.get_component_rich_style("line--cursor", partial=True)

    def _row_at(self, index: int) -> int:
        return bisect_right(self._tops, index) - 1

    def plain(self) -> str:
        """The text as shown, for tests and for copying."""
        return "\n".join("".join(run.text for run in one) for one in self._wrap())

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    # ------------------------------------------------------------ the person

    def _stand_on(self, row: int) -> None:
        if not self._rows:
            return
        self.cursor = max(0, min(row, len(self._rows) - 1))
        lines = self._wrap()
        first = self._tops[self.cursor]
        after = self._tops[self.cursor + 1] if self.cursor + 1 < len(self._tops) else len(lines)
        top = self.scroll_offset.y
        if first < top or after - first > self.page:
            self.scroll_to(y=first, animate=False)
        elif after > top + self.page:
            self.scroll_to(y=after - self.page, animate=False)
        self.refresh()

    def action_move(self, steps: int) -> None:
        self._stand_on(self.cursor + steps)

    def action_move_page(self, pages: int) -> None:
        self._wrap()
        if self._rows:
            target = self._tops[self.cursor] + pages * max(1, self.page - 1)
            self._stand_on(self._row_at(max(0, target)))

    def action_move_to(self, place: int) -> None:
        self._stand_on(place if place >= 0 else len(self._rows) - 1)

    def action_fold(self, folded: bool) -> None:
        """Fold or unfold the part of the cursor, which comes to stand on its title."""
        if self.row is None:
            return
        part, item = self.row
        if self.is_folded(part) == folded:
            return
        self._folded[part.id] = folded
        if item is not None:
            self.cursor = next(at for at, row in enumerate(self._rows) if row == (part, None))
        self._lay()
        self._stand_on(self.cursor)

    def action_choose(self) -> None:
        if self.row is None:
            return
        part, item = self.row
        if item is None:
            self.action_fold(not self.is_folded(part))
        elif item.path is not None:
            self.post_message(self.Jump(self, item.path, item.line))

    def on_click(self, event: events.Click) -> None:
        index = event.y - self.heading_height + self.scroll_offset.y
        if 0 <= index < self.line_count():
            row = self._row_at(index)
            again = row == self.cursor
            self._stand_on(row)
            if again or self._rows[row][1] is None:
                self.action_choose()
