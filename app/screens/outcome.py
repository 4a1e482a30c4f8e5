"""Exporting a proposal, behind a confirmation that names what will exist."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from app.screens.dialogs import Choice
from app.screens.modal import Modal
from backends.snapshots import ReviewView
from widgets.ink import Line, line
from widgets.lines import Document
from widgets.visible import rich_text, runs, visible


class ExportWish(NamedTuple):
    out: Path
    force: bool


def export_paragraphs(review: ReviewView) -> Sequence[Line | tuple[Line, int]]:
    branch = runs(review.branch.removeprefix("refs/heads/") or "none")
    return [
        line("Writes patch.diff, report.md and receipt.json; nothing in the repository is changed."),
        _said("snapshot", (review.snapshot.id, "accent")),
        _said("branch", branch),
        *_digest(review),
    ]


def _digest(review: ReviewView) -> tuple[Line, Line]:
    """All of the policy's digest, in two halves: a narrow dialog has no room for 64 digits in a line."""
    digest = visible(review.policy_digest)
    return _said("policy", digest[:32]), _said("", digest[32:])


def _said(word: str, *parts: str | Line | tuple[str, str]) -> Line:
    return line((f"{word:<10}", "quiet"), *parts)


class ExportScreen(Modal[ExportWish | None]):
    """Asks for the folder."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "no", "No", show=False)]

    def __init__(self, review: ReviewView, cwd: Path) -> None:
        super().__init__()
        self.review = review
        self.cwd = cwd

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog")
        frame.border_title = rich_text(f"Export {self.review.row.name}")
        with frame:
            yield Document(id="what")
            yield Input(value=f"{visible(self.review.row.name)}-export", id="out")
            with Horizontal(classes="buttons"):
                yield Choice("No", id="no")
                yield Choice("Export", id="export")
                yield Choice("Export into a folder that holds files", id="force", danger=True)

    def on_mount(self) -> None:
        document = self.query_one("#what", Document)
        document.can_focus = False
        document.set_paragraphs(export_paragraphs(self.review))
        self.query_one("#out", Input).focus()

    def action_no(self) -> None:
        self.dismiss(None)

    def on_input_submitted(self) -> None:
        self.query_one("#export", Choice).focus()

    def on_choice_given(self, event: Choice.Given) -> None:
        out = self.query_one("#out", Input).value.strip()
        if event.choice.id == "no":
            self.dismiss(None)
        elif not out:
            self.notify("name a folder", severity="warning", markup=False)
            self.query_one("#out", Input).focus()
        else:
            self.dismiss(ExportWish(self.cwd / out, event.choice.id == "force"))
