"""A new box: the question first, then the tier that answers it, then the little that is left to say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from app.screens.dialogs import Choice
from app.screens.tier_text import QUESTIONS, Question, claim_of, tier_paragraphs
from app.workers.calls import call
from backends.snapshots import BoxRow, Claim
from backends.verbs.values import NewBox
from widgets.ink import Line, Run, line
from widgets.inked import InkLine
from widgets.lines import Document, RowView

if TYPE_CHECKING:
    from app.workbench import Workbench


class QuestionList(RowView[Question]):
    """The failures; the cursor is the choice."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.claims: Sequence[Claim] | None = None

    def key_of(self, row: Question) -> str:
        return row.tier

    def row_line(self, index: int, row: Question, width: int) -> Line:
        chosen = index == self.index
        mark = Run("(●) " if chosen else "( ) ", "accent" if chosen else "quiet")
        refused: Line = ()
        if self.claims is not None and (claim := claim_of(row.tier, self.claims)) is not None:
            refused = line(("  refused here", "look")) if claim.result == "failed" else ()
        return line(mark, (row.must_not, "strong" if chosen else ""), *refused)


class NewBoxScreen(ModalScreen[BoxRow | None]):
    """Dismissed with the box that was made. A refused request stays open, so it can be changed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "no", "No", show=False)]

    def __init__(self) -> None:
        super().__init__()
        self._making = False

    @property
    def workbench(self) -> Workbench:
        return self.app  # type: ignore[return-value]

    def compose(self) -> ComposeResult:
        inside = self.workbench.repository is not None
        frame = Vertical(classes="dialog", id="new-box")
        frame.border_title = "New box"
        frame.border_subtitle = "tab moves on · esc leaves"
        with frame:
            yield InkLine(line(("What must not happen?", "title")))
            yield QuestionList(id="questions")
            yield Document(id="tier-detail")
            yield from _field("name", "", "a readable name is made up")
            if inside:
                yield from _field("from", "HEAD", "any revision that names a commit")
            else:
                yield from _field("clone", "", "URL or path of a repository; empty makes an empty box")
            yield from _field("profile", "default", "default, agent, review, or one of cloche.toml")
            yield from _field("purpose", "", "what is it for?")
            with Horizontal(classes="buttons"):
                yield Choice("Leave", id="no")
                yield Choice("Make the box", id="make")

    def on_mount(self) -> None:
        questions = self.query_one(QuestionList)
        detail = self.query_one(Document)
        detail.can_focus = False
        questions.claims = self.workbench.claims
        questions.set_rows(QUESTIONS)
        questions.focus()
        self._describe()

    def on_resize(self) -> None:
        self.set_class(self.app.size.height < 36, "-compact")

    def claims_changed(self, claims: Sequence[Claim]) -> None:
        """The host was probed while the dialog is open."""
        questions = self.query_one(QuestionList)
        questions.claims = claims
        questions.refresh()
        self._describe()

    def on_row_view_moved(self) -> None:
        self._describe()

    def on_row_view_chosen(self) -> None:
        self.query_one("#name", Input).focus()

    def _describe(self) -> None:
        questions = self.query_one(QuestionList)
        question = QUESTIONS[questions.index]
        self.query_one(Document).set_paragraphs(tier_paragraphs(question, questions.claims))

    def action_no(self) -> None:
        self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.focus_next()

    def on_choice_given(self, event: Choice.Given) -> None:
        if event.choice.id == "no":
            self.dismiss(None)
        elif not self._making:
            self.run_worker(self._make(), exit_on_error=False, group="make")

    def request(self) -> NewBox:
        """What the dialog asks the engine for."""

        def value(name: str) -> str:
            found = self.query(f"#{name}").first(Input) if self.query(f"#{name}") else None
            return found.value.strip() if found is not None else ""

        inside = self.workbench.repository is not None
        return NewBox(
            name=value("name"),
            rev=value("from") or "HEAD",
            tier=QUESTIONS[self.query_one(QuestionList).index].tier,
            profile=value("profile") or "default",
            clone=value("clone"),
            empty=not inside and not value("clone"),
            purpose=value("purpose"),
        )

    async def _make(self) -> None:
        self._making = True
        button = self.query_one("#make", Choice)
        button.text = "Making it…"
        button.refresh(layout=True)
        try:
            row = await call(
                partial(self.workbench.engine.create, self.request()), "the box is being made", whole=True
            )
        except Exception as error:  # noqa: BLE001 (shown to the person, in one form)
            self.workbench.show_error(error)
        else:
            self.dismiss(row)
            return
        finally:
            self._making = False
        button.text = "Make the box"
        button.refresh(layout=True)


def _field(name: str, value: str, hint: str) -> ComposeResult:
    with Horizontal(classes="field"):
        yield InkLine(line(name))
        yield Input(value=value, placeholder=hint, id=name)
