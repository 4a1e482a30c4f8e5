"""Keys that come faster than they are handled: a dialog's answer is the one that they lead to."""

from __future__ import annotations

import pytest
from textual import events

from app.screens.box import BoxScreen
from app.screens.dialogs import ConfirmScreen
from tests.workbench import frozen
from tests.workbench.stage import play
from widgets.ink import line
from widgets.pane import BoxPane


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("right enter", True),
        ("right space", True),
        ("right left enter", False),
        ("tab shift+tab space", False),
        ("enter", False),
        ("right enter enter", True),
    ],
)
async def test_an_answer_is_that_of_the_keys_before_it(keys: str, answer: bool) -> None:
    async with play(frozen.FrozenEngine()) as stage:
        given: list[bool | None] = []
        stage.app.push_screen(ConfirmScreen("Sure?", [line("it is done then")], "Do it"), given.append)
        await stage.shows("Do it")
        for key in keys.split():
            stage.app.post_message(events.Key(key, " " if key == "space" else None))
        await stage.until(lambda: given, 8)
        await stage.handled(set())
        assert given == [answer]


async def test_the_box_that_opens_is_the_one_that_the_arrows_led_to() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        for key in ("right", "down", "left", "enter"):
            stage.app.post_message(events.Key(key, None))
        await stage.until(lambda: isinstance(stage.app.screen, BoxScreen))
        await stage.shows("fleet › docs-tour", "[1 Denials]")
        assert isinstance(stage.app.screen, BoxScreen)
        assert stage.app.screen.row.name == "docs-tour"
