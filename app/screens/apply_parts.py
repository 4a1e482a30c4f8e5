"""The parts of the apply dialog: the ways to commit, the message, the warnings."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from app.screens.dialogs import Choice
from backends.evidence.visible import visible_lines
from backends.snapshots import CheckRow
from widgets import marks
from widgets.ink import Line, crop_line, line
from widgets.lines import RowView
from widgets.visible import runs

WAYS = {"one": "one commit", "merge": "merge", "squash": "squash", "keep": "keep the box's commits"}
"""The ways to commit, in the words of the dialog."""


class Mode(Choice):
    """One of several ways, of which exactly one is chosen."""

    def __init__(self, way: str, *, id: str) -> None:
        super().__init__(f"○ {WAYS[way]}", id=id)
        self.way = way

    def choose(self, chosen: bool) -> None:
        """Draws it as the one that counts, or not."""
        self.text = f"{'●' if chosen else '○'} {WAYS[self.way]}"
        self.refresh()


class Message(TextArea):
    """The text of a commit; what is pasted has its controls and invisible characters written out."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "screen.no", show=False)]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, soft_wrap=True, tab_behavior="focus", show_line_numbers=False, compact=True)

    async def on_paste(self, event: events.Paste) -> None:
        """Before the text area's own handler, which takes any character."""
        event.prevent_default()
        event.stop()
        plain = event.text.replace("\r\n", "\n").replace("\r", "\n")
        self.insert("\n".join(visible_lines(plain)))


class Warnings(RowView[tuple[CheckRow, bool]]):
    """What the gate warns of, each with whether it was acknowledged; space or Enter does."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "choose", show=False)]

    def key_of(self, row: tuple[CheckRow, bool]) -> tuple[str, str, bytes | None]:
        return row[0].id, row[0].reason, row[0].path

    def row_line(self, index: int, row: tuple[CheckRow, bool], width: int) -> Line:
        check, done = row
        sign, ink = ("✓", "live") if done else marks.VERDICTS["warn"]
        where = runs(check.path, "strong") if check.path is not None else ()
        parts = line((f"{sign} ", ink), (f"{check.id}  ", ink), *where, ("  ", ""), *runs(check.reason))
        return crop_line(parts, width)
