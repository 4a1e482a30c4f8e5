"""Trying what is accepted, in a fresh box, from the gate: the dialog that asks for a command, and its end."""

from __future__ import annotations

import os
import shlex
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from app.screens.answering import Answering
from app.screens.deciding import Done
from app.screens.dialogs import Choice, DetailScreen
from app.screens.modal import Modal
from backends.snapshots import ReviewProgress, ReviewView, Trial
from backends.verbs.values import Streams
from widgets import units
from widgets.checks import Evidence
from widgets.ink import Line, line
from widgets.lines import Document
from widgets.visible import rich_text, runs, visible

if TYPE_CHECKING:
    from app.engine import EngineLike
    from backends.verbs.trying import TrialOutcome

TAIL = 14
"""Lines of the last output that the end shows."""
BUSY = "try:"
"""Before a box's key: what is being tried of it, which does not keep the box itself busy."""


class TryWish(NamedTuple):
    argv: tuple[str, ...]
    onto_tip: bool


def try_paragraphs(review: ReviewView, progress: ReviewProgress | None) -> list[Line]:
    """What would be tried, and where."""
    decided = progress is not None and progress.accepted + progress.rejected > 0
    if decided and progress is not None:
        left = progress.rejected + progress.undecided
        what = line((f"{progress.accepted} accepted", "strong"), (f"  {left} left out", "look"))
    else:
        what = line(("all of it", "strong"), ("  nothing is decided yet", "quiet"))
    digest = visible(review.policy_digest[:16])
    return [
        line("Runs a command on exactly that, in a fresh box, and removes the box when it ended."),
        line("How it ended joins the evidence. Nothing enters your repository."),
        (),
        line(("tried     ", "quiet"), *what),
        line(("snapshot  ", "quiet"), (review.snapshot.id[:16], "accent")),
        line(("policy    ", "quiet"), (f"{digest}…", "accent"), ("  as this box's", "quiet")),
    ]


def proposed_command(review: ReviewView) -> str:
    """What was tried last, else the last test that ran in the box, else nothing."""
    if review.tried:
        return shlex.join(review.tried[-1].argv)
    ran = review.evidence.ran if review.evidence is not None else ()
    return next((shlex.join(one.argv) for one in reversed(ran) if one.test), "")


class TryScreen(Modal[TryWish | None]):
    """Asks for the command, and what it runs on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "no", "No", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def __init__(self, review: ReviewView, progress: ReviewProgress | None) -> None:
        super().__init__()
        self.review = review
        self.progress = progress

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog")
        frame.border_title = rich_text(f"Try {self.review.row.name}")
        with frame:
            yield Document(id="what")
            yield Input(value=visible(proposed_command(self.review)), placeholder="npm test", id="command")
            with Horizontal(classes="buttons"):
                yield Choice("No", id="no")
                yield Choice("Run on it", id="run")
                if self.review.branch and self.review.branch_tip:
                    name = visible(self.review.branch.removeprefix("refs/heads/"))[:24]
                    yield Choice(f"Run on it merged onto {name} of today", id="tip")

    def on_mount(self) -> None:
        document = self.query_one("#what", Document)
        document.can_focus = False
        document.set_paragraphs(try_paragraphs(self.review, self.progress))
        self.query_one("#command", Input).focus()

    def action_no(self) -> None:
        self.dismiss(None)

    def on_input_submitted(self) -> None:
        self.query_one("#run", Choice).focus()

    def on_choice_given(self, event: Choice.Given) -> None:
        if event.choice.id == "no":
            self.dismiss(None)
            return
        field = self.query_one("#command", Input)
        try:
            argv = tuple(shlex.split(field.value))
        except ValueError as error:
            self.notify(visible(f"the command cannot be read: {error}"), severity="warning", markup=False)
            field.focus()
            return
        if not argv:
            self.notify("name a command", severity="warning", markup=False)
            field.focus()
            return
        self.dismiss(TryWish(argv, event.choice.id == "tip"))


def outcome_paragraphs(trial: Trial, tail: bytes) -> list[tuple[Line, int]]:
    """How a try ended, and the last that it printed."""
    good = trial.exit == 0
    where = f"merged onto {trial.onto[:12]}" if trial.onto else "on its base"
    what = "all of the proposal" if trial.whole else "the accepted part"
    took = f"{trial.wall:.1f} s" if trial.wall < 60 else units.span(trial.wall)
    end = (f"exit {trial.exit}", "live strong" if good else "look strong")
    rows: list[tuple[Line, int]] = [
        (runs(" ".join(trial.argv)[:400], "strong"), 2),
        ((), 0),
        (line(end, (f"  after {took}", "quiet")), 0),
        (line((f"{what} {where}", "quiet")), 2),
        (line(("tree ", "quiet"), (trial.tree, "accent")), 5),
    ]
    if trial.denied:
        rows.append((line((f"{trial.denied} refused", "denial strong")), 0))
        rows += [
            (line((f"{kind:<9}", "denial"), *runs(name), (f" ×{count}", "denial")), 9)
            for kind, name, count in trial.denials[:5]
        ]
    lines = tail.decode("utf-8", "replace").splitlines()[-TAIL:]
    if lines:
        rows.append(((), 0))
        rows += [(runs(text[:400], "quiet"), 2) for text in lines]
    return rows


def _run(engine: EngineLike, key: str, wish: TryWish) -> TrialOutcome:
    """The try itself, its streams closed: what it prints is kept by its keeper, and the tail handed back."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        streams = Streams(null, null, null)
        return engine.try_accepted(key, wish.argv, onto_tip=wish.onto_tip, streams=streams)
    finally:
        os.close(null)


