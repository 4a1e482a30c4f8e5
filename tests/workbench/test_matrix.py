"""The isolation matrix on the screen: table, sentences, other products, and one box."""

from __future__ import annotations

import pytest

from app.screens.matrix import MatrixScreen
from backends.errors import Refused
from tests.workbench import frozen
from tests.workbench.stage import Play, play
from widgets.lines import Document
from widgets.matrix import MatrixView, ProjectsView, shown

SIZES = ((80, 24), (120, 40), (200, 50))


async def opened(stage: Play) -> MatrixScreen:
    await stage.until(lambda: stage.app.screen.focused is not None)
    await stage.press("I")
    await stage.until(lambda: isinstance(stage.app.screen, MatrixScreen) and stage.app.screen.found)
    screen = stage.app.screen
    assert isinstance(screen, MatrixScreen)
    return screen


def told(screen: MatrixScreen) -> str:
    """All the sentences, also what has no room on the screen, as one line."""
    return " ".join(screen.query_one("#matrix-told", Document).plain().split())


@pytest.mark.parametrize("size", SIZES)
async def test_the_table_opens_with_what_was_proved(size: tuple[int, int]) -> None:
    async with play(frozen.FrozenEngine(), size) as stage:
        screen = await opened(stage)
        await stage.shows("file system", "network", "kernel", "privilege", "✓ the grants", "? the grants")
        assert stage.app.screen.focused is screen.query_one(MatrixView)
        await stage.press("down")
        await stage.until(lambda: told(screen).startswith("process a tier of Cloche's"))
        assert "✓ Nothing outside the box's own folders can be written. refused" in told(screen)
        assert "deleted where there is a bind of the home directory; write access" in told(screen)
        await stage.press("escape")
        await stage.until(lambda: not isinstance(stage.app.screen, MatrixScreen))


async def test_a_refused_tier_and_one_that_is_not_there_say_so() -> None:
    async with play(frozen.FrozenEngine(), (120, 40)) as stage:
        screen = await opened(stage)
        await stage.press("down", "down")
        await stage.until(lambda: "this host cannot have it: nf_tables cannot be loaded" in told(screen))
        await stage.press("down")
        await stage.until(lambda: "this version does not have it" in told(screen))


async def test_another_way_shows_its_pages_and_no_proof() -> None:
    async with play(frozen.FrozenEngine(), (120, 40)) as stage:
        screen = await opened(stage)
        screen.query_one(MatrixView).select("gvisor")
        await stage.until(lambda: told(screen).startswith("gVisor another way, as its own pages say"))
        assert "https://gvisor.dev/docs/user_guide/runtimemonitor" in told(screen)
        assert "✓" not in told(screen)
        await stage.press("enter")
        await stage.until(lambda: stage.app.screen.focused is screen.query_one("#matrix-told", Document))


@pytest.mark.parametrize("size", SIZES)
async def test_other_products_take_the_tables_place_and_give_it_back(size: tuple[int, int]) -> None:
    async with play(frozen.FrozenEngine(), size) as stage:
        screen = await opened(stage)
        await stage.press("p")
        await stage.shows("Agent Substrate", "OpenHands", "unverified")
        assert "other products" in stage.header()
        screen.query_one(ProjectsView).select("E2B")
        await stage.until(lambda: told(screen).startswith("E2B as its own pages describe it"))
        assert "https://e2b.dev/docs/network/internet-access" in told(screen)
        await stage.press("p")
        await stage.shows("file system")
        assert told(screen).startswith("workspace")


@pytest.mark.parametrize("size", SIZES)
async def test_a_box_shows_its_own_row_and_what_deletes_a_cell(size: tuple[int, int]) -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, size) as stage:
        await stage.until(lambda: stage.app.screen.focused is not None)
        await stage.press("enter")
        await stage.until(lambda: type(stage.app.screen).__name__ == "BoxScreen")
        await stage.press("I")
        await stage.until(lambda: isinstance(stage.app.screen, MatrixScreen) and stage.app.screen.found)
        assert ("matrix", f"{frozen.KEY}/fix-auth") in engine.asked
        screen = stage.app.screen
        assert isinstance(screen, MatrixScreen)
        await stage.until(lambda: "✗ deleted by net.mode = host" in told(screen))
        assert "network the host's ✗ deleted" in told(screen)
        assert "✗ deleted by fs.read = /home/dev/.ssh: gives the box your SSH keys cloche.toml:9" in told(
            screen
        )
        assert "kernel shared, filtered ✓ proved" in told(screen)
        assert "proofs of an earlier run" in stage.header()
        assert "failures injected: hang=process" in stage.header()
        assert not screen.query_one(MatrixView).display


async def test_an_engine_that_fails_says_why() -> None:
    engine = frozen.FrozenEngine()

    def wait(verb: str, ref: str) -> None:
        if verb == "matrix":
            raise Refused("the matrix cannot be shown", "the runtime folder is not yours", "look at it")

    engine.wait = wait
    async with play(engine, (120, 40)) as stage:
        await stage.until(lambda: stage.app.screen.focused is not None)
        await stage.press("I")
        await stage.shows("the matrix cannot be shown: the runtime folder is not yours")


@pytest.mark.parametrize(("width", "columns"), [(60, 4), (77, 4), (117, 5), (150, 7), (300, 7)])
def test_columns_are_dropped_before_they_say_nothing(width: int, columns: int) -> None:
    count, size = shown(7, width)
    assert count == columns
    assert 19 + count * size <= max(width, 19 + count)
