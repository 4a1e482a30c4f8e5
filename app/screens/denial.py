"""One row of a box's tally: its events from the journal, and the rule that refused it."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from app.action import Situation
from app.actions import bindings
from app.screens.base import sentence_of
from app.screens.rules import RuleVerbs
from app.workers import rules
from backends.snapshots import BoxRow, BoxView, DenialRow, Explanation
from widgets import marks, units
from widgets.denial import Events, EventsView, denial_paragraphs, explanation_paragraphs
from widgets.header import Header
from widgets.ink import Line, line
from widgets.lines import Document, RowView
from widgets.visible import runs

NARROW = 120


def crumbs(row: BoxRow, denial: DenialRow) -> Line:
    """Where one is; the object last, because it may be long."""
    parts = line(
        ("fleet › ", "quiet"), *marks.name(row), (" › ", "quiet"), *runs(denial.kind, "denial strong")
    )
    return line(*parts, " ", *runs(denial.object[:200], "strong"))


class DenialScreen(RuleVerbs):
    """The row as it was and as it grows: what counts into it is its kind, object, rule and observer."""

    CONTEXTS = ("denial",)
    BINDINGS: ClassVar[list[BindingType]] = bindings("denial", "anywhere")

    def __init__(self, row: BoxRow, denial: DenialRow) -> None:
        super().__init__()
        self.row = row
        self.denial = denial
        self._explained: Explanation | None = None
        self._reading = False
        self._again = False

    def compose(self) -> ComposeResult:
        yield Header()
        with Horizontal(id="denial-body"):
            events = EventsView(id="events", classes="frame")
            events.border_title = "Events"
            yield events
            why = Document(id="why", classes="frame")
            why.border_title = "Rule"
            yield why
        yield self.compose_frame()[1]

    def on_mount(self) -> None:
        self._fit()
        self.query_one(EventsView).focus()
        self._show()
        self._read()
        self.rule_accepted()

    def on_screen_resume(self) -> None:
        self.workbench.want((self.row.key,), ())
        self._show()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        self.set_class(self.size.width < NARROW, "-narrow")

    # ------------------------------------------------------------ values in

    def boxes_changed(self, rows: tuple[BoxRow, ...]) -> None:
        row = next((row for row in rows if row.key == self.row.key), None)
        if row is not None:
            self.row = row
            self._show()

    def view_changed(self, view: BoxView) -> None:
        if view.row.key != self.row.key:
            return
        self.row = view.row
        if self.app.screen is self:
            self.workbench.look(self.row)
        now = next((one for one in view.tally.rows if one[:5] == self.denial[:5]), None)
        if now is not None and now != self.denial:
            self.denial = now
            self._show()
            self._read()

    def _read(self) -> None:
        """Reads the journal once more, never twice at a time."""
        if self._reading:
            self._again = True
            return
        self._reading, self._again = True, False
        work = partial(rules.events, self.workbench.engine, self.row.key, self.denial)

        def done() -> None:
            self._reading = False
            if self._again and self.is_attached:
                self._read()

        def read(events: Events) -> None:
            view = self.query_one(EventsView)
            view.set_events(events)
            view.border_subtitle = view.foot()
            done()

        def failed(error: Exception) -> None:
            self.notify(sentence_of(error), severity="warning", markup=False)
            done()

        self.ask(work, read, failed=failed)

    def rule_accepted(self) -> None:
        work = partial(rules.explain, self.workbench.engine, self.row.key, self.denial)
        self.ask(work, self._explain, failed=self._unexplained)

    def _explain(self, explanation: Explanation) -> None:
        self._explained = explanation
        self._show()

    def _unexplained(self, error: Exception) -> None:
        if self.is_attached:
            told = [*denial_paragraphs(self.denial), (), (runs(sentence_of(error), "look"), 0)]
            self.query_one("#why", Document).set_paragraphs(told)

    # ------------------------------------------------------------ what is shown

    def _show(self) -> None:
        figures = line((f"×{units.count(self.denial.count)} ", "denial strong"))
        self.query_one(Header).show(crumbs(self.row, self.denial), figures)
        told = [*denial_paragraphs(self.denial), ()]
        if self._explained is not None:
            told += explanation_paragraphs(self.denial, self._explained)
        self.query_one("#why", Document).set_paragraphs(told)
        self.show_footer()

    # ------------------------------------------------------------ the person

    def denied(self) -> tuple[BoxRow, DenialRow]:
        return self.row, self.denial

    def situation(self) -> Situation:
        return Situation(box=self.row, denial=self.denial, busy=self.workbench.busy.get(self.row.key, ""))

    def on_row_view_chosen(self, event: RowView.Chosen) -> None:
        self.query_one("#why", Document).focus()
