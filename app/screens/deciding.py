"""Deciding in the gate: accept, reject, comment, mark as reviewed, undo. What is shown is what is kept.

Each act goes to the reviewer's desk beside the loop and is on disk before it is painted. An act is about what
the person saw: when somebody else decided meanwhile, what is there now is shown first, and acts that were
asked for before that are dropped and said to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from app.decided import Change, blocked_notes, changes, meant, one_state
from app.engine import DeskLike
from app.screens.reading import Reading
from app.workers.sitting import Sitting
from backends.errors import Busy, ClocheError
from backends.gate.decisions import Review
from backends.gate.patch import ACCEPTED, REJECTED, UNDECIDED, Blocked, Choice, Counts, Marks
from backends.gate.patch.model import File
from backends.snapshots import ReviewProgress, ReviewView
from widgets import units
from widgets.file_list import FileDone
from widgets.ink import Line, line
from widgets.notes import Note
from widgets.selection import LineMarks, Selection
from widgets.visible import visible

CHANGED = "somebody else decided meanwhile: shown is what is there now, and your last act was not kept"
Act = Callable[[DeskLike], Review]


class Done(NamedTuple):
    """What came of an act; None instead of a change when it was dropped."""

    change: Change | None
    round: int  # how often the review was read anew


class Deciding(Reading):
    """A reading screen whose lines, hunks and files are decided about."""

    review: ReviewView | None

    def __init__(self) -> None:
        super().__init__()
        self.undecidable = "the review is not read yet"
        self.decided: Review | None = None  # as painted
        self.patch_files: Mapping[bytes, File] = {}
        self.total = Counts(0, 0, 0)
        self.blocked: tuple[Blocked, ...] = ()
        self._sitting: Sitting | None = None
        self._before: Review | None = None  # as told last; of the desk's thread
        self._round = 0  # of the desk's thread
        self._seen = 0  # the round that is painted
        self._looking = False
        self._stood: object = None  # the decisions whose blocked parts are known
        self._marks: dict[bytes, LineMarks] = {}
        self._done: dict[bytes, FileDone] = {}
        self._said: Mapping[bytes, Sequence[Note]] = {}
        self._reviewed: set[bytes] = set()  # as kept

    # ------------------------------------------------------------ the desk

    def sit_down(self, review: ReviewView) -> None:
        """Opens the desk for a review that is shown."""
        if review.row.state == "applied":
            self.undecidable = "this result was applied already"
            return
        engine, key = self.workbench.engine, self.row_key

        def sit() -> DeskLike:
            from backends.verbs.passage import person

            return engine.decisions(key, person(), view=review)

        self._sitting = Sitting(sit)
        self._sitting.do(self._first, self._sat_down, self._not_sat_down)

    def _first(self, desk: DeskLike) -> Done:
        self.patch_files = desk.patch.by_path()
        self._before = desk.review
        return Done(changes(self.patch_files, None, desk.review), self._round)

    def _sat_down(self, done: Done) -> None:
        self.undecidable = ""
        self.diff.set_marks(self._marks)
        self._paint(done)

    def _not_sat_down(self, error: Exception) -> None:
        self.undecidable = f"{error.what}: {error.why}" if isinstance(error, ClocheError) else str(error)
        self.workbench.show_error(error)
        self.show_footer()

    def on_unmount(self) -> None:
        if self._sitting is not None:
            self._sitting.close(self._not_told)

    def _not_told(self, error: Exception) -> None:
        if self.workbench.is_running:
            self.workbench.show_error(error)

    def act(
        self,
        act: Act,
        then: Callable[[Change], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Asks the desk for something, paints what it kept, then calls ``then`` with what is another now."""
        if self._sitting is None:
            return
        asked = self._seen

        def work(desk: DeskLike) -> Done:
            if asked != self._round:
                return Done(None, self._round)
            try:
                after = act(desk)
            except Busy as error:
                if error.code != "review-changed":
                    raise
                after = desk.reload()
                self._round += 1
            before, self._before = self._before, after
            return Done(changes(self.patch_files, before, after), self._round)

        def acted(done: Done) -> None:
            dropped = done.round != asked
            self._paint(done)
            if dropped:
                self.notify(CHANGED, title="not kept", severity="warning", markup=False, timeout=10)
                if failed is not None:
                    failed(Busy("it was not kept", "somebody else decided", "look", code="review-changed"))
            elif then is not None and done.change is not None:
                then(done.change)

        def not_acted(error: Exception) -> None:
            self.workbench.show_error(error)
            if failed is not None:
                failed(error)

        self._sitting.do(work, acted, not_acted)

    def catch_up(self) -> None:
        """Paints what another desk of this person decided, such as the dialog that was over this screen."""
        if self._sitting is None or self.undecidable or self.decided is None:
            return

        def work(desk: DeskLike) -> Done:
            before, self._before = self._before, desk.fresh()
            return Done(changes(self.patch_files, before, self._before), self._round)

        def failed(error: Exception) -> None:
            self.notify(visible(str(error)), severity="warning", markup=False)

        self._sitting.do(work, self._paint, failed)

    def with_progress(self, then: Callable[[ReviewProgress | None], None]) -> None:
        """Calls ``then`` with how far the review is, after the acts under way; None where nothing can be
        decided."""
        if self._sitting is None or self.undecidable:
            then(self.review.progress if self.review is not None else None)
            return
        self._sitting.do(lambda desk: desk.progress(), then, self.workbench.show_error)

    # ------------------------------------------------------------ painting

    def _paint(self, done: Done) -> None:
        change = done.change
        self._seen = done.round
        if change is None:
            return
        self.decided = change.review
        self.total = self.total.plus(change.counted)
        blocked = {one.path for one in self.blocked}
        for path, marks, state in change.files:
            self._marks[path] = marks
            self._done[path] = state._replace(blocked=True) if path in blocked else state
        if change.notes is not None:
            self._said = change.notes
            self._show_notes()
        self._reviewed = change.reviewed
        self.files.set_reviewed(change.reviewed)
        self._repaint()
        self._look()

    def _repaint(self) -> None:
        self.diff.set_marks(self._marks)
        self.files.set_decided(self._done)
        self.reframe()
        self.show_header()
        self.show_footer()

    def _show_notes(self) -> None:
        notes: dict[bytes, Sequence[Note]] = dict(blocked_notes(self.blocked, self.patch_files))
        for path, said in self._said.items():
            notes[path] = [*notes.get(path, ()), *said]
        self.diff.set_notes(notes)

    def _look(self) -> None:
        """Asks what of the accepted cannot be carried out, once for all acts that wait."""
        now = self.decided.history.now if self.decided is not None else None
        if self._sitting is None or self._looking or self._stood is now:
            return
        self._looking = True

        def looked(found: tuple[object, tuple[Blocked, ...]]) -> None:
            self._looking = False
            self._stood, blocked = found
            if blocked != self.blocked:
                self._show_blocked(blocked)
            self._look()

        def not_looked(error: Exception) -> None:
            self._looking = False
            self.workbench.show_error(error)

        self._sitting.do(lambda desk: (desk.review.history.now, desk.selection().blocked), looked, not_looked)

    def _show_blocked(self, blocked: tuple[Blocked, ...]) -> None:
        paths = {one.path for one in blocked}
        for path in paths ^ {one.path for one in self.blocked}:
            if path in self._done:
                self._done[path] = self._done[path]._replace(blocked=path in paths)
        self.blocked = blocked
        self._show_notes()
        self._repaint()

    def show_header(self) -> None:
        """The first line says what is shown now."""

    def counts_line(self, counts: Sequence[int], *, short: bool) -> Line:
        """Accepted, rejected and open, in words or in signs."""
        accepted, rejected, still = (units.count(number) for number in counts[:3])
        if short:
            return line((f"✓{accepted}", "live"), (f" ✗{rejected}", "removed"), (f" ○{still}", "quiet"))
        return line(
            (f"accepted {accepted}", "live"),
            (f"  rejected {rejected}", "removed"),
            (f"  open {still}", "quiet"),
        )

    def file_counts(self) -> FileDone | None:
        """How far the review of the file in the diff is."""
        change = self.change
        return self._done.get(change.path) if change is not None else None

    # ------------------------------------------------------------ what an act is about

    @property
    def in_files(self) -> bool:
        """Keys go to the list of files; at once true when it gets them, unlike a widget's own word."""
        return self.focused is self.files

    @property
    def in_diff(self) -> bool:
        """Keys go to the diff."""
        return self.focused is self.diff

    def targets(self) -> list[tuple[bytes, Selection | None]]:
        """The files, or the part of one, that the cursor stands for; with None all of a file is meant."""
        if self.in_files:
            return [(path, None) for path in self.files.here if path in self.patch_files]
        selection = self.diff.selection
        if self.in_diff and selection.path in self.patch_files:
            return [(selection.path, selection)]
        return []

    def do_accept(self) -> None:
        self._decide(ACCEPTED)

    def do_reject(self) -> None:
        self._decide(REJECTED)

    def _decide(self, state: str) -> None:
        choices: list[Choice] = []
        for path, selection in self.targets():
            file = self.patch_files[path]
            marks: Marks = file.all if selection is None else meant(file, selection)
            if not marks.empty:
                choices.append((path, marks))
        if not choices:
            here = self.in_files or self.in_diff
            said = "nothing is changed here" if here else "go to the diff or to the files first: tab"
            self.notify(said, markup=False, severity="warning", timeout=4)
            return

        def act(desk: DeskLike) -> Review:
            now = desk.review.history.now
            same = one_state((now.of(path), marks) for path, marks in choices) == state
            return desk.set(choices, UNDECIDED if same else state)

        self.act(act)

    def do_undo(self) -> None:
        self.act(lambda desk: desk.undo(), self._went_to("taken back"))

    def do_redo(self) -> None:
        self.act(lambda desk: desk.redo(), self._went_to("taken again"))

    def _went_to(self, words: str) -> Callable[[Change], None]:
        """Shows the file of a decision that was undone or redone, and says so."""

        def show(change: Change) -> None:
            paths = [path for path, _, _ in change.files]
            if not paths:
                return
            places = {one.path: place for place, one in enumerate(self.files.changes)}
            shown = self.change
            if (shown is None or shown.path not in paths) and paths[0] in places:
                self.turn_to(places[paths[0]])
            many = f"a decision about {len(paths)} files" if len(paths) > 1 else "a decision"
            self.notify(f"{many} was {words}", markup=False, timeout=3)

        return show

    def do_reviewed(self) -> None:
        if self.in_files:
            paths = [path for path in self.files.here if path in self.patch_files]
        else:
            paths = [self.change.path] if self.change is not None else []
        files = [self.patch_files[path] for path in paths if path in self.patch_files]
        if not files:
            return
        # The one act that is painted before it is kept: whoever reads file after file does not wait for each.
        seen = set(self.files.reviewed)
        on = not seen.issuperset(paths)
        self.files.set_reviewed(seen | set(paths) if on else seen - set(paths))
        if on:
            self.files.step_unread()
            self.moved_to()
        self.act(
            lambda desk: desk.change(lambda review: review.mark_all(files, on)),
            failed=lambda _: self.files.set_reviewed(self._reviewed),
        )
