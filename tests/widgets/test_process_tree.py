"""The process tree: guides, folding, holding, and selection by pid and start time (kind U4)."""

from __future__ import annotations

import time

import pytest

from backends.snapshots import ProcessId, ProcessRow
from tests.widgets.drawn import bench, text_of
from tests.workbench.frozen import AGENT, process
from widgets.ink import plain, width_of
from widgets.process_tree import ProcessTree, layout, process_line


def test_guides_show_which_rows_are_siblings() -> None:
    rows = [
        process(1, 0, "a"),
        process(2, 1, "b"),
        process(3, 2, "c"),
        process(4, 1, "d"),
        process(5, 0, "e"),
    ]
    assert [row.guide for row in layout(rows, set())] == ["", "├─", "│ └─", "└─", ""]


def test_a_folded_row_counts_what_it_hides() -> None:
    rows = [process(1, 0, "a"), process(2, 1, "b"), process(3, 2, "c"), process(4, 0, "d")]
    shown = layout(rows, {rows[0].ident})
    assert [(row.process.ident.pid, row.hidden) for row in shown] == [(1, 2), (4, 0)]


@pytest.mark.parametrize("width", [12, 20, 33, 34, 44, 72, 150])
def test_a_row_takes_exactly_its_room(width: int) -> None:
    for row in layout(AGENT, set()):
        assert width_of(process_line(row, width)) == width


async def test_selection_follows_the_process_and_a_vanished_one_gives_no_target() -> None:
    view = ProcessTree()
    async with bench(view) as pilot:
        view.set_processes(AGENT)
        await pilot.press("down", "down")
        target = AGENT[2].ident
        assert view.process is not None
        assert view.process.ident == target
        view.set_processes((process(3999, 0, "new"), *AGENT))
        assert view.process.ident == target
        view.set_processes(tuple(row for row in AGENT if row.ident != target))
        assert view.process is None
        assert view.lost
        assert "selected process ended" in text_of(view)[0]


async def test_the_same_pid_with_another_start_is_another_process() -> None:
    view = ProcessTree()
    async with bench(view):
        view.set_processes((process(77, 0, "victim"),))
        assert view.process is not None
        again = process(77, 0, "stranger")
        view.set_processes((again._replace(ident=ProcessId(77, again.ident.start + 5)),))
        assert view.process is None


async def test_hold_keeps_the_view_still_while_the_box_goes_on() -> None:
    view = ProcessTree()
    async with bench(view) as pilot:
        view.set_processes(AGENT)
        await pilot.press("z")
        view.set_processes(AGENT[:1])
        assert len(view.rows) == len(AGENT)
        assert "HELD" in text_of(view)[0]
        await pilot.press("z")
        assert len(view.rows) == 1


async def test_follow_selects_the_busiest() -> None:
    view = ProcessTree()
    async with bench(view) as pilot:
        view.set_processes(AGENT)
        await pilot.press("f")
        assert view.process is not None
        assert view.process.ident.pid == 4011
        busy = AGENT[5]._replace(cpu=99.0)
        view.set_processes((*AGENT[:5], busy))
        assert view.process.ident == busy.ident


async def test_fold_and_unfold_by_key() -> None:
    view = ProcessTree()
    async with bench(view) as pilot:
        view.set_processes(AGENT)
        await pilot.press("space")
        assert len(view.rows) == 1
        assert "+5" in text_of(view)[1]
        await pilot.press("space")
        assert len(view.rows) == 6


async def test_two_thousand_rows_refresh_in_a_fraction_of_the_period() -> None:
    view = ProcessTree()
    async with bench(view, (120, 40)) as pilot:
        spent = []
        for tick in range(6):
            rows: list[ProcessRow] = [
                process(n, n % 5, f"python worker-{n}", cpu=(n * 7 + tick * 13) % 100) for n in range(1, 2001)
            ]
            start = time.process_time()
            view.set_processes(tuple(rows))
            await pilot.pause()
            spent.append(time.process_time() - start)
        # Two refreshes a second are due, so half of the period at most; measured 15 ms here.
        assert sorted(spent)[len(spent) // 2] < 0.25


def test_a_stopped_process_is_told_by_its_letter() -> None:
    row = layout([process(1, 0, "sleep 9", state="T")], set())[0]
    assert plain(process_line(row, 40)).startswith("· T sleep 9")
