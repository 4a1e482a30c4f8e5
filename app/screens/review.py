"""The gate: one frozen snapshot, every hunk of it beside what ran and what was refused."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from app.action import Situation
from app.actions import bindings
from app.screens.apply_calls import ApplyEnd
from app.screens.outcome import ExportScreen, ExportWish
from app.screens.trying import BUSY, Trying
from backends.snapshots import BoxRow, ExportOutcome, ReviewView, UnapplyOutcome
from backends.snapshots_moved import RebaseOutcome
from widgets.checks import Evidence, verdict_line
from widgets.diff_view import DiffView
from widgets.file_list import FileList
from widgets.header import Header
from widgets.ink import Line, crop_line_left, line, width_of
from widgets.lines import RowView
from widgets.patch import EMPTY, PatchIndex, index_patch
from widgets.suspects import Survey, named, survey
from widgets.visible import runs, visible

NARROW, WIDE = 100, 160
SHORT_FRAME = 80
"""Columns of the diff below which what is decided is said in signs."""


class ReviewScreen(Trying):
    """Reads the proposal once: it is a snapshot, so nothing of it moves while it is decided about."""

    CONTEXTS = ("gate",)
    BINDINGS: ClassVar[list[BindingType]] = bindings("gate", "anywhere")

    def __init__(self, row: BoxRow) -> None:
        super().__init__()
        self.row = row
        self.row_key = row.key
        self.review: ReviewView | None = None

    def compose(self) -> ComposeResult:
        yield Header()
        with Horizontal(id="review-body"):
            with Vertical(id="review-side"):
                files = FileList(id="review-files", classes="frame")
                files.border_title = "Files"
                yield files
                evidence = Evidence(id="review-evidence", classes="frame")
                evidence.border_title = "Evidence"
                yield evidence
            diff = DiffView(id="review-main", classes="frame")
            diff.border_title = "Diff"
            files.leads_to = diff
            yield diff
        yield self.make_search()
        yield self.compose_frame()[1]

    def on_mount(self) -> None:
        self._fit()
        self.query_one(DiffView).set_index(EMPTY, note="reading the proposal…")
        self.query_one(FileList).focus()
        self.show_header()
        self.show_footer()
        self.workbench.want((), ())
        engine, key = self.workbench.engine, self.row.key

        def read() -> tuple[ReviewView, PatchIndex, Survey]:
            review = engine.review(key)
            paths = tuple(change.path for change in review.diff.changes)
            index = index_patch(review.diff.patch, paths)
            return review, index, survey(index)

        self.ask(read, self._show_review, failed=self._failed)

    def _failed(self, error: Exception) -> None:
        self.app.pop_screen()
        self.workbench.show_error(error)

    def on_screen_resume(self) -> None:
        self.workbench.want((), ())
        self.catch_up()

    def on_resize(self) -> None:
        self._fit()
        if self.ready:
            self.show_header()
            self.call_after_refresh(self.reframe)

    def _fit(self) -> None:
        self.set_class(self.size.width < NARROW, "-narrow")
        self.set_class(self.size.width >= WIDE, "-wide")

    # ------------------------------------------------------------ what is shown

    def _show_review(self, value: tuple[ReviewView, PatchIndex, Survey]) -> None:
        self.review, self.index, self.survey = value
        review = self.review
        self.row = review.row
        if review.evidence is not None:
            self.files.set_bulk({one.path: one.kind for one in review.evidence.bulk})
        self.files.set_files(review.diff.changes, review.checks)
        self.files.set_suspects(self.survey.files)
        self.files.select_file(0)
        self.query_one(Evidence).set_review(review)
        self.show_selected("no changes against the base")
        self.sit_down(review)
        self.reframe()
        self.show_header()
        self.show_footer()

    def show_header(self) -> None:
        review = self.review
        parts = line(("fleet › ", "quiet"), *runs(self.row.name, "title"), (" › review", "quiet"))
        if review is None:
            self.query_one(Header).show(parts)
            return
        parts = line(
            *parts,
            ("  snapshot ", "quiet"),
            (review.snapshot.id[:10], "accent"),
            ("  base ", "quiet"),
            f"{visible(review.branch.removeprefix('refs/heads/')) or 'detached'}@{review.snapshot.base[:7]}",
            ("  policy ", "quiet"),
            f"{visible(review.policy_digest[:8])}…",
        )
        self.query_one(Header).show(parts, self.standing_line(review))

    def standing_line(self, review: ReviewView) -> Line:
        """What is decided and what the checks say; in signs, and of the checks the bad ones, if narrow."""
        verdicts = verdict_line(review.checks)
        if self.decided is None:
            return verdicts
        blocked = line((f"  ⊘ {len(self.blocked)} blocked", "look strong")) if self.blocked else ()
        words = line(*self.counts_line(self.total, short=False), *blocked, ("  │ ", "faint"), *verdicts)
        if width_of(words) + 2 <= self.size.width // 2:
            return words
        return line(*self.counts_line(self.total, short=True), *blocked, *verdicts[1:])

    def reframe(self) -> None:
        files, diff = self.files, self.diff
        reviewed = 0 if self.since else len(files.reviewed)
        count = len(files.changes)
        head = line((f"Since the last review {count}", "look")) if self.since else line(f"Files {count}")
        files.border_title = files.rich_line(
            line(*head, (f" · {reviewed} reviewed", "quiet") if reviewed else "")
        )
        change = self.change
        name = named(change.path, "title") if change is not None else line("Diff")
        done = self.file_counts()
        if done is not None:
            counts = self.counts_line(done, short=diff.size.width < SHORT_FRAME)
            room = max(12, diff.size.width - width_of(counts) - 4)
            name = line(*crop_line_left(name, room), "  ", *counts)
        diff.border_title = diff.rich_line(name)
        diff.border_subtitle = diff.rich_line(self.reading_line())

    def on_row_view_moved(self, event: RowView.Moved) -> None:
        if isinstance(event.view, FileList):
            self.moved_to()
            self.reframe()
            self.show_footer()

    def on_row_view_chosen(self, event: RowView.Chosen) -> None:
        self.set_focus(self.diff)

    def on_diff_view_hunk_seen(self, event: DiffView.HunkSeen) -> None:
        self.reframe()

    def on_diff_view_selected(self, event: DiffView.Selected) -> None:
        self.reframe()

    # ------------------------------------------------------------ the person

    def subject(self) -> BoxRow:
        return self.row

    def situation(self) -> Situation:
        return Situation(
            box=self.row,
            review=self.review,
            file=self.is_mounted and self.query_one(FileList).selected is not None,
            deciding=self.undecidable,
            undo=self.decided is not None and bool(self.decided.history.past),
            redo=self.decided is not None and bool(self.decided.history.future),
            trying=self.workbench.busy.get(BUSY + self.row.key, ""),
            busy=self.workbench.busy.get(self.row.key, ""),
        )

    def do_next_file(self) -> None:
        self._step_file(1)

    def do_last_file(self) -> None:
        self._step_file(-1)

    def _step_file(self, steps: int) -> None:
        self.files.step_file(steps)
        self.moved_to()  # now: what is decided next is about the file that was gone to

    def do_next_hunk(self) -> None:
        self.step_hunk(1)
        self.set_focus(self.diff)  # what is decided next is the hunk, not the file

    def do_last_hunk(self) -> None:
        self.step_hunk(-1)
        self.set_focus(self.diff)

    def do_sides(self) -> None:
        view = self.query_one(DiffView)
        view.set_split(not view.sides)
        self.reframe()

    def do_back(self) -> None:
        if not self.close_search() and not self.diff.end_range():
            super().do_back()

    def reopened(self, row: BoxRow) -> None:
        super().reopened(row)
        self._leave()

    def _leave(self) -> None:
        if self.app.screen is self:
            self.app.pop_screen()

    def do_export(self) -> None:
        review = self.review
        if review is None:
            return

        def wished(wish: ExportWish | None) -> None:
            if wish is not None:
                self.ask(
                    partial(self.workbench.engine.export, self.row.key, wish.out, wish.force),
                    self._exported,
                    doing="the result is being exported",
                    key=self.row.key,
                )

        self.app.push_screen(ExportScreen(review, self.workbench.cwd), wished)

    def _exported(self, outcome: ExportOutcome) -> None:
        names = ", ".join(outcome.files)
        self.notify(visible(f"{names} in {outcome.out}"), title="exported", markup=False, timeout=10)

    def do_apply(self) -> None:
        review = self.review
        if review is None:
            return

        def decided(_: None = None) -> None:
            if self.app.screen is self:  # else the person went on meanwhile
                self.open_apply(review)

        if self._sitting is None:
            decided()
        else:  # what was decided is on disk first, and the journal tells of it before the apply
            self._sitting.do(lambda desk: desk.close(), decided, self.workbench.show_error)

    def apply_ended(self, end: ApplyEnd) -> None:
        super().apply_ended(end)
        self._leave()
        if end.again:
            self.workbench.open_review(self.row)

    def unapplied(self, row: BoxRow, done: UnapplyOutcome) -> None:
        super().unapplied(row, done)
        self._leave()

    def rebased(self, row: BoxRow, done: RebaseOutcome) -> None:
        super().rebased(row, done)
        self._leave()
