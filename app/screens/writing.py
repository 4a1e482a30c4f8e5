"""A text of the person's own, in a dialog: a comment, the summary of a review."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import TextArea

from app.screens.dialogs import Choice
from app.screens.modal import Modal
from widgets.ink import Line
from widgets.lines import Document
from widgets.visible import rich_text


class Written(NamedTuple):
    """What the person wants kept: a text, or with ``delete`` that what was there goes."""

    text: str
    delete: bool = False


class WriteScreen(Modal[Written | None]):
    """Dismissed with ``None`` when nothing is to change. Escape leaves a changed text for the answers first,
    so that one key never drops it; ``ctrl+s`` keeps it at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "No", show=False),
        Binding("ctrl+s", "keep", "Keep", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    def __init__(
        self,
        title: str,
        paragraphs: Sequence[Line | tuple[Line, int]],
        text: str = "",
        *,
        limit: int,
        there: bool = False,
    ) -> None:
        """``limit``: bytes kept at most; ``there``: something is kept that can be deleted."""
        super().__init__()
        self._title = title
        self._paragraphs = paragraphs
        self._text = text
        self._limit = limit
        self._there = there

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog writing")
        frame.border_title = rich_text(self._title)
        frame.border_subtitle = "ctrl+s keeps · esc leaves the text"
        with frame:
            yield Document(id="what")
            yield TextArea(self._text, id="text", soft_wrap=True, show_line_numbers=False)
            with Horizontal(classes="buttons"):
                yield Choice("No", id="no")
                if self._there:
                    yield Choice("Delete", id="delete", danger=True)
                yield Choice("Keep", id="keep")

    def on_mount(self) -> None:
        document = self.query_one("#what", Document)
        document.can_focus = False
        document.display = bool(self._paragraphs)
        document.set_paragraphs(self._paragraphs)
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)
        area.focus()

    @property
    def text(self) -> str:
        """What stands in the dialog now."""
        return self.query_one(TextArea).text

    def action_leave(self) -> None:
        if self.query_one(TextArea).has_focus and self.text != self._text:
            self.query_one("#keep", Choice).focus()
        else:
            self.dismiss(None)

    def action_keep(self) -> None:
        size = len(self.text.encode("utf-8", "surrogatepass"))
        if not self.text.strip():
            said = "nothing is written" + ("; Delete takes it away" if self._there else "")
        elif size > self._limit:
            said = f"the text has {size} bytes, and {self._limit} are kept"
        elif self.text == self._text and self._there:
            self.dismiss(None)
            return
        else:
            self.dismiss(Written(self.text))
            return
        self.notify(said, severity="warning", markup=False)
        self.query_one(TextArea).focus()

    def on_choice_given(self, event: Choice.Given) -> None:
        if event.choice.id == "no":
            self.dismiss(None)
        elif event.choice.id == "delete":
            self.dismiss(Written("", delete=True))
        else:
            self.action_keep()
