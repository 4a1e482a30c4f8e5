"""Boxes beside each other: marked in the fleet, compared, two versions of a file set against each other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.screens.compare import CompareScreen
from backends.engine import Engine, NewBox, Streams
from backends.errors import Refused
from tests import support
from tests.workbench import frozen
from tests.workbench.stage import Play, play
from widgets.compare import BoxRows, FileRows, shown_columns
from widgets.diff_view import DiffView

NAMES = ("fix-auth", "deps-bump", "docs-tour")
KEYS = tuple(f"{frozen.KEY}/{name}" for name in NAMES)


async def opened(stage: Play, *names: str) -> CompareScreen:
    stage.app.push_screen(CompareScreen(tuple(f"{frozen.KEY}/{name}" for name in names)))
    await stage.until(lambda: isinstance(stage.app.screen, CompareScreen) and stage.app.screen.found)
    await stage.pilot.pause()
    screen = stage.app.screen
    assert isinstance(screen, CompareScreen)
    return screen


@pytest.mark.parametrize("table", [False, True])
async def test_boxes_are_marked_in_the_fleet_and_compared(table: bool) -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, (140, 45)) as stage:
        await stage.shows("fix-auth")
        await stage.until(lambda: stage.app.screen.focused is not None)
        if table:
            await stage.press("v")
        await stage.press("M")
        await stage.shows("2 boxes have to be marked")
        await stage.press("space")
        await stage.shows("1 marked", "+")
        await stage.press("down" if table else "right", "space")
        await stage.shows("2 marked")
        await stage.press("M")
        await stage.until(lambda: ("compare", KEYS[:2]) in engine.asked)
        await stage.shows("compare  2 boxes", "all from 3f2a9c1d00", "src/auth.ts")
        await stage.press("escape")
        await stage.shows("2 marked")
        await stage.press("space")
        await stage.shows("1 marked")


async def test_a_box_that_is_gone_is_marked_no_more() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, (140, 45)) as stage:
        await stage.until(lambda: stage.app.screen.focused is not None)
        await stage.press("space")
        await stage.shows("1 marked")
        engine.rows = engine.rows[1:]
        stage.app.publisher.refresh()
        await stage.until(lambda: "1 marked" not in stage.text())


async def test_evidence_stands_side_by_side() -> None:
    async with play(frozen.FrozenEngine(), (150, 45)) as stage:
        await opened(stage, *NAMES)
        await stage.shows("fix-auth", "deps-bump", "docs-tour", "exit 0 of 2", "exit 1 of 2", "exit 2 of 2")
        await stage.shows("last test", "refused", "ran for", "17", "4.1K", "2 made differently", "2M +40-2")


async def test_two_versions_of_a_file_are_set_against_each_other() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, (150, 45)) as stage:
        screen = await opened(stage, *NAMES)
        screen.query_one(FileRows).focus()
        await stage.press("down", "enter")
        await stage.shows("const once = true", "A fix-auth → B deps-bump  src/auth.ts")
        trees = tuple(box.tree for box in screen.found.boxes) if screen.found else ()
        assert ("between", (KEYS[0], KEYS[1], b"src/auth.ts", trees[:2])) in engine.asked
        await stage.press("p")
        await stage.shows("A fix-auth → C docs-tour", "the same to the byte in both")
        assert not [one for one in engine.asked if one[0] == "between" and one[1][1] == KEYS[2]]
        await stage.press("p")
        await stage.shows("B deps-bump → C docs-tour", "const once = true")
        await stage.press("d")
        await stage.until(lambda: screen.query_one(DiffView).sides)


async def test_only_what_was_made_differently_is_shown_on_request() -> None:
    async with play(frozen.FrozenEngine(), (150, 45)) as stage:
        screen = await opened(stage, "fix-auth", "deps-bump")
        await stage.shows("src/cart.ts", "Files 3 · 2 made differently")
        await stage.press("f")
        await stage.until(
            lambda: [row.path for row in screen.query_one(FileRows).rows] == [b"README.md", b"src/auth.ts"]
        )
        await stage.press("f")
        await stage.shows("src/cart.ts")


async def test_the_chosen_box_is_reviewed() -> None:
    async with play(frozen.FrozenEngine(), (150, 45)) as stage:
        screen = await opened(stage, *NAMES)
        screen.query_one(BoxRows).focus()
        await stage.press("end", "enter")
        await stage.shows("› review", "docs-tour")
        await stage.press("escape")
        await stage.until(lambda: stage.app.screen is screen)
        await stage.press("home", "E")
        await stage.shows("processes still run")


async def test_boxes_of_different_bases_are_said_to_be() -> None:
    engine = frozen.FrozenEngine()
    engine.one_base = False
    async with play(engine, (150, 45)) as stage:
        await opened(stage, "fix-auth", "deps-bump")
        await stage.shows("bases differ")


async def test_what_cannot_be_compared_leads_back_with_the_reason() -> None:
    engine = frozen.FrozenEngine()

    def wait(verb: str, ref: str) -> None:
        if verb == "compare":
            raise Refused("these boxes cannot be compared", "one is gone", "cloche ls")

    engine.wait = wait
    async with play(engine, (150, 45)) as stage:
        stage.app.push_screen(CompareScreen(KEYS[:2]))
        await stage.shows("these boxes cannot be compared", "one is gone")
        await stage.press("escape")
        await stage.until(lambda: type(stage.app.screen).__name__ == "FleetScreen")


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (200, 60)])
async def test_it_fits_every_size(size: tuple[int, int]) -> None:
    async with play(frozen.FrozenEngine(), size) as stage:
        screen = await opened(stage, *NAMES)
        await stage.shows("fix-auth", "src/auth.ts", "exit 0")
        screen.query_one(FileRows).focus()
        await stage.press("down", "enter")
        await stage.shows("once")


def test_columns_leave_in_an_order_until_they_fit() -> None:
    assert len(shown_columns(120)) == 9
    names = [name for name, _, _ in shown_columns(78)]
    assert {"box", "files", "lines", "last test", "refused", "ran for"} <= set(names)


@pytest.mark.flow
async def test_real_boxes_are_compared_from_the_fleet(tmp_path: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    repo = support.make_repo(tmp_path / "repo")
    engine = Engine(repo)
    for name, text in (("one", "first"), ("two", "second")):
        engine.create(NewBox(name=name))
        script = f"echo {text} > src/add.py; echo same > same"
        assert engine.run(name, ["sh", "-c", script], streams=Streams(null, null, null)).exit == 0
        engine.propose(name)
    os.close(null)
    async with play(cwd=repo, size=(150, 45)) as stage:
        await stage.until(lambda: len(stage.app.rows) == 2)
        await stage.until(lambda: stage.app.screen.focused is not None)
        await stage.press("space", "right", "space", "M")
        await stage.shows("src/add.py", "1 made differently", seconds=60)
        stage.app.screen.query_one(FileRows).focus()
        stage.app.screen.query_one(FileRows).select(b"src/add.py")
        await stage.press("enter")
        await stage.shows("first", "second", seconds=60)
