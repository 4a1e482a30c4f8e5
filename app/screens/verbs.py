"""What can be done to one box, from the fleet as from its own screen: each asks first where it must."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

from app.screens.applying import ApplyVerbs
from app.screens.dialogs import ConfirmScreen
from backends.snapshots import BoxRow, SnapshotInfo
from backends.snapshots_request import RequestOutcome
from widgets import marks
from widgets.ink import Line, line
from widgets.visible import runs, visible


def describe(row: BoxRow) -> list[Line | tuple[Line, int]]:
    """The box in two lines, for a dialog that is about to change it."""
    return [
        line(*runs(row.name, "strong"), "  ", *marks.tier(row), "  ", *marks.state(row)),
        line(("base ", "quiet"), *marks.base(row), "   ", *marks.changes(row)),
        (),
    ]


class BoxVerbs(ApplyVerbs):
    """Actions on :meth:`subject`, the box in front of the person when the key was pressed."""

    @abstractmethod
    def subject(self) -> BoxRow | None:
        """The box that an action is about, ``None`` when there is none."""

    def do_stop(self) -> None:
        row = self.subject()
        if row is None:
            return
        text = [*describe(row), line(f"Ends all {row.processes} processes. Files and evidence stay.")]
        engine = self.workbench.engine

        def stopped(done: bool) -> None:
            word = "stopped, no process is left" if done else "was not running"
            self.notify(f"{visible(row.name)}: {word}", markup=False)

        self._confirmed(
            ConfirmScreen(f"Stop {row.name}", text, "Stop"),
            lambda: self.ask(
                partial(engine.stop, row.key), stopped, doing="the box is being stopped", key=row.key
            ),
        )

    def do_abort(self) -> None:
        row = self.subject()
        if row is None:
            return
        text = [
            *describe(row),
            line("Ends its processes and gives the result up. Its evidence stays."),
        ]
        engine = self.workbench.engine
        self._confirmed(
            ConfirmScreen(f"Abort {row.name}", text, "Abort"),
            lambda: self.ask(
                partial(engine.abort, row.key, "in the workbench"),
                lambda _: self.notify(f"{visible(row.name)}: aborted", markup=False),
                doing="the box is being aborted",
                key=row.key,
            ),
        )

    def do_remove(self) -> None:
        row = self.subject()
        if row is None:
            return
        live = row.live in ("live", "slow")
        text = [*describe(row), line("Deletes its files, its private repository and its journal.")]
        if live:
            text.append(line((f"It is live: its {row.processes} processes are ended first.", "look")))
        engine = self.workbench.engine
        unfinished = live or row.state not in ("applied", "aborted")
        self._confirmed(
            ConfirmScreen(f"Remove {row.name}", text, "Remove", typed=row.name if unfinished else ""),
            lambda: self.ask(
                partial(engine.remove, row.key, live),
                lambda _: self.removed(row),
                doing="the box is being removed",
                key=row.key,
            ),
        )

    def removed(self, row: BoxRow) -> None:
        self.notify(f"{visible(row.name)}: removed", markup=False)

    def do_reopen(self) -> None:
        row = self.subject()
        if row is None:
            return
        engine = self.workbench.engine
        self.ask(
            partial(engine.reopen, row.key),
            lambda _: self.reopened(row),
            doing="the proposal is being taken back",
            key=row.key,
        )

    def reopened(self, row: BoxRow) -> None:
        self.notify(f"{visible(row.name)}: reopened, it can go on", markup=False)

    def do_tell(self) -> None:
        """Types the standing request to the session with a terminal that was opened last."""
        row = self.subject()
        if row is None:
            return
        from backends.verbs.passage import person
        from backends.verbs.requesting import NEWEST

        def told(done: RequestOutcome) -> None:
            self.notify(f"typed to session {done.session}: read ./{done.file}", markup=False)

        self.ask(
            lambda: self.workbench.engine.request_changes(row.key, person(), to_session=NEWEST),
            told,
            doing="the request is being typed",
            key=row.key,
        )

    def do_review(self) -> None:
        row = self.subject()
        if row is None:
            return
        if row.state in ("proposed", "applied"):
            self.workbench.open_review(row)
            return
        text = [*describe(row), line("Freezes what the box holds now as its proposal. It can be reopened.")]
        engine = self.workbench.engine

        def proposed(snapshot: SnapshotInfo) -> None:
            self.workbench.open_review(row)

        self._confirmed(
            ConfirmScreen(f"Propose {row.name}", text, "Propose", danger=False),
            lambda: self.ask(
                partial(engine.propose, row.key), proposed, doing="the result is being frozen", key=row.key
            ),
        )

    def _confirmed(self, dialog: ConfirmScreen, then: Callable[[], None]) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                then()

        self.app.push_screen(dialog, answered)
