"""Saying something in the gate by keys: comments under their lines, and a summary."""

from __future__ import annotations

import pytest

from app.screens.comments import CommentsScreen, Listed
from app.screens.writing import WriteScreen
from tests.workbench import frozen
from tests.workbench.deciding import TS, YML, gate, write
from tests.workbench.frozen_desk import FrozenDesk
from tests.workbench.test_screens import SIZES


@pytest.mark.parametrize("size", SIZES)
async def test_a_comment_stands_under_its_line_and_is_changed_and_deleted(size: tuple[int, int]) -> None:
    async with gate(size) as found:
        await found.press("l", "c")
        await write(found, "wait for [red]whom[/]?", "ctrl+s")
        await found.settled()
        (comment,) = found.kept.comments
        assert (comment.path, comment.side, comment.line) == (TS, "new", 162)
        assert comment.quote == "   return t.expires < Date.now()".removeprefix(" ")
        rows = [row.split("││")[-1] for row in found.stage.text().split("\n")]
        place = next(number for number, row in enumerate(rows) if "return t.expires" in row)
        assert "┃" in rows[place + 1] and comment.who in rows[place + 1]
        assert "┃ wait for [red]whom[/]?" in rows[place + 2]
        await found.press("c")
        await write(found, " And why?", "escape")  # the first escape only leaves the text
        assert isinstance(found.stage.app.screen, WriteScreen)
        await found.press("enter")
        await found.settled()
        assert found.kept.comments[0].text == "wait for [red]whom[/]? And why?"
        await found.press("c")
        await write(found, "", "escape")
        assert found.kept.comments[0].text == "wait for [red]whom[/]? And why?"
        await found.press("c")
        await found.stage.until(lambda: isinstance(found.stage.app.screen, WriteScreen))
        found.stage.app.screen.query_one("#delete").focus()
        await found.press("enter")
        await found.settled()
        assert found.kept.comments == ()
        assert "┃" not in found.stage.text()


async def test_comments_do_not_move_the_cursor_off_its_line_nor_hide_rows() -> None:
    async with gate((100, 24)) as found:
        await found.press("l", "h", "down", "down")
        for _ in range(3):
            row = found.diff.row
            await found.press("c")
            await write(found, "a\nb\nc", "ctrl+s")
            await found.settled()
            assert found.diff.row == row
            await found.press("down")
        seen = []
        await found.press("g")
        for _ in range(len(found.diff.shown)):
            seen.append(found.diff.row)
            y = found.diff.notes.line_of(found.diff.place) - found.diff.scroll_offset.y
            assert found.diff.render_line(y).text.startswith("▌")
            await found.press("down")
        assert seen == list(found.diff.shown.left)


async def test_a_comment_of_a_file_that_changed_is_shown_above_it_and_listed() -> None:
    engine = frozen.FrozenEngine()
    desk = FrozenDesk(engine, "anna")
    desk.comment(TS, "new", 116, "load it once", b"    const t = await loadOnce()")
    desk.comment(YML, "new", 0, "is this needed?")
    changed = frozen.CHANGES[0]._replace(new_oid="7" * 40)
    engine.diff = frozen.DIFF._replace(tree="8" * 40, changes=(changed, *frozen.CHANGES[1:]))
    async with gate((140, 40), engine=engine) as found:
        await found.stage.shows("the file has changed since anna", "line 116: const t = await loadOnce()")
        assert found.diff.render_line(0).text.startswith("  ┃")
        await found.press("L")
        await found.stage.until(lambda: isinstance(found.stage.app.screen, CommentsScreen))
        await found.stage.shows("changed since", "load it once", "is this needed?")
        await found.press("down", "enter")
        await found.stage.until(lambda: found.files.change is engine.diff.changes[1])
        await found.stage.shows("┃ is this needed?")
        await found.press("L", "x")
        assert len(found.kept.comments) == 2  # asked for once more
        await found.press("x")
        await found.stage.until(lambda: len(found.kept.comments) == 1)
        assert len(found.stage.app.screen.query_one(Listed).rows) == 1
        await found.press("escape")
        await found.settled()
        assert "load it once" not in found.stage.text()


async def test_a_summary_is_kept_changed_and_deleted_and_an_empty_text_is_none() -> None:
    async with gate() as found:
        await found.press("C")
        await write(found, "   ", "ctrl+s")
        await found.stage.shows("nothing is written")
        await write(found, "good", "ctrl+s")
        await found.settled()
        assert found.kept.summary == "   good"
        await found.press("C")
        await write(found, "x" * 70_000, "ctrl+s")
        await found.stage.shows("the text has 70007 bytes, and 65536 are kept")
        await found.press("escape", "escape")
        await found.press("C")
        await found.stage.until(lambda: isinstance(found.stage.app.screen, WriteScreen))
        found.stage.app.screen.query_one("#delete").focus()
        await found.press("enter")
        await found.settled()
        assert found.kept.summary == ""