class Trying(Answering):
    """A screen from which what is accepted can be tried."""

    def __init__(self) -> None:
        super().__init__()
        self._marked_for: object = None  # the decisions for which the tries are marked
        self._marking = False

    def _paint(self, done: Done) -> None:
        first = self.decided is None
        super()._paint(done)
        if first and self.decided is not None:
            self._marked_for = self.decided.history.now  # the review was read with these
        self._mark_tries()

    def _mark_tries(self) -> None:
        """Marks the tries for what is accepted now, once for all acts that wait."""
        now = self.decided.history.now if self.decided is not None else None
        review = self.review
        if review is None or self._sitting is None or self._marking or self._marked_for is now:
            return
        self._marking = True
        tip = review.branch_tip

        def stood(found: tuple[object, tuple[str, tuple[Trial, ...]]]) -> None:
            self._marking = False
            self._marked_for, (combination, tried) = found
            self._show_tries(combination, tried)
            self._mark_tries()

        def unknown(error: Exception) -> None:
            self._marking = False
            self.workbench.show_error(error)

        self._sitting.do(lambda desk: (desk.review.history.now, desk.tried(tip)), stood, unknown)

    def _show_tries(self, combination: str, tried: tuple[Trial, ...]) -> None:
        review = self.review
        if review is None or (review.combination, review.tried) == (combination, tried):
            return
        self.review = review._replace(combination=combination, tried=tried)
        self.query_one(Evidence).set_review(self.review)

    def do_try(self) -> None:
        review = self.review
        if review is None:
            return

        def told(progress: ReviewProgress | None) -> None:
            self.app.push_screen(TryScreen(review, progress), self._try)

        self.with_progress(told)

    def _try(self, wish: TryWish | None) -> None:
        if wish is None or self.review is None:
            return
        key = self.review.row.key
        self.notify(
            visible(f"{' '.join(wish.argv)[:60]} runs in a fresh box; it is in the fleet meanwhile"),
            title="trying",
            markup=False,
        )
        self.ask(
            partial(_run, self.workbench.engine, key, wish),
            partial(self._tried, key),
            doing=f"{visible(' '.join(wish.argv)[:40])} is being tried",
            key=BUSY + key,
        )

    def _tried(self, key: str, done: TrialOutcome) -> None:
        self.ask(partial(self.workbench.engine.review, key), self._tell_evidence)
        if self.app.screen is self:
            self.app.push_screen(
                DetailScreen(
                    f"Tried {self.review.row.name if self.review else key}",
                    outcome_paragraphs(done.trial, done.tail),
                )
            )
        else:
            self.notify(f"what was tried ended: exit {done.trial.exit}", markup=False)

    def _tell_evidence(self, fresh: ReviewView) -> None:
        """Only what is beside the diff is shown anew: the proposal that is read stays under the cursor."""
        review = self.review
        if review is None or fresh.snapshot != review.snapshot:
            return
        self.review = review._replace(branch_tip=fresh.branch_tip)
        self._show_tries(fresh.combination, fresh.tried)
        self.show_footer()
