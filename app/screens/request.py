"""Asking for changes: what will be written into the box, said before it is written."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import TextArea

from app.screens.dialogs import Choice
from app.screens.modal import Modal
from backends.gate.decisions import SUMMARY_LIMIT
from backends.snapshots import ReviewProgress, ReviewView
from widgets.ink import Line, line
from widgets.lines import Document
from widgets.visible import rich_text, runs


class RequestWish(NamedTuple):
    """What the person answered: the summary as it stands in the dialog, and what comes after."""

    summary: str
    terminal: bool  # open a terminal in the box, where the agent is started again


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def request_paragraphs(review: ReviewView, progress: ReviewProgress) -> list[Line | tuple[Line, int]]:
    """What goes into the box, and what becomes of it."""
    rejected = sum(1 for one in progress.files if one.rejected)
    stale = len(progress.stale)
    rows: list[Line | tuple[Line, int]] = []
    if progress.comments or rejected:
        rows.append(
            line(
                (_many(len(progress.comments), "comment"), "strong"),
                (" and the rejected parts of ", "quiet"),
                (_many(rejected, "file"), "strong"),
                (" are written where the agent reads them, with this summary:", "quiet"),
            )
        )
    else:
        rows.append(line(("This summary is written where the agent reads it:", "quiet")))
    if stale:
        said = "1 comment is" if stale == 1 else f"{stale} comments are"
        rows.append(line((f"! {said} about a file that changed since; delete what is settled: L", "look")))
    rows.append(
        line(
            ("The proposal is taken back: ", "quiet"),
            *runs(review.row.name, "strong"),
            (" is idle again. What you decided is kept for the next one.", "quiet"),
        )
    )
    return rows


class RequestScreen(Modal[RequestWish | None]):
    """Dismissed with ``None`` when nothing is asked for. Escape leaves a changed summary for the answers
    first, as everywhere where a person writes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "No", show=False),
        Binding("ctrl+s", "ask", "Request", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    def __init__(self, review: ReviewView, progress: ReviewProgress) -> None:
        super().__init__()
        self.review = review
        self.progress = progress

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog writing")
        frame.border_title = rich_text(f"Request changes of {self.review.row.name}")
        frame.border_subtitle = "ctrl+s requests · esc leaves the text"
        with frame:
            yield Document(id="what")
            yield TextArea(self.progress.summary, id="text", soft_wrap=True, show_line_numbers=False)
            with Horizontal(classes="buttons"):
                yield Choice("No", id="no")
                yield Choice("Request", id="ask")
                yield Choice("Request, then a terminal", id="terminal")

    def on_mount(self) -> None:
        document = self.query_one("#what", Document)
        document.can_focus = False
        document.set_paragraphs(request_paragraphs(self.review, self.progress))
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)
        area.focus()

    @property
    def text(self) -> str:
        """The summary as it stands in the dialog."""
        return self.query_one(TextArea).text.strip()

    def action_leave(self) -> None:
        if self.query_one(TextArea).has_focus and self.text != self.progress.summary.strip():
            self.query_one("#ask", Choice).focus()
        else:
            self.dismiss(None)

    def action_ask(self) -> None:
        self._answer(terminal=False)

    def _answer(self, *, terminal: bool) -> None:
        size = len(self.text.encode("utf-8", "surrogatepass"))
        said = self.text or self.progress.comments or any(one.rejected for one in self.progress.files)
        if not said:
            problem = "nothing is asked for: write a summary, comment, or reject something"
        elif size > SUMMARY_LIMIT:
            problem = f"the summary has {size} bytes, and {SUMMARY_LIMIT} are kept"
        else:
            self.dismiss(RequestWish(self.text, terminal))
            return
        self.notify(problem, severity="warning", markup=False)
        self.query_one(TextArea).focus()

    def on_choice_given(self, event: Choice.Given) -> None:
        if event.choice.id == "no":
            self.dismiss(None)
        else:
            self._answer(terminal=event.choice.id == "terminal")
