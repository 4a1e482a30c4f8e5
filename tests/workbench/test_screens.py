"""Screens on frozen values: what each shows and where each key leads."""

from __future__ import annotations

import pytest
from textual.screen import ModalScreen

from app.screens.box import BoxScreen
from app.screens.dialogs import ConfirmScreen, ErrorScreen
from app.screens.fleet import FleetScreen
from app.screens.fleet_parts import neighbour, pane_grid, row_heights
from app.screens.new_box import NewBoxScreen
from app.screens.review import ReviewScreen
from backends.snapshots import CheckRow
from tests.workbench import frozen
from tests.workbench.stage import play
from widgets.diff_view import DiffView
from widgets.file_list import FileList
from widgets.pane import BoxPane
from widgets.process_tree import ProcessTree

SIZES = [(80, 24), (120, 40), (200, 50)]


@pytest.mark.parametrize("size", SIZES)
async def test_the_fleet_shows_each_box_with_tree_denials_diff_and_last_words(size: tuple[int, int]) -> None:
    async with play(frozen.FrozenEngine(), size) as stage:
        await stage.shows("fix-auth", "claude --resume", "denied 17", "+182 -40", "FAIL src/auth.test.ts (3)")
        assert stage.header().startswith("cloche  shop  5 boxes  2 live  3 need you")
        assert "? help" in stage.footer()


async def test_arrows_move_between_panes_and_enter_opens() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("right", "down", "left")
        assert isinstance(stage.app.focused, BoxPane)
        assert stage.app.focused.row.name == "docs-tour"
        await stage.press("enter")
        assert isinstance(stage.app.screen, BoxScreen)
        assert stage.app.screen.row.name == "docs-tour"
        await stage.press("escape")
        assert isinstance(stage.app.screen, FleetScreen)


async def test_panes_cycle_tree_denials_diff_output() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await stage.shows("claude --resume")
        await stage.press("c")
        await stage.shows("fs-read", "/home/dev/.ssh/id_ed25519", "not observed")
        await stage.press("c")
        await stage.shows("+     const t = await loadOnce()")
        await stage.press("c")
        await stage.shows("Tests: 3 failed, 41 passed")
        await stage.press("c")
        await stage.shows("npm test")


async def test_the_table_keeps_the_selected_box_and_goes_back() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("right", "v")
        screen = stage.app.screen
        assert isinstance(screen, FleetScreen)
        assert screen.table.selected is not None
        assert screen.table.selected.name == "deps-bump"
        await stage.press("down", "v")
        assert isinstance(stage.app.focused, BoxPane)
        assert stage.app.focused.row.name == "docs-tour"


async def test_the_filter_narrows_and_escape_clears_it() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await stage.shows("fix-auth")
        await stage.press("slash")
        await stage.type("unconf")
        await stage.shows("no box matches “unconf”")
        await stage.press(*["backspace"] * 6)
        await stage.type("workspace")
        await stage.until(lambda: "fix-auth" not in stage.text())
        assert "try-esm" in stage.text()
        await stage.press("enter", "escape")
        await stage.shows("fix-auth")


async def test_w_goes_to_the_boxes_that_need_a_person() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        seen = []
        for _ in range(4):
            await stage.press("w")
            assert isinstance(stage.app.focused, BoxPane)
            seen.append(stage.app.focused.row.name)
        assert seen == ["deps-bump", "docs-tour", "bench-io", "deps-bump"]


@pytest.mark.parametrize("size", SIZES)
async def test_the_box_screen_has_every_tab(size: tuple[int, int]) -> None:
    async with play(frozen.FrozenEngine(), size) as stage:
        await stage.shows("fix-auth")
        await stage.press("enter")
        await stage.shows("fleet › fix-auth", "claude --resume", "telemetry.example:443", "Time:  9.31 s")
        await stage.press("2")
        await stage.shows("async refresh(): Promise<Token>")
        await stage.press("3")
        await stage.shows("no terminal is open here")
        await stage.press("4")
        await stage.shows("session-exit")
        await stage.press("5")
        await stage.shows("Where do package scripts execute?")


