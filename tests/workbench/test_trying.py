"""Trying what is accepted from the gate: asked for in a dialog, told at its end, kept beside the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from textual.widgets import Input

from app.screens.trying import TryScreen, outcome_paragraphs, proposed_command, try_paragraphs
from app.workbench import Workbench
from backends.engine import Engine, NewBox, Streams
from tests import support
from tests.workbench import frozen
from tests.workbench.frozen_compare import trial
from tests.workbench.stage import Play, play
from widgets.checks import Evidence
from widgets.ink import Line, plain

KEY = f"{frozen.KEY}/docs-tour"


def texts(rows: list[Line]) -> str:
    return "\n".join(plain(row) for row in rows)


async def review_of(stage: Play, name: str) -> None:
    row = next(row for row in stage.app.rows if row.name == name)
    stage.app.open_review(row)
    await stage.shows("Evidence")
    await stage.until(lambda: stage.app.screen.review is not None)  # type: ignore[attr-defined]


async def test_a_command_is_asked_for_and_how_it_ended_is_told() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await review_of(stage, "docs-tour")
        await stage.press("T")
        await stage.shows("Try docs-tour", "Nothing enters your repository")
        await stage.type("npm test")
        await stage.press("enter", "enter")
        await stage.shows("exit 1", "1 failed")
        assert ("try", (KEY, ("npm", "test"), False)) in engine.asked
        assert "\x1b" not in stage.text() and "red" in stage.text()
        await stage.press("escape")
        await stage.until(lambda: type(stage.app.screen).__name__ == "ReviewScreen")


async def test_it_can_be_tried_on_the_branch_of_today() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await review_of(stage, "docs-tour")
        await stage.press("T")
        await stage.shows("Try docs-tour", "merged onto main of today")
        await stage.type("make")
        await stage.press("enter", "right", "enter")
        await stage.until(lambda: ("try", (KEY, ("make",), True)) in engine.asked)
        await stage.shows("merged onto 4d4d4d")


async def test_what_cannot_be_a_command_is_said_and_the_dialog_stays() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await review_of(stage, "docs-tour")
        await stage.press("T")
        await stage.shows("Try docs-tour")
        await stage.press("enter", "enter")
        await stage.shows("name a command")
        await stage.type("sh -c 'open")
        await stage.press("enter", "enter")
        await stage.shows("cannot be read")
        assert isinstance(stage.app.screen, TryScreen)
        await stage.press("escape")
        await stage.until(lambda: not isinstance(stage.app.screen, TryScreen))
        assert not [one for one in engine.asked if one[0] == "try"]


async def test_only_one_thing_is_tried_at_a_time_and_reading_goes_on() -> None:
    import threading

    engine = frozen.FrozenEngine()
    gate = threading.Event()

    def wait(verb: str, ref: str) -> None:
        if verb == "try":
            assert gate.wait(60)

    engine.wait = wait
    async with play(engine) as stage:
        try:
            await review_of(stage, "docs-tour")
            await stage.press("T")
            await stage.shows("Try docs-tour")
            await stage.type("make")
            await stage.press("enter", "enter")
            await stage.until(lambda: any(one[0] == "try" for one in engine.asked))
            await stage.press("T")
            await stage.shows("make is being tried")
            assert not isinstance(stage.app.screen, TryScreen)
            await stage.press("J")
            await stage.until(lambda: stage.app.busy.get(KEY, "") == "")
        finally:
            gate.set()
        await stage.shows("exit 1")


def test_the_dialog_says_what_would_be_tried() -> None:
    engine = frozen.FrozenEngine()
    view = engine.review(KEY)
    assert "all of it  nothing is decided yet" in texts(try_paragraphs(view, None))
    assert proposed_command(view) == ""
    assert proposed_command(view._replace(tried=(trial("npm test"), trial("npm run e2e")))) == "npm run e2e"


def test_the_end_is_told_whole_and_escaped() -> None:
    denials = (("net", "evil\x1b[2J:443", 3),)
    told = outcome_paragraphs(trial("npm test", denied=3, denials=denials, onto="ab" * 20), b"a\x07b\n" * 99)
    lines = [plain(text) for text, _ in told]
    text = "\n".join(lines)
    assert "exit 0" in text and "merged onto abababababab" in text and "3 refused" in text
    assert "\x1b" not in text and "\x07" not in text and len(lines) < 30


@pytest.mark.flow
async def test_a_real_try_joins_the_evidence_in_the_gate(tmp_path: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    repo = support.make_repo(tmp_path / "repo")
    engine = Engine(repo)
    engine.create(NewBox(name="b"))
    streams = Streams(null, null, null)
    assert engine.run("b", ["sh", "-c", "echo one > one; echo two > two"], streams=streams).exit == 0
    os.close(null)
    engine.propose("b")
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"one", desk.file(b"one").all)], "accepted")
    async with play(cwd=repo) as stage:
        app: Workbench = stage.app
        await stage.until(lambda: app.rows)
        await review_of(stage, "b")
        await stage.until(lambda: app.screen.decided is not None)  # type: ignore[attr-defined]
        await stage.press("T")
        await stage.shows("Try b", "2 accepted")
        await stage.type("ls one two")
        assert app.screen.query_one("#command", Input).value == "ls one two"
        await stage.press("enter", "enter")
        await stage.shows("exit 2", "the accepted part on its base", seconds=90)
        await stage.press("escape")
        await stage.until(lambda: "ls one two" in app.screen.query_one(Evidence).plain(), 60)
    assert [(one.exit, one.fits) for one in engine.review("b").tried] == [(2, True)]
    assert [row.name for row in engine.boxes()] == ["b"]


async def test_a_part_that_never_ran_is_said_to_be_so_as_it_is_accepted() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await review_of(stage, "docs-tour")
        await stage.until(lambda: stage.app.screen.decided is not None)  # type: ignore[attr-defined]
        assert "combination not run" not in stage.app.screen.query_one(Evidence).plain()
        await stage.press("space")
        await stage.until(lambda: "combination not run" in stage.app.screen.query_one(Evidence).plain())
        await stage.press("z")
        await stage.until(lambda: "combination not run" not in stage.app.screen.query_one(Evidence).plain())
