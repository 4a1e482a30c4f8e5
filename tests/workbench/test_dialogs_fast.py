"""Dialogs under quick fingers and under notices: what is typed goes where it should, answers stay seen."""

from __future__ import annotations

import pytest
from textual import events
from textual.widget import Widget
from textual.widgets import Input
from textual.widgets._toast import Toast

from app.screens.apply import ApplyScreen
from app.screens.apply_parts import Message
from app.screens.dialogs import Choice, ConfirmScreen
from tests.workbench import frozen
from tests.workbench.stage import Play, play
from tests.workbench.test_apply import SIZES, to_dialog
from widgets.ink import line

NAMES = {"\t": "tab", " ": "space", "-": "minus", "\x19": "shift+tab"}


async def burst(stage: Play, text: str) -> None:
    """All of ``text`` in one read of the terminal: no key waits for what the one before it does."""
    before = set(stage.app.workers)
    for char in text:
        stage.app.post_message(events.Key(NAMES.get(char, char), char if char.isprintable() else None))
    await stage.handled(before)


def covered(dialog: ApplyScreen) -> list[str]:
    """Which answers are not what a click on them would find, all the way along."""
    found = []
    for choice in dialog.query(".buttons Choice"):
        region = choice.region
        cells = [(x, region.y) for x in range(region.x, region.right)] if choice.display else []
        if any(dialog.get_widget_at(*cell)[0] is not choice for cell in cells):
            found.append(str(choice.id))
    return found


@pytest.mark.parametrize("size", SIZES)
async def test_a_notice_covers_no_answer_of_a_dialog(size: tuple[int, int]) -> None:
    async with play(frozen.FrozenEngine(), size) as stage:
        dialog = await to_dialog(stage)
        assert covered(dialog) == []
        for said in ("one", "two, " * 30):
            stage.app.notify(said, title="a title", severity="warning", markup=False, timeout=60)
        await stage.until(lambda: len(dialog.query(Toast)) == 2)
        await stage.handled(set(stage.app.workers))
        toasts = list(dialog.query(Toast))
        assert all(toast.region.height and toast.region.y < size[1] // 2 for toast in toasts)
        assert covered(dialog) == []
        assert "a title" in stage.text()


async def test_a_notice_of_the_screen_below_does_not_cover_them_either() -> None:
    async with play(frozen.FrozenEngine(), (120, 40)) as stage:
        await stage.until(lambda: stage.app.focused is not None)
        stage.app.notify("before it opened", timeout=60)
        dialog = await to_dialog(stage)
        await stage.until(lambda: len(dialog.query(Toast)) == 1)
        assert covered(dialog) == []


async def test_what_is_typed_right_after_a_tab_is_in_the_field_that_it_leads_to() -> None:
    async with play(frozen.FrozenEngine(), (120, 40)) as stage:
        dialog = await to_dialog(stage)
        onto = dialog.query_one("#onto", Input)
        onto.focus()
        message = dialog.query_one(Message)
        await stage.handled(set(stage.app.workers))
        was = message.text
        await burst(stage, "next\tWell")
        assert (onto.value, stage.app.focused) == ("next", message)
        assert "Well" in message.text and message.text.replace("Well", "") == was
        await burst(stage, "!\x19-one")
        assert (onto.value, stage.app.focused) == ("-one", onto)  # its text was chosen by the focus


async def test_a_tab_and_an_answer_in_one_go_give_that_answer() -> None:
    async with play(frozen.FrozenEngine(), (120, 40)) as stage:
        given: list[bool | None] = []
        await stage.until(lambda: stage.app.focused is not None)
        ask = ConfirmScreen("Remove it?", [line("all of it")], "Remove", typed="box")
        stage.app.push_screen(ask, given.append)
        await stage.until(lambda: isinstance(stage.app.focused, Choice))
        typed = ask.query_one("#typed", Input)
        typed.focus()
        await stage.handled(set(stage.app.workers))
        focus: list[Widget | None] = []
        await burst(stage, "box\t\t")
        focus.append(stage.app.focused)
        assert typed.value == "box" and focus == [ask.query_one("#yes", Choice)]
        await burst(stage, " ")
        await stage.until(lambda: given == [True])
