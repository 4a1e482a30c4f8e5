"""The chooser of a new box: a failure that must not happen, a tier and a profile, what this host proved."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from textual.widgets import Input

from app.screens.new_box import NewBoxScreen, QuestionList
from backends.engine import Engine
from backends.errors import UsageError
from tests.workbench import frozen
from tests.workbench.stage import Play, play
from widgets.lines import Document
from widgets.pane import BoxPane


async def chosen(stage: Play, tier: str) -> NewBoxScreen:
    await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
    await stage.press("n")
    screen = stage.app.screen
    assert isinstance(screen, NewBoxScreen)
    screen.query_one(QuestionList).select(tier)
    await stage.until(lambda: screen.question.tier == tier)
    await stage.handled(set())
    return screen


async def test_the_answer_is_a_tier_and_a_profile_and_a_profile_of_ones_own_stays() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        screen = await chosen(stage, "supervised")
        await stage.shows("tier supervised · profile agent")
        assert (screen.request().tier, screen.request().profile) == ("supervised", "agent")
        screen.query_one(QuestionList).select("process")
        await stage.shows("tier process · profile default")
        assert screen.request().profile == "default"
        field = screen.query_one("#profile", Input)
        field.focus()
        field.value = "agent"
        await stage.press("enter")
        await stage.shows(
            "✗ refused: net.mode: the process tier cannot hold a box to a list", "use --tier superv"
        )
        screen.query_one(QuestionList).select("auto")
        await stage.shows("tier auto · profile agent", "no tier can enforce this policy here")
        assert screen.request().profile == "agent"


async def test_a_profile_that_is_not_there_is_said_in_the_place_of_the_reasoning() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        screen = await chosen(stage, "process")
        field = screen.query_one("#profile", Input)
        field.focus()
        field.value = "agnt"
        await stage.press("tab")
        await stage.shows("there is no profile agnt")
        assert isinstance(stage.app.screen, NewBoxScreen)
        field.focus()
        field.value = "default"
        await stage.press("tab")
        await stage.shows("✓ proved, start 18 ms")


async def test_auto_names_the_tier_that_it_takes_and_why() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await chosen(stage, "auto")
        await stage.shows(
            "tier auto → process · profile default", "the cheapest tier that can enforce every key"
        )


async def test_an_image_is_asked_for_only_where_one_is_run() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        screen = await chosen(stage, "container")
        field = screen.query_one("#image", Input)
        await stage.until(lambda: field.parent is not None and field.parent.display and field.region.height)
        field.focus()
        field.value = "localhost/ci:1"
        await stage.press("enter")
        assert screen.request().image == "localhost/ci:1"
        screen.query_one(QuestionList).select("process")
        await stage.until(lambda: not field.region.height)
        assert screen.request().image == ""


async def test_a_probe_that_cannot_be_made_is_told_and_does_not_keep_the_dialog_waiting() -> None:
    engine = frozen.FrozenEngine()

    def wait(verb: str, ref: str) -> None:
        if verb in ("probe", "reasoning"):
            raise UsageError(
                "CLOCHE_INJECT asks for what cannot be injected", "x", "one of userns", code="bad"
            )

    engine.wait = wait
    async with play(engine) as stage:
        await stage.shows("asks for what cannot be injected")
        await stage.press("enter")
        await chosen(stage, "process")
        await stage.until(lambda: stage.text().count("CLOCHE_INJECT asks for what cannot be injected") == 1)


async def test_nothing_is_weighed_before_the_host_was_probed() -> None:
    engine = frozen.FrozenEngine()
    asked: list[str] = []
    go = threading.Event()

    def wait(verb: str, ref: str) -> None:
        asked.append(verb)
        if verb == "probe":
            go.wait(60)

    engine.wait = wait
    async with play(engine) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.pilot.press("n")
        await stage.until(lambda: isinstance(stage.app.screen, NewBoxScreen))
        await stage.shows("being probed…")
        assert "reasoning" not in asked
        go.set()
        await stage.shows("process ✓ 18 ms", "the cheapest tier that can enforce")


@pytest.mark.flow
async def test_a_tier_that_fails_here_stays_in_the_list_with_the_reason_and_the_remedy(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_INJECT", "nft")
    engine = Engine(repo)
    async with play(engine, (160, 50), cwd=repo) as stage:
        await stage.until(lambda: stage.app.claims is not None)
        await stage.press("n")
        screen = stage.app.screen
        assert isinstance(screen, NewBoxScreen)
        screen.query_one(QuestionList).select("supervised")
        await stage.shows(
            "tier supervised · profile agent", "✗ refused: ", "(injected)", "modprobe -a nf_tables"
        )
        row = engine.reasoning(screen.request()).row("supervised")
        assert row is not None and row.state == "refused"
        shown = " ".join(screen.query_one("#tier-detail", Document).plain().split())
        assert " ".join(row.why.split()) in shown and " ".join(row.remedy.split()) in shown
        screen.query_one(QuestionList).select("process")
        await stage.shows("tier process · profile default", "✓ proved, start")


async def test_a_long_reason_can_be_scrolled_where_the_dialog_is_low() -> None:
    engine = frozen.FrozenEngine()
    rows = tuple(
        row._replace(why="because " * 80, remedy="the end of it") if row.tier == "supervised" else row
        for row in engine.reasonings["agent"].rows
    )
    engine.reasonings["agent"] = engine.reasonings["agent"]._replace(rows=rows)
    async with play(engine, (80, 24)) as stage:
        screen = await chosen(stage, "supervised")
        detail = screen.query_one("#tier-detail", Document)
        await stage.until(lambda: detail.can_focus)
        assert "the end of it" not in stage.text()
        await stage.press("tab", "end")
        await stage.shows("the end of it")
        screen.query_one(QuestionList).focus()
        screen.query_one(QuestionList).select("workspace")
        await stage.until(lambda: not detail.can_focus)