async def test_kill_names_the_process_starts_on_no_and_hits_the_identity_it_named() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await stage.press("enter")
        await stage.until(lambda: stage.app.screen.query_one(ProcessTree).process is not None)
        await stage.press("down", "down", "K")
        await stage.shows("Kill 4011", "node /work/node_modules/.bin/jest --watch")
        await stage.press("enter")
        assert engine.asked == []
        await stage.press("K", "right", "enter")
        await stage.until(lambda: engine.asked)
        assert engine.asked == [("kill", (frozen.FLEET[0].key, frozen.AGENT[2].ident, 9))]


async def test_kill_of_a_process_that_vanished_does_nothing_and_says_so() -> None:
    engine = frozen.FrozenEngine()
    row = frozen.FLEET[0]
    async with play(engine) as stage:
        await stage.press("enter")
        tree = stage.app.screen.query_one(ProcessTree)
        await stage.until(lambda: tree.process is not None)
        await stage.press("down", "down")
        rest = tuple(process for process in frozen.AGENT if process.ident.pid != 4011)
        engine.views[row.key] = engine.view(row.key)._replace(processes=rest)
        await stage.until(lambda: tree.lost)
        await stage.press("K")
        await stage.shows("that process has ended; select another")
        assert not isinstance(stage.app.screen, ConfirmScreen)
        assert engine.asked == []


async def test_a_refresh_between_key_and_answer_does_not_change_the_target() -> None:
    engine = frozen.FrozenEngine()
    row = frozen.FLEET[0]
    async with play(engine) as stage:
        await stage.press("enter")
        tree = stage.app.screen.query_one(ProcessTree)
        await stage.until(lambda: tree.process is not None)
        await stage.press("down", "K")
        await stage.shows("Kill 4010")
        engine.views[row.key] = engine.view(row.key)._replace(
            processes=(frozen.process(9, 0, "stranger"), *frozen.AGENT)
        )
        await stage.until(lambda: len(tree.rows) == 7)
        await stage.press("right", "enter")
        await stage.until(lambda: engine.asked)
        assert engine.asked[0][1][1] == frozen.AGENT[1].ident


async def test_stop_asks_and_tells() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("X")
        await stage.shows("Stop fix-auth", "Ends all 6 processes")
        await stage.press("escape")
        assert engine.asked == []
        await stage.press("X", "right", "enter")
        await stage.shows("fix-auth: stopped, no process is left")
        assert engine.asked == [("stop", (frozen.FLEET[0].key,))]


async def test_remove_of_a_live_box_wants_its_name() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("D")
        await stage.shows("Remove fix-auth", "It is live")
        await stage.press("right", "enter")
        assert isinstance(stage.app.screen, ConfirmScreen)
        assert engine.asked == []
        await stage.type("fix-auth")
        await stage.press("enter", "enter")
        await stage.until(lambda: engine.asked)
        assert engine.asked == [("remove", (frozen.FLEET[0].key, True))]


async def to_gate(stage: object) -> ReviewScreen:
    from tests.workbench.stage import Play

    assert isinstance(stage, Play)
    await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
    await stage.press("w", "w", "E")
    await stage.until(lambda: isinstance(stage.app.screen, ReviewScreen))
    screen = stage.app.screen
    assert isinstance(screen, ReviewScreen)
    await stage.until(lambda: screen.review is not None)
    return screen


@pytest.mark.parametrize("size", SIZES)
async def test_the_gate_shows_files_diff_evidence_and_verdicts(size: tuple[int, int]) -> None:
    async with play(frozen.FrozenEngine(), size) as stage:
        await to_gate(stage)
        await stage.shows("src/auth/refresh.ts", ".github/workflows/x.yml", "ci-file", "loadOnce()")
        assert "! 2 warn  ✗ 0 refuse" in stage.text()


async def test_the_gate_is_walked_by_file_and_hunk_and_marks_what_was_read() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        screen = await to_gate(stage)
        diff, files = screen.query_one(DiffView), screen.query_one(FileList)
        await stage.press("l")
        assert diff.hunk == 1
        await stage.press("h")
        assert diff.hunk == 0
        await stage.press("J")
        await stage.shows("runs-on: ubuntu-latest")
        await stage.press("K", "m")
        assert files.reviewed == {b"src/auth/refresh.ts"}
        assert files.selected is not None
        assert files.selected.path == b".github/workflows/x.yml"
        assert "1 reviewed" in stage.text()
        before = diff.sides
        await stage.press("d")
        assert diff.sides is not before


