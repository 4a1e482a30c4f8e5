"""The tail of what a box printed: raw bytes in, visible lines out."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import BindingType

from widgets.ink import Line, line
from widgets.lines import SCROLL_KEYS, LineView
from widgets.printed import output_lines

KEPT = 400
"""Lines that the view holds."""


class OutputTail(LineView):
    """The last lines; the newest is at the bottom and stays in sight unless the person scrolled up."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._tail = b""
        self._lines: list[Line] = []
        self.following = True  # the person has not scrolled up

    def set_output(self, tail: bytes) -> None:
        if tail == self._tail:
            return
        self._tail = tail
        self._lines = output_lines(tail, KEPT)
        self.resized_rows()
        self.refresh()
        self.call_after_refresh(self._to_end)

    def _to_end(self) -> None:
        if self.following and self.is_attached:
            self.scroll_to(y=self.max_scroll_y, animate=False)

    def _note_place(self) -> None:
        self.following = self.scroll_offset.y >= self.max_scroll_y

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._to_end)

    def line_count(self) -> int:
        return len(self._lines) or 1

    def line_at(self, index: int, width: int) -> Line:
        return self._lines[index] if self._lines else line(("no output yet", "idle"))

    def action_move(self, steps: int) -> None:
        self.scroll_relative(y=steps, animate=False)
        self.call_after_refresh(self._note_place)

    def action_move_page(self, pages: int) -> None:
        self.scroll_relative(y=pages * max(1, self.page - 1), animate=False)
        self.call_after_refresh(self._note_place)

    def action_move_to(self, place: int) -> None:
        self.scroll_to(y=0 if place == 0 else self.max_scroll_y, animate=False)
        self.call_after_refresh(self._note_place)

    def action_shift(self, columns: int) -> None:
        self.scroll_relative(x=columns, animate=False)
