"""Lists select things, not places (kind U4)."""

from __future__ import annotations

from typing import NamedTuple

from tests.widgets.drawn import bench, text_of
from widgets.ink import Line, line
from widgets.lines import Document, RowView


class Thing(NamedTuple):
    name: str
    value: int


class Things(RowView[Thing]):
    def key_of(self, row: Thing) -> str:
        return row.name

    def row_line(self, index: int, row: Thing, width: int) -> Line:
        return line(f"{row.name} {row.value}")

    def empty_line(self) -> Line:
        return line("none")


def things(names: str, value: int = 0) -> list[Thing]:
    return [Thing(name, value) for name in names]


async def test_selection_follows_its_row_through_a_refresh() -> None:
    view = Things()
    async with bench(view) as pilot:
        view.set_rows(things("abcd"))
        await pilot.press("down", "down")
        assert view.selected == Thing("c", 0)
        view.set_rows(things("xcab", 7))
        assert view.selected == Thing("c", 7)
        assert view.index == 1


async def test_a_vanished_row_selects_nothing_until_the_person_moves() -> None:
    view = Things()
    async with bench(view) as pilot:
        view.set_rows(things("abcd"))
        await pilot.press("down")
        view.set_rows(things("acd"))
        assert view.selected is None
        assert view.lost
        await pilot.press("enter")
        await pilot.press("down")
        assert view.selected == Thing("d", 0)
        assert not view.lost


async def test_a_row_that_comes_back_is_selected_again() -> None:
    view = Things()
    async with bench(view) as pilot:
        view.set_rows(things("ab"))
        await pilot.press("down")
        view.set_rows(things("a"))
        assert view.selected is None
        view.set_rows(things("ab"))
        assert view.selected == Thing("b", 0)


async def test_the_cursor_stays_in_sight_and_keys_reach_both_ends() -> None:
    view = Things()
    async with bench(view, (40, 10)) as pilot:
        view.set_rows([Thing(f"r{n}", n) for n in range(500)])
        await pilot.press("G")
        await pilot.pause()
        assert view.selected == Thing("r499", 499)
        assert text_of(view)[-1] == "r499 499"
        await pilot.press("g", "pagedown")
        await pilot.pause()
        assert view.selected == Thing("r9", 9)
        assert "r9 9" in text_of(view)


async def test_an_empty_list_says_so_and_takes_keys() -> None:
    view = Things()
    async with bench(view) as pilot:
        view.set_rows([])
        await pilot.press("down", "enter", "G")
        assert view.selected is None
        assert text_of(view)[0] == "none"


async def test_rows_above_do_not_move_what_is_looked_at() -> None:
    view = Things()
    async with bench(view, (40, 10)) as pilot:
        view.set_rows([Thing(f"r{n}", n) for n in range(100)])
        for _ in range(50):
            await pilot.press("down")
        await pilot.pause()
        place = text_of(view).index("r50 50")
        view.set_rows([Thing(f"new{n}", n) for n in range(20)] + [Thing(f"r{n}", n) for n in range(100)])
        await pilot.pause()
        assert text_of(view).index("r50 50") == place


async def test_a_document_wraps_to_its_width_again_when_that_changes() -> None:
    view = Document()
    async with bench(view, (30, 10)) as pilot:
        view.set_paragraphs([line("one two three four five six seven eight")], indent=2)
        await pilot.pause()
        assert text_of(view)[:2] == ["one two three four five six", "  seven eight"]
        await pilot.resize_terminal(60, 10)
        await pilot.pause()
        assert text_of(view)[:1] == ["one two three four five six seven eight"]
