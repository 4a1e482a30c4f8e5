"""The two ways out of a box, each behind a confirmation that names what will exist."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from app.screens.dialogs import Choice
from backends.snapshots import ReviewView
from widgets.checks import check_paragraph
from widgets.ink import Line, line
from widgets.lines import Document
from widgets.visible import rich_text, runs, visible


class ExportWish(NamedTuple):
    out: Path
    force: bool


def apply_paragraphs(review: ReviewView, reviewed: int) -> list[Line | tuple[Line, int]]:
    """Branch and tip, commit, digests, what was read and what warns: all that the person decides about."""
    branch = visible(review.branch.removeprefix("refs/heads/"))
    stat = review.snapshot.stat
    total = len(review.diff.changes)
    moved = review.branch_tip != review.snapshot.base
    merge = "  the branch moved on: makes a merge commit"
    how = (merge, "look") if moved else ("  fast-forward", "quiet")
    read = (f"   {reviewed} of {total} marked as reviewed", "quiet" if reviewed >= total else "look")
    change = line(f"{stat.files} files  ", (f"+{stat.added}", "added"), " ", (f"-{stat.deleted}", "removed"))
    rows: list[Line | tuple[Line, int]] = [
        _said("branch", (branch, "strong"), ("  at ", "quiet"), (review.branch_tip[:12], "accent")),
        _said("base", (review.snapshot.base[:12], "accent"), how),
        _said("commit", change, read),
        _said("snapshot", (review.snapshot.id, "accent")),
        *_digest(review),
    ]
    if review.row.unconfined:
        rows.append(line(("! nothing confined this box: what ran could write the result itself", "look")))
    warnings = [check for check in review.checks if check.verdict == "warn"]
    if warnings:
        standing = "1 warning stands" if len(warnings) == 1 else f"{len(warnings)} warnings stand"
        rows += [(), line((standing, "look strong"))]
        rows += [check_paragraph(check) for check in warnings[:40]]
    return rows


class ApplyScreen(ModalScreen[bool | None]):
    """Dismissed with ``None`` for no, else whether to squash. The focus starts on "No"; while a warning
    stands, the box's name has to be typed before "Apply" is armed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "no", "No", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def __init__(self, review: ReviewView, reviewed: int) -> None:
        super().__init__()
        self.review = review
        self._paragraphs = apply_paragraphs(review, reviewed)
        self._guarded = any(check.verdict == "warn" for check in review.checks)

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog -danger")
        frame.border_title = rich_text(f"Apply {self.review.row.name}")
        with frame:
            yield Document(id="what")
            if self._guarded:
                yield Input(placeholder=f"type {visible(self.review.row.name)} to arm Apply", id="typed")
            with Horizontal(classes="buttons"):
                yield Choice("No", id="no")
                yield Choice("Apply", id="apply", danger=True, armed=not self._guarded)
                yield Choice("Apply squashed", id="squash", danger=True, armed=not self._guarded)

    def on_mount(self) -> None:
        document = self.query_one("#what", Document)
        document.set_paragraphs(self._paragraphs)
        self.query_one("#no", Choice).focus()

    def action_no(self) -> None:
        self.dismiss(None)

    def _arm(self, armed: bool) -> None:
        for name in ("#apply", "#squash"):
            self.query_one(name, Choice).arm(armed)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._arm(event.value == self.review.row.name)

    def on_input_submitted(self) -> None:
        self.query_one("#no", Choice).focus()

    def on_choice_given(self, event: Choice.Given) -> None:
        if event.choice.id == "no":
            self.dismiss(None)
        elif event.choice.armed:
            self.dismiss(event.choice.id == "squash")
        else:
            self.notify("a warning stands: type the box's name first", severity="warning", markup=False)
            self.query_one("#typed", Input).focus()


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


class ExportScreen(ModalScreen[ExportWish | None]):
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
