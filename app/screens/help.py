"""Every key of the screen one came from, from the action table."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from app.action import CONTEXTS, Action
from app.actions import of_context, shown_key
from app.screens.modal import Modal
from widgets.ink import Line, line
from widgets.lines import Document
from widgets.marks import STATES

RELATED = {"box": ("tree", "terminal", "timeline", "diff"), "gate": ("diff",), "compare": ("diff",)}
"""Contexts whose widgets a screen holds."""


MARKS = line(
    *(
        ("! ", "look strong"),
        "needs you   ",
        ("~ ", "look"),
        "keeper slow   ",
        ("† ", "look"),
        "keeper lost   ",
    ),
    *(part for word, (mark, ink) in STATES.items() for part in ((f"{mark}\u00a0", ink), f"{word}   ")),
)


def help_paragraphs(contexts: tuple[str, ...], keymap: dict[str, str]) -> list[Line | tuple[Line, int]]:
    """The actions of this screen, then those of its parts, then those that count everywhere."""
    wanted = [*contexts, *(part for name in contexts for part in RELATED.get(name, ())), "lists", "anywhere"]
    rows: list[Line | tuple[Line, int]] = []
    for context in wanted:
        actions = of_context(context)
        if not actions:
            continue
        if rows:
            rows.append(())
        rows.append(line((CONTEXTS[context], "title")))
        rows += [(_action_line(action, keymap), 19) for action in actions]
    rows += [
        (),
        line(("Marks", "title")),
        (MARKS, 2),
        (line("Red is a denial or a refused claim. Amber says look. Grey is idle or weak evidence."), 2),
    ]
    return rows


def _action_line(action: Action, keymap: dict[str, str]) -> Line:
    keys = shown_key(keymap.get(action.id, action.key), first=False)
    note = ("  asks first", "look") if action.danger else ("", "")
    return line((f"  {keys:<16} ", "key"), action.tooltip, note)


class HelpScreen(Modal[None]):
    """The help of one screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "close", "Close", show=False)
    ]

    def __init__(self, contexts: tuple[str, ...], keymap: dict[str, str]) -> None:
        super().__init__()
        self._paragraphs = help_paragraphs(contexts, keymap)

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog", id="help")
        frame.border_title = "Keys"
        frame.border_subtitle = "esc closes"
        with frame:
            yield Document(id="keys")

    def on_mount(self) -> None:
        document = self.query_one(Document)
        document.set_paragraphs(self._paragraphs)
        document.focus()

    def action_close(self) -> None:
        self.dismiss(None)