@pytest.mark.parametrize("keys", [(), ("X",), ("question_mark",), ("ctrl+p",), ("n",), ("w", "w", "E", "P")])
async def test_the_key_that_leaves_counts_in_every_dialog(keys: tuple[str, ...]) -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        for key in keys:
            if key == "P":
                await stage.shows("Evidence", "loadOnce()")
            await stage.press(key)
        if keys:
            await stage.until(lambda: isinstance(stage.app.screen, ModalScreen))
        await stage.press("ctrl+q")
        assert stage.app._exit
        assert engine.asked == []


async def test_what_the_gate_refuses_can_be_neither_exported_nor_applied() -> None:
    engine = frozen.FrozenEngine()
    engine.checks = (*frozen.CHECKS, CheckRow("nested-git", "refuse", "a nested repository", b"x/.git"))
    async with play(engine) as stage:
        screen = await to_gate(stage)
        for key in ("P", "E"):
            await stage.press(key)
            assert stage.app.screen is screen
        await stage.shows("the gate refuses this result")
        assert engine.asked == []


async def test_export_asks_for_a_folder_and_names_what_it_wrote() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await to_gate(stage)
        await stage.press("E")
        await stage.shows("Export docs-tour", "patch.diff, report.md and receipt.json")
        await stage.press("enter", "enter")
        await stage.until(lambda: engine.asked)
        verb, (_, out, force) = engine.asked[0]
        assert (verb, out.name, force) == ("export", "docs-tour-export", False)
        await stage.shows("patch.diff, report.md, receipt.json in")


async def test_reopen_leaves_the_gate() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await to_gate(stage)
        await stage.press("O")
        await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))
        assert engine.asked == [("reopen", (frozen.FLEET[2].key,))]


@pytest.mark.parametrize("size", SIZES)
async def test_a_new_box_begins_with_the_question_and_names_the_tier_that_answers(
    size: tuple[int, int],
) -> None:
    async with play(frozen.FrozenEngine(), size) as stage:
        await stage.press("n")
        await stage.shows("What must not happen?", "something roams my files", "Make the box")
        await stage.press("down", "down")
        await stage.shows("tier process · profile default", "filesystem allowlist", "shared kernel")
        await stage.shows("✓ proved, start 18 ms", "a box started")
        await stage.press("down")
        await stage.shows("✗ refused: the packet filter is loaded", "modprobe -a nf_tables")
        await stage.press("up", "up")
        await stage.shows("nothing confines the process: it runs as you")


async def test_a_refused_box_keeps_the_dialog_and_shows_what_why_and_next() -> None:
    engine = frozen.FrozenEngine()
    async with play(engine) as stage:
        await stage.press("n", "down", "down", "enter")
        await stage.type("try-it")
        await stage.press(*["enter"] * 4, "tab", "enter")
        await stage.shows("no box was made", "this engine is frozen", "use the real one")
        assert isinstance(stage.app.screen, ErrorScreen)
        request = engine.asked[0][1][1]
        assert (request.name, request.tier, request.rev, request.empty) == (
            "try-it",
            "process",
            "HEAD",
            False,
        )
        await stage.press("enter")
        assert isinstance(stage.app.screen, NewBoxScreen)


async def test_outside_a_repository_every_box_is_listed_and_a_new_one_can_be_empty() -> None:
    engine = frozen.FrozenEngine()
    engine.repository_key = None
    async with play(engine) as stage:
        await stage.until(lambda: "every repository" in stage.header())
        await stage.press("n")
        await stage.shows("clone")
        screen = stage.app.screen
        assert isinstance(screen, NewBoxScreen)
        assert screen.request().empty


async def test_without_boxes_the_fleet_says_what_to_do() -> None:
    async with play(frozen.FrozenEngine(())) as stage:
        await stage.shows("no boxes in this repository", "n makes one")


async def test_the_palette_offers_actions_and_boxes_and_says_why_not() -> None:
    async with play(frozen.FrozenEngine(), (120, 90)) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("ctrl+p")
        await stage.shows(
            "Make a box: which failure must not happen?", "not now: processes still run", "open try-esm"
        )
        await stage.type("open bench")
        await stage.until(lambda: "Make a box" not in stage.text())
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, BoxScreen))
        assert isinstance(stage.app.screen, BoxScreen)
        assert stage.app.screen.row.name == "bench-io"


