"""Dialogs: a confirmation that starts on "No", and the one form in which errors are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input

from app.screens.modal import Modal
from backends.errors import ClocheError, Refused
from widgets.ink import Line, line, width_of
from widgets.inked import Inked
from widgets.lines import Document
from widgets.visible import rich_text, runs


class Choice(Inked, can_focus=True):
    """One answer of a dialog; Enter, space or a click gives it.

    By bindings, which are looked up when what the keys before did is done: a key that is handled as it comes
    is given to what had the focus before them, and "right, Enter" in one go would answer "No".
    """

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "give", show=False)]

    class Given(Message):
        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, text: str, *, id: str, danger: bool = False, armed: bool = True) -> None:
        super().__init__(id=id, classes="-danger" if danger else "")
        self.text = text
        self.armed = armed
        self.set_class(not armed, "-disarmed")

    def arm(self, armed: bool) -> None:
        self.armed = armed
        self.set_class(not armed, "-disarmed")
        self.refresh()

    def get_content_width(self, container: object, viewport: object) -> int:
        return width_of(line(self.text)) + 2

    def render_line(self, y: int) -> Strip:
        mark = "▸ " if self.has_focus else "  "
        return self.strip_of(line(mark, self.text), self.size.width)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self) -> None:
        self.focus()
        self.post_message(self.Given(self))

    def action_give(self) -> None:
        self.post_message(self.Given(self))


class Dialog(Modal[bool]):
    """A modal with wrapped text and two answers."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "no", "No", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def action_no(self) -> None:
        self.dismiss(False)


class ConfirmScreen(Dialog):
    """Asks before something that cannot be taken back. Dismissed with True only by the second answer.

    ``typed`` is a text that has to be typed before that answer is armed: the box's name.
    """

    def __init__(
        self,
        title: str,
        paragraphs: Sequence[Line | tuple[Line, int]],
        yes: str,
        *,
        typed: str = "",
        danger: bool = True,
    ) -> None:
        super().__init__()
        self._title = title
        self._paragraphs = paragraphs
        self._yes = yes
        self._typed = typed
        self._danger = danger

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog -danger" if self._danger else "dialog")
        frame.border_title = rich_text(self._title)
        with frame:
            yield Document(id="what")
            if self._typed:
                yield Input(placeholder="type the box's name to arm the answer", id="typed")
            with Horizontal(classes="buttons"):
                yield Choice("No", id="no")
                yield Choice(self._yes, id="yes", danger=self._danger, armed=not self._typed)

    def on_mount(self) -> None:
        document = self.query_one("#what", Document)
        document.can_focus = False
        document.set_paragraphs(self._paragraphs)
        self.query_one("#no", Choice).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one("#yes", Choice).arm(event.value == self._typed)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.query_one("#yes", Choice).focus()

    def on_choice_given(self, event: Choice.Given) -> None:
        if event.choice.id == "no":
            self.dismiss(False)
        elif event.choice.armed:
            self.dismiss(True)
        else:
            self.notify("type the box's name first", severity="warning", markup=False)
            self.query_one("#typed", Input).focus()


class DetailScreen(Dialog):
    """Everything that is known of one row. Any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "no", "Close", show=False)]

    def __init__(self, title: str, paragraphs: Sequence[Line | tuple[Line, int]]) -> None:
        super().__init__()
        self._title = title
        self._paragraphs = paragraphs

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog")
        frame.border_title = rich_text(self._title)
        frame.border_subtitle = "esc closes"
        with frame:
            yield Document(id="what")

    def on_mount(self) -> None:
        document = self.query_one("#what", Document)
        document.set_paragraphs(self._paragraphs)
        document.focus()


def error_paragraphs(error: Exception) -> list[Line | tuple[Line, int]]:
    """What, why, next step; an error that nobody foresaw gives its kind and the way to report it."""
    if isinstance(error, ClocheError):
        ink = "denial strong" if isinstance(error, Refused) else "look strong"
        return [
            runs(error.what, ink),
            (),
            runs(error.why),
            (),
            (line(("next  ", "accent"), *runs(error.next_step, "strong")), 6),
        ]
    return [
        line(("the workbench met an error that it does not know", "look strong")),
        (),
        runs(f"{type(error).__name__}: {error}"),
        (),
        (line(("next  ", "accent"), "the box is as it was; please report this with the text above"), 6),
    ]


class ErrorScreen(Dialog):
    """One :class:`ClocheError` as a dialog."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog -danger")
        frame.border_title = "Refused" if isinstance(self.error, Refused) else "Not done"
        with frame:
            yield Document(id="what")
            with Horizontal(classes="buttons"):
                yield Choice("Close", id="close")

    def on_mount(self) -> None:
        document = self.query_one("#what", Document)
        document.can_focus = False
        document.set_paragraphs(error_paragraphs(self.error))
        self.query_one("#close", Choice).focus()

    def on_choice_given(self, event: Choice.Given) -> None:
        self.dismiss(False)
