"""What the apply dialog asks of the engine: one call at a time, beside the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from app.engine import EngineLike
from app.screens.modal import Modal
from app.workers.beside import beside
from app.workers.calls import call
from backends.snapshots import ApplyOutcome, CheckRow, ReviewView
from backends.snapshots_moved import RebaseOutcome

if TYPE_CHECKING:
    from app.workbench import Workbench

Value = TypeVar("Value")


def acknowledge(engine: EngineLike, review: ReviewView, row: CheckRow, *, withdraw: bool = False) -> None:
    """Takes one warning upon whoever runs the workbench, or lets it stand again; journalled at its return."""
    from backends.verbs.passage import person

    desk = engine.decisions(review.row.key, person(), view=review)
    try:
        desk.acknowledge([row.key], withdraw=withdraw, also=(row,))
    finally:
        desk.close()


class Wish(NamedTuple):
    """How the person wants it, as ``Engine.plan_apply`` and ``Engine.apply`` take it."""

    squash: bool = False
    onto: str = ""
    message: str = ""
    keep_commits: bool = False


class ApplyEnd(NamedTuple):
    """What the dialog came to, where it was not left: one of the three."""

    outcome: ApplyOutcome | None = None
    rebased: RebaseOutcome | None = None
    again: bool = False  # the proposal is another one: it has to be read again


class ApplyCalls(Modal[ApplyEnd | None]):
    """A dialog about one proposal that calls the engine, shows that it does, and goes on when that ended."""

    def __init__(self, review: ReviewView) -> None:
        super().__init__()
        self.review = review
        self._busy = ""  # what is under way
        self._acting = False  # and it changes something

    @property
    def workbench(self) -> Workbench:
        return self.app  # type: ignore[return-value]

    def under_way(self) -> None:
        """Shows that a call began."""

    def idle(self) -> None:
        """A call ended and the dialog is still open."""

    def work(
        self,
        doing: str,
        work: Callable[[], Value],
        then: Callable[[Value], None],
        failed: Callable[[Exception], None],
        *,
        acting: bool = True,
    ) -> None:
        """One call of the engine beside the loop; no other is made until it ended."""
        key = self.review.row.key
        self._busy, self._acting = doing, acting
        if acting:
            self.workbench.busy[key] = doing
        self.under_way()

        def ended() -> None:
            self._busy, self._acting = "", False
            if acting:
                self.workbench.busy.pop(key, None)
                self.workbench.publisher.refresh(key)

        async def run() -> None:
            try:
                value = await call(work, doing, whole=acting)
            except Exception as error:  # noqa: BLE001 (shown to the person, in one form)
                ended()
                failed(error)
            else:
                ended()
                then(value)
            if self.is_current:
                self.idle()

        beside(self, run, group="apply")