async def test_help_comes_from_every_screen_and_leaves_again() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("question_mark")
        await stage.shows("Open a shell in the box")
        await stage.press("escape", "enter", "question_mark")
        await stage.shows("End the selected process, by identity")
        await stage.press("escape")
        assert isinstance(stage.app.screen, BoxScreen)


async def test_enter_on_a_record_shows_all_that_is_known() -> None:
    async with play(frozen.FrozenEngine()) as stage:
        await stage.press("enter", "4")
        await stage.shows("session-exit")
        await stage.press("enter")
        await stage.shows("Record 8", "peak_rss")
        await stage.press("escape")
        assert isinstance(stage.app.screen, BoxScreen)


async def test_the_policy_tab_says_where_each_value_comes_from() -> None:
    async with play(frozen.FrozenEngine(), (120, 50)) as stage:
        await stage.press("enter", "5")
        await stage.shows("Where each value comes from", "cloche.toml:12")


async def test_a_pane_of_a_box_at_rest_shows_its_changes() -> None:
    async with play(frozen.FrozenEngine((frozen.FLEET[2],))) as stage:
        await stage.shows("frozen: waiting for review", "const t = await loadOnce()")


@pytest.mark.parametrize(
    ("width", "height", "count", "grid"),
    [
        (80, 22, 1, (1, 22)),
        (80, 22, 3, (1, 11)),
        (80, 22, 30, (1, 11)),
        (120, 38, 5, (2, 12)),
        (200, 48, 3, (3, 48)),
        (200, 48, 24, (3, 9)),
        (40, 8, 2, (1, 9)),
        (300, 78, 0, (1, 78)),
    ],
)
def test_panes_fill_the_screen_and_stay_readable(
    width: int, height: int, count: int, grid: tuple[int, int]
) -> None:
    assert pane_grid(width, height, count) == grid


@pytest.mark.parametrize(
    ("height", "columns", "lines", "count", "heights"),
    [(38, 2, 12, 5, "13 13 12"), (48, 3, 24, 5, "24 24"), (22, 1, 11, 5, "11"), (22, 1, 22, 1, "22")],
)
def test_rows_that_fit_take_all_of_the_height(
    height: int, columns: int, lines: int, count: int, heights: str
) -> None:
    assert row_heights(height, columns, lines, count) == heights


@pytest.mark.parametrize(("size", "count"), [((120, 40), 2), ((120, 40), 5), ((200, 50), 2), ((200, 50), 5)])
async def test_few_panes_leave_no_part_of_the_screen_empty(size: tuple[int, int], count: int) -> None:
    async with play(frozen.FrozenEngine(frozen.FLEET[:count]), size) as stage:
        await stage.shows("fix-auth", "loadOnce()")
        panes = list(stage.app.screen.query(BoxPane))
        assert max(pane.region.bottom for pane in panes) == size[1] - 1  # down to the footer
        bottom = [pane for pane in panes if pane.region.bottom == size[1] - 1]
        assert max(pane.region.right for pane in bottom) == max(pane.region.right for pane in panes)


async def test_a_tall_pane_shows_tree_output_and_changes() -> None:
    async with play(frozen.FrozenEngine(frozen.FLEET[:1]), (120, 50)) as stage:
        await stage.shows("claude --resume", "Tests: 3 failed, 41 passed", "const t = await loadOnce()")


@pytest.mark.parametrize(
    ("place", "key", "columns", "count", "there"),
    [
        (0, "down", 2, 3, 2),
        (1, "down", 2, 3, 2),  # the last pane fills its row
        (2, "down", 2, 3, None),
        (2, "up", 2, 3, 0),
        (1, "right", 2, 3, 2),
        (2, "right", 2, 3, None),
        (0, "left", 2, 3, None),
        (2, "down", 3, 4, 3),
        (0, "down", 1, 2, 1),
        (0, "down", 3, 3, None),
        (0, "x", 2, 3, None),
    ],
)
def test_arrow_keys_lead_to_the_pane_that_is_seen_there(
    place: int, key: str, columns: int, count: int, there: int | None
) -> None:
    assert neighbour(place, key, columns, count) == there
