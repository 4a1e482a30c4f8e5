"""A new box: the question first, then the tier that answers it, then the little that is left to say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from app.screens.base import sentence_of
from app.screens.dialogs import Choice
from app.screens.modal import Modal
from app.screens.tier_text import question_line, tier_paragraphs
from app.workers.beside import beside
from app.workers.calls import call
from backends.snapshots import BoxRow, Claim
from backends.snapshots_choice import Reasoning
from backends.tiers.choosing import QUESTIONS, Question
from backends.verbs.values import NewBox
from widgets.ink import Line, line
from widgets.inked import InkLine
from widgets.lines import Document, RowView

if TYPE_CHECKING:
    from app.workbench import Workbench


IMAGE_TIERS = ("container", "microvm")
Asked = tuple[str, str, str]
"""A profile, an image, and what is cloned: what the tiers are weighed for."""


class QuestionList(RowView[Question]):
    """The failures; the cursor is the choice."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.reasonings: dict[str, Reasoning] = {}  # by the tier of the question

    def key_of(self, row: Question) -> str:
        return row.tier

    def row_line(self, index: int, row: Question, width: int) -> Line:
        return question_line(row, self.reasonings.get(row.tier), chosen=index == self.index, width=width)


class NewBoxScreen(Modal[BoxRow | None]):
    """Dismissed with the box that was made. A refused request stays open, so it can be changed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "no", "No", show=False)]

    def __init__(self) -> None:
        super().__init__()
        self._making = False
        self._profile = ""  # as the person typed it, "": the one that goes with the question
        self._known: dict[Asked, Reasoning | str] = {}  # or why it cannot be told
        self._asking: set[Asked] = set()

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
            yield from _field("image", "", "the image of the box; the profile's when empty")
            yield from _field("purpose", "", "what is it for?")
            with Horizontal(classes="buttons"):
                yield Choice("Leave", id="no")
                yield Choice("Make the box", id="make")

    def on_mount(self) -> None:
        questions = self.query_one(QuestionList)
        questions.set_rows(QUESTIONS)
        questions.focus()
        self._describe()
        self._weigh()

    def on_resize(self) -> None:
        self.set_class(self.app.size.height < 36, "-compact")

    # ------------------------------------------------------------ the reasoning

    def claims_changed(self, claims: Sequence[Claim]) -> None:
        """The host was probed while the dialog is open: what it proved can be asked for without a wait."""
        self._weigh()

    @property
    def question(self) -> Question:
        return QUESTIONS[self.query_one(QuestionList).index]

    def _asked(self, question: Question) -> Asked:
        image = self._value("image") if question.tier in IMAGE_TIERS else ""
        return self._profile or question.profile, image, self._value("clone")

    def _weigh(self) -> None:
        """Asks for every reasoning that the questions need and that is not known yet."""
        if self.workbench.claims is None:
            return  # two probes at a time would each take longer
        for asked in {self._asked(question) for question in QUESTIONS} - self._known.keys() - self._asking:
            self._asking.add(asked)
            beside(self, partial(self._ask, asked), group="weigh")

    async def _ask(self, asked: Asked) -> None:
        profile, image, clone = asked
        request = self._source(clone)._replace(profile=profile, image=image)
        try:
            self._known[asked] = await call(partial(self.workbench.engine.reasoning, request), "weigh tiers")
        except Exception as error:  # noqa: BLE001 (shown in the place of the reasoning)
            self._known[asked] = sentence_of(error)
        finally:
            self._asking.discard(asked)
        if self.is_attached:
            self._describe()

    def on_row_view_moved(self) -> None:
        self._suggest()
        self._describe()

    def on_row_view_chosen(self) -> None:
        self.query_one("#name", Input).focus()

    def _suggest(self) -> None:
        """The profile that goes with the answer, unless the person wrote one."""
        if not self._profile:
            self.query_one("#profile", Input).value = self.question.profile

    def _describe(self) -> None:
        questions = self.query_one(QuestionList)
        found = {question.tier: self._known.get(self._asked(question)) for question in QUESTIONS}
        questions.reasonings = {tier: one for tier, one in found.items() if isinstance(one, Reasoning)}
        questions.refresh()
        question = self.question
        known = found[question.tier]
        self.set_class(question.tier in IMAGE_TIERS, "-image")
        detail = self.query_one(Document)
        detail.set_paragraphs(
            tier_paragraphs(
                question,
                self._asked(question)[0],
                known if isinstance(known, Reasoning) else None,
                known if isinstance(known, str) else "",
            )
        )
        detail.action_move_to(0)
        self.call_after_refresh(self._let_scroll, detail)

    @staticmethod
    def _let_scroll(detail: Document) -> None:
        """Only a text that does not fit is a stop on the way of tab."""
        detail.can_focus = detail.max_scroll_y > 0

    def _typed(self, field: Input) -> None:
        """A field that the tiers are weighed for was left, or finished by Enter."""
        if field.id == "profile":
            text = field.value.strip()
            self._profile = "" if text == self.question.profile else text
        if field.id in ("profile", "image", "clone"):
            self._weigh()
            self._describe()

    def on_input_blurred(self, event: Input.Blurred) -> None:
        self._typed(event.input)

    # ------------------------------------------------------------ the person

    def action_no(self) -> None:
        self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._typed(event.input)
        self.focus_next()

    def on_choice_given(self, event: Choice.Given) -> None:
        if event.choice.id == "no":
            self.dismiss(None)
        elif not self._making:
            beside(self, self._make, group="make")

    def _value(self, name: str) -> str:
        found = self.query(f"#{name}")
        return found.first(Input).value.strip() if found else ""

    def _source(self, clone: str) -> NewBox:
        return NewBox(clone=clone, empty=self.workbench.repository is None and not clone)

    def request(self) -> NewBox:
        """What the dialog asks the engine for."""
        question = self.question
        return self._source(self._value("clone"))._replace(
            name=self._value("name"),
            rev=self._value("from") or "HEAD",
            tier=question.tier,
            profile=self._value("profile") or question.profile,
            image=self._value("image") if question.tier in IMAGE_TIERS else "",
            purpose=self._value("purpose"),
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
    with Horizontal(classes=f"field {name}"):
        yield InkLine(line(name))
        yield Input(value=value, placeholder=hint, id=name)
