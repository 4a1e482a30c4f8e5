"""A terminal too small to show anything: say so, and come back when it has grown."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.screen import Screen
from textual.strip import Strip

from widgets.ink import line
from widgets.inked import Inked

COLUMNS = 40
ROWS = 10


def too_small(columns: int, rows: int) -> bool:
    return columns < COLUMNS or rows < ROWS


class SmallNotice(Inked):
    """The notice, in as few words as fit."""

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        columns, rows = self.app.size
        said = [
            line(("too small", "look strong")),
            line((f"{columns}x{rows}", "")),
            line((f"need {COLUMNS}x{ROWS}", "quiet")),
        ]
        top = max(0, (height - len(said)) // 2)
        return self.strip_of(said[y - top] if 0 <= y - top < len(said) else (), width)


class TooSmallScreen(Screen[None]):
    """Stands in front of everything while the terminal is too small; boxes and screens go on behind it."""

    def compose(self) -> ComposeResult:
        yield SmallNotice()

    def on_resize(self) -> None:
        self.query_one(SmallNotice).refresh()
