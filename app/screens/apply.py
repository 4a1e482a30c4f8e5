"""Applying a proposal: the exact commit is shown, each warning is acknowledged, and "No" has the focus.

The dialog carries out the apply itself, handing over the plan that was on the screen: when anything moved
since, the engine refuses, and the dialog shows what moved and what would be done now.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.timer import Timer
from textual.widgets import Input, TextArea

from app.screens import apply_text as text
from app.screens.apply_calls import ApplyCalls, ApplyEnd, Wish, acknowledge
from app.screens.apply_parts import WAYS, Message, Mode, Warnings
from app.screens.dialogs import Choice
from backends.errors import ClocheError, Conflict
from backends.snapshots import ApplyOutcome, ApplyPlan, CheckRow, ReviewView
from backends.snapshots_moved import RebaseOutcome
from widgets.checks import check_paragraph
from widgets.ink import Line, line, width_of
from widgets.inked import InkLine
from widgets.lines import Document, RowView
from widgets.visible import rich_text, visible

if TYPE_CHECKING:
    pass

AFTER = 0.3
"""Seconds after the last key in a text until the commit is planned anew."""

_UNREVIEWED = ("other-snapshot", "no-proposal", "wrong-state", "no-such-box", "review-changed")
"""Codes of refusals after which the proposal has to be read again: this one is no longer there."""


class ApplyScreen(ApplyCalls):
    """Dismissed with ``None`` when nothing was done. While a warning concerns what would be applied, each has
    to be acknowledged and the box's name typed before "Apply" is armed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "no", "No", show=False),
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]

    def __init__(self, review: ReviewView) -> None:
        super().__init__(review)
        self.plan: ApplyPlan | None = None
        self._planned: Wish | None = None  # what ``plan`` or ``_trouble`` answers
        self._seen: ApplyPlan | None = None  # the plan that was refused because something moved
        self._trouble: Exception | None = None
        self._way = ""  # squash, keep; "" for what Git would do
        self._default = ""  # the message that the engine makes of itself, without trailers
        self._acknowledged: set[str] = set()
        self._here: dict[str, bool] = {}  # what was acknowledged in this dialog, or withdrawn
        self._wait: Timer | None = None

    # ------------------------------------------------------------ parts

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog -danger", id="apply-dialog")
        frame.border_title = rich_text(f"Apply {self.review.row.name}")
        frame.border_subtitle = "tab moves on · pgup pgdn scroll · esc leaves"
        with frame:
            with VerticalScroll(id="apply-body", can_focus=False):
                yield Document(id="told")
                yield Document(id="what")
                with Horizontal(id="modes", classes="field"):
                    yield InkLine(line("commit as"))
                    for way in WAYS:
                        yield Mode(way, id=f"way-{way}")
                with Horizontal(classes="field"):
                    yield InkLine(line("onto"))
                    recorded = visible(text.short(self.review.branch)) or "no branch"
                    yield Input(placeholder=f"{recorded}; another name makes a new branch", id="onto")
                yield InkLine(line(("message", "quiet")), id="message-title")
                yield Message(id="message")
                yield Document(id="trailers")
                yield InkLine(id="warnings-title")
                yield Warnings(id="warnings")
                yield Document(id="warning")
                yield Input(placeholder=f"type {visible(self.review.row.name)} to arm Apply", id="typed")
            yield InkLine(id="missing")
            with Horizontal(classes="buttons"):
                yield Choice("No", id="no")
                yield Choice("Look again", id="again")
                yield Choice("Rebase in the box", id="rebase")
                yield Choice("Apply", id="apply", danger=True, armed=False)

    def on_mount(self) -> None:
        for document in self.query(Document):
            document.can_focus = False
        self.query_one("#no", Choice).focus()
        self._show()
        self._plan_soon(0)

    def on_resize(self, event: events.Resize) -> None:
        compact = event.size.height < 36
        self.set_class(compact, "-compact")
        around = 4 if compact else 7  # rows of the frame and of what stays below the part that scrolls
        body = self.query_one("#apply-body")
        body.styles.max_height = max(5, event.size.height * 96 // 100 - around)

    # ------------------------------------------------------------ the plan

    def wish(self) -> Wish:
        """What is chosen now."""
        onto = self.query_one("#onto", Input).value.strip()
        if text.short(onto) == text.short(self.review.branch):
            onto = ""
        message = self.query_one(Message).text
        own = message if message.rstrip() != self._default.rstrip() else ""
        keep = self._way == "keep"
        alone = keep and self.plan is not None and not self.plan.trailers
        return Wish(self._way == "squash" and not onto, onto, "" if alone else own, keep)

    @property
    def _blank(self) -> bool:
        """The person emptied the message; for the engine that would mean its own."""
        return bool(self._default) and not self.query_one(Message).text.strip()

    def _plan_soon(self, seconds: float) -> None:
        if self._wait is not None:
            self._wait.stop()
        self._wait = self.set_timer(seconds, self._plan_now) if seconds else None
        if not seconds:
            self._plan_now()
        if self._planned is not None and self.wish() != self._planned:
            self._seen = None  # the person chose otherwise: what moved before is no longer the question
        self._show_state()

    def _plan_now(self) -> None:
        # One call at a time: each holds the box's lock. Whatever was chosen meanwhile is planned after it.
        self._wait = None
        wish = self.wish()
        if self._busy or self._blank or wish == self._planned:
            return
        self.work(
            "the commit is being planned",
            partial(
                self.workbench.engine.plan_apply,
                self.review.row.key,
                expect=self.review.snapshot.id,
                **wish._asdict(),
            ),
            partial(self._plan_made, wish),
            partial(self._plan_failed, wish),
            acting=False,
        )

    def _plan_made(self, wish: Wish, plan: ApplyPlan) -> None:
        self.plan, self._planned, self._trouble = plan, wish, None
        if not wish.message and plan.trailers:
            self._set_default(text.body_of(plan))
        if self._way and self._way not in text.possible(self.review, plan):
            self._way = ""
        standing = {check.key for check in plan.standing}
        self._acknowledged = {
            check.key
            for check in text.warnings_of(plan.checks)
            if self._here.get(check.key, check.key not in standing)
        }
        self._show()

    def _plan_failed(self, wish: Wish, error: Exception) -> None:
        self.plan, self._planned, self._trouble = None, wish, error
        self._show()

    def _set_default(self, body: str) -> None:
        area = self.query_one(Message)
        untouched = area.text.rstrip() == self._default.rstrip()
        self._default = body
        if untouched and area.text != body:
            area.load_text(body)

    # ------------------------------------------------------------ what is shown

    def _show(self) -> None:
        told: list[text.Paragraph] = []
        if self._seen is not None and self.plan is not None:
            told = text.moved_paragraphs(self._seen, self.plan)
        if self._trouble is not None:
            told = text.trouble_paragraphs(self._trouble)
        self._fill("#told", told)
        plan = self.plan
        if plan is not None:
            self._fill("#what", text.plan_paragraphs(self.review, plan))
            self._fill("#trailers", text.trailer_paragraphs(plan))
        elif self._planned is None:
            self._fill("#what", [line(("the commit is being planned…", "quiet"))])
        else:
            self._fill("#what", [])
        ways = text.possible(self.review, plan) if plan is not None else ()
        self.query_one("#modes").display = len(ways) > 1
        chosen = self._way or (ways[0] if ways else "")
        for way in WAYS:
            mode = self.query_one(f"#way-{way}", Mode)
            mode.display = way in ways
            mode.choose(way == chosen)
        for name in ("#message-title", "#message"):
            written = bool(plan.trailers) if plan is not None else not isinstance(self._trouble, Conflict)
            self.query_one(name).display = written
        self._show_warnings()
        stuck = isinstance(self._trouble, Conflict)
        self.query_one("#rebase").display = stuck
        self.query_one("#again").display = self._trouble is not None and not stuck
        self._show_state()
        focused = self.focused
        if focused is not None and not focused.display:
            self.query_one("#no", Choice).focus()

    def _fill(self, where: str, paragraphs: list[text.Paragraph]) -> None:
        document = self.query_one(where, Document)
        document.display = bool(paragraphs)
        document.set_paragraphs(paragraphs)

    @property
    def warnings(self) -> tuple[CheckRow, ...]:
        """What the gate warns of in exactly what would be taken."""
        return text.warnings_of(self.plan.checks) if self.plan is not None else ()

    def _open(self) -> int:
        return sum(check.key not in self._acknowledged for check in self.warnings)

    def _show_warnings(self) -> None:
        found = self.warnings
        for name in ("#warnings-title", "#warnings", "#warning", "#typed"):
            self.query_one(name).display = bool(found)
        if not found:
            return
        left = self._open()
        count = "1 warning stands" if len(found) == 1 else f"{len(found)} warnings stand"
        done = f"  {len(found) - left} acknowledged; space does it, one by one"
        self.query_one("#warnings-title", InkLine).show(line((count, "look strong"), (done, "quiet")))
        rows = self.query_one(Warnings)
        rows.set_rows([(check, check.key in self._acknowledged) for check in found])
        selected = rows.selected
        cut = selected is not None and width_of(rows.row_line(0, selected, 10_000)) > rows.room
        self._fill("#warning", [check_paragraph(selected[0])] if selected is not None and cut else [])

    def _missing(self) -> str:
        """Why "Apply" is not armed, "" when it is."""
        if self._busy:
            return f"{self._busy}…"
        if self._blank:
            return "the message is empty"
        if self._trouble is not None and self.plan is None:
            return "this cannot be applied as it is"
        if self.plan is None or self.wish() != self._planned:
            return "the commit is being planned…"
        left = self._open()
        if left:
            return f"{left} of {len(self.warnings)} warnings not acknowledged"
        if self.warnings and self.query_one("#typed", Input).value != self.review.row.name:
            return f"all acknowledged; type {visible(self.review.row.name)}"
        return ""

    def _show_state(self) -> None:
        missing = self._missing()
        ready: Line = line(("Apply makes exactly this commit", "quiet"))
        self.query_one("#missing", InkLine).show(line((missing, "look")) if missing else ready)
        self.query_one("#apply", Choice).arm(not missing)

    def under_way(self) -> None:
        self._show_state()

    def idle(self) -> None:
        self._plan_now()

    # ------------------------------------------------------------ the person

    def action_no(self) -> None:
        if self._acting:
            self.notify(f"{self._busy}: wait for its end", severity="warning", markup=False)
        else:
            self.dismiss(None)

    def action_page(self, pages: int) -> None:
        body = self.query_one("#apply-body", VerticalScroll)
        body.scroll_relative(y=pages * max(1, body.size.height - 1), animate=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "onto":
            self._plan_soon(AFTER)
        else:
            self._show_state()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self._plan_soon(AFTER)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "typed":
            self.query_one("#no", Choice).focus()
        else:
            self.focus_next()

    def on_row_view_moved(self, event: RowView.Moved) -> None:
        self._show_warnings()

    def on_row_view_chosen(self, event: RowView.Chosen) -> None:
        rows = self.query_one(Warnings)
        if rows.selected is None or self._acting:
            return
        check, done = rows.selected

        def kept(_: object) -> None:
            self._here[check.key] = not done
            (self._acknowledged.discard if done else self._acknowledged.add)(check.key)
            if not done:
                rows.action_move(1)
            self._show()

        self.work(
            "the acknowledgement is being kept",
            partial(acknowledge, self.workbench.engine, self.review, check, withdraw=done),
            kept,
            self.workbench.show_error,
        )

    def on_choice_given(self, event: Choice.Given) -> None:
        chosen = event.choice.id
        if chosen == "no":
            self.action_no()
        elif self._acting:
            return
        elif isinstance(event.choice, Mode):
            self._way = event.choice.way if event.choice.way in ("squash", "keep") else ""
            self._show()
            self._plan_soon(0)
        elif chosen == "again":
            self._look_again()
        elif chosen == "rebase":
            self._rebase()
        elif event.choice.armed:
            self._apply()
        else:
            self.notify(self._missing(), severity="warning", markup=False)
            self._lead()

    def _lead(self) -> None:
        """The focus where something is still to be done."""
        if self._open():
            self.query_one(Warnings).focus()
        elif self.warnings:
            self.query_one("#typed", Input).focus()

    def _look_again(self) -> None:
        trouble = self._trouble
        if isinstance(trouble, ClocheError) and trouble.code in _UNREVIEWED:
            self.dismiss(ApplyEnd(again=True))
            return
        self._planned = None
        self._plan_soon(0)

    # ------------------------------------------------------------ the act

    def _apply(self) -> None:
        plan, wish = self.plan, self.wish()
        if plan is None or self._missing():
            return
        self._seen = None
        self.work(
            "the result is being applied",
            partial(
                self.workbench.engine.apply,
                self.review.row.key,
                part=True,
                seen=plan,
                expect=self.review.snapshot.id,
                **wish._asdict(),
            ),
            self._applied,
            partial(self._not_applied, plan),
        )

    def _applied(self, outcome: ApplyOutcome) -> None:
        self.dismiss(ApplyEnd(outcome))

    def _not_applied(self, seen: ApplyPlan, error: Exception) -> None:
        self.query_one("#no", Choice).focus()
        self.query_one("#apply-body", VerticalScroll).scroll_home(animate=False)
        moved = isinstance(error, ClocheError) and error.code in ("plan-moved", "branch-moved", "base-moved")
        if moved:
            self._seen, self._planned, self._trouble = seen, None, None
            self._plan_soon(0)
        else:
            self._trouble = error
            self._show()

    def _rebase(self) -> None:
        self.work(
            "the box is being brought onto the branch",
            partial(self.workbench.engine.rebase, self.review.row.key),
            self._rebased,
            self._rebase_failed,
        )

    def _rebased(self, outcome: RebaseOutcome) -> None:
        self.dismiss(ApplyEnd(rebased=outcome))

    def _rebase_failed(self, error: Exception) -> None:
        self._trouble = error
        self._show()
