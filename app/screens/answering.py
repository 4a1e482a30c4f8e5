"""Sending a proposal back in the gate, and reading only what it says otherwise than the last one reviewed."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from app.screens.request import RequestScreen, RequestWish
from app.screens.saying import Saying
from backends.gate.patch.between import REBASED
from backends.snapshots import FileChange, ReviewProgress, ReviewView
from backends.snapshots_request import RequestOutcome
from widgets.file_list import FileDone
from widgets.patch import PatchIndex, index_patch
from widgets.suspects import Survey, survey
from widgets.visible import visible

READING_ONLY = "shown is only what changed; press i to see all of it and decide"


class Shown(NamedTuple):
    """A diff in the viewer, with the list of its files."""

    changes: tuple[FileChange, ...]
    lines: PatchIndex
    survey: Survey


class Answering(Saying):
    """A screen from which a proposal is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.since = False  # only what changed since the last review is shown
        self._whole: Shown | None = None  # the proposal, while it is not shown
        self._moved: Shown | None = None  # what changed, once it was asked for
        self._asking = False
        self._decidable = ""  # what stood in the way of decisions before

    # ------------------------------------------------------------ request changes

    def do_request(self) -> None:
        review = self.review
        if review is None:
            return
        if self.since:
            self.do_since()

        def told(progress: ReviewProgress | None) -> None:
            if progress is not None:
                self.app.push_screen(RequestScreen(review, progress), partial(self._wished, progress))

        self.with_progress(told)

    def _wished(self, progress: ReviewProgress, wish: RequestWish | None) -> None:
        if wish is None:
            return
        if wish.summary == progress.summary.strip():
            self._tell(wish)
            return
        # Kept on this screen's own desk first, so that it is not lost when the request is refused.
        text = wish.summary
        self.act(lambda desk: desk.change(lambda review: review.summarise(text)), lambda _: self._tell(wish))

    def _tell(self, wish: RequestWish) -> None:
        """Has the journal told of the sitting, then of the request."""
        if self._sitting is not None:
            self._sitting.do(
                lambda desk: desk.close(), lambda _: self._request(wish), self.workbench.show_error
            )

    def _request(self, wish: RequestWish) -> None:
        review = self.review
        assert review is not None
        self.ask(
            partial(self.workbench.engine.request_changes, review.row.key, self.who),
            partial(self._requested, review, wish),
            doing="changes are being requested",
            key=review.row.key,
        )

    def _requested(self, review: ReviewView, wish: RequestWish, done: RequestOutcome) -> None:
        row, workbench = review.row, self.workbench
        said = f"{visible(row.name)} goes on; what you asked for is in ./{done.file}"
        self.notify(said, title="requested", markup=False, timeout=10)
        if self.app.screen is self:
            self.app.pop_screen()
        if wish.terminal:
            workbench.open_box(row, tab="sessions", with_shell=True)

    # ------------------------------------------------------------ since the last review

    def sit_down(self, review: ReviewView) -> None:
        super().sit_down(review)
        done = review.progress
        if done is not None and done.since:
            count = sum(kind != REBASED for _, kind in done.moved)
            files = "1 file is" if count == 1 else f"{count} files are"
            said = (
                f"{files} not as in your last review; i shows just that"
                if count
                else "as in your last review"
            )
            self.notify(said, markup=False, timeout=8)

    def do_since(self) -> None:
        """Shows what changed since the last review, or the whole proposal again."""
        if self.since:
            assert self._whole is not None
            self._swap(self._whole, since=False)
        elif self._moved is not None:
            self._swap(self._moved, since=True)
        elif not self._asking and self.review is not None:
            self._asking = True
            engine, key = self.workbench.engine, self.row_key

            def work() -> Shown:
                found = engine.interdiff(key)
                index = index_patch(found.patch, tuple(change.path for change in found.changes))
                return Shown(found.changes, index, survey(index))

            self.ask(work, self._compared, failed=self._not_compared)

    def _compared(self, moved: Shown) -> None:
        self._asking = False
        self._moved = moved
        self._swap(moved, since=True)

    def _not_compared(self, error: Exception) -> None:
        self._asking = False
        self.workbench.show_error(error)

    def _swap(self, now: Shown, *, since: bool) -> None:
        here = self.change.path if self.change is not None else None
        if since:
            self._whole = Shown(tuple(self.files.changes), self.index, self.survey)
            self._decidable, self.undecidable = self.undecidable, READING_ONLY
        else:
            self.undecidable = self._decidable
        self.since = since
        self.index, self.survey, self._shown = now.lines, now.survey, None
        self.files.set_files(now.changes, self.review.checks if self.review is not None else ())
        self.files.set_suspects(now.survey.files)
        places = [place for place, change in enumerate(now.changes) if change.path == here]
        self.files.select_file(places[0] if places else 0)
        self.diff.set_marks({} if since else self._marks)
        if since:
            self.diff.set_notes({})
        else:
            self._show_notes()
        self.show_selected("nothing is proposed otherwise than in the last review")
        self.reframe()
        self.show_footer()

    # A decision that was on its way when the view was changed is kept, and painted when all is shown again.

    def _repaint(self) -> None:
        if self.since:
            self.files.set_decided(self._done)
            self.show_header()
        else:
            super()._repaint()

    def file_counts(self) -> FileDone | None:
        return None if self.since else super().file_counts()

    def _show_notes(self) -> None:
        if not self.since:
            super()._show_notes()
