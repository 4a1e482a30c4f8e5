"""The cursor of the diff: what it stands for, what is painted on lines, searched, copied and folded."""

from __future__ import annotations

import time
from typing import Any

from textual.app import ComposeResult
from textual.message import Message

from tests.widgets.drawn import Bench, bench, text_of
from tests.widgets.patches import file
from tests.workbench.frozen import CHANGES, PATCH
from widgets.diff_rows import AS_IT_IS, DRAWN, FOLDED
from widgets.diff_view import COPIED, DiffView
from widgets.ink import line
from widgets.patch import ADDED, SAME, index_patch
from widgets.selection import LineMarks, Selection

PATHS = tuple(change.path for change in CHANGES)
INDEX = index_patch(PATCH, PATHS)


class Listening(Bench):
    """Keeps what the view says."""

    def __init__(self, view: DiffView) -> None:
        super().__init__(view)
        self.said: list[Message] = []
        self.told: list[bool] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_diff_view_selected(self, event: DiffView.Selected) -> None:
        self.said.append(event)

    def on_diff_view_hunk_seen(self, event: DiffView.HunkSeen) -> None:
        self.told.append(event.view.sides)

    def on_diff_view_elsewhere(self, event: DiffView.Elsewhere) -> None:
        self.said.append(event)

    def last(self) -> Selection:
        return next(event.selection for event in reversed(self.said) if isinstance(event, DiffView.Selected))


async def test_the_cursor_tells_lines_ranges_hunks_and_files_by_number() -> None:
    app = Listening(DiffView())
    async with app.run_test(size=(100, 30)) as pilot:
        view: Any = app.widget
        view.set_index(INDEX, file=0)
        await pilot.press(*["down"] * 5)
        assert (app.last().unit, app.last().old, app.last().new) == ("line", 1 << 116, 0)
        await pilot.press("v", "down", "down")
        assert (app.last().unit, app.last().old, app.last().new) == ("range", 1 << 116 | 1 << 117, 1 << 116)
        await pilot.press("v", "a")
        assert (app.last().unit, app.last().lines, app.last().hunk) == ("hunk", 8, 0)
        await pilot.press("a")
        assert (app.last().unit, app.last().lines, app.last().path) == ("file", 9, b"src/auth/refresh.ts")
        await pilot.press("a")
        assert app.last().unit == "line"
        assert sum(row.startswith("▌") for row in text_of(view)) == 1


async def test_a_click_moves_the_cursor_and_pages_keep_it_in_sight() -> None:
    app = Listening(DiffView())
    async with app.run_test(size=(100, 10)) as pilot:
        view: Any = app.widget
        view.set_index(INDEX, file=0)
        await pilot.click(view, offset=(10, 7))
        assert app.last().new == 1 << 116
        for key in ("pagedown", "pageup", "G", "g", "down", "end"):
            await pilot.press(key)
            await pilot.pause()
            assert text_of(view)[view.place - view.scroll_offset.y].startswith("▌")


async def test_marks_are_painted_by_side_and_number_in_both_layouts() -> None:
    view = DiffView()
    async with bench(view, (140, 30)) as pilot:
        view.set_index(INDEX, file=0)
        view.set_marks(
            {
                b"src/auth/refresh.ts": LineMarks(
                    accepted_old=1 << 116, accepted_new=1 << 116, rejected_new=1 << 119
                )
            }
        )
        await pilot.press("G")
        row = next(row for row in text_of(view) if "loadOnce" in row)
        left, _, right = row.partition("│")
        assert (left[1], right[1]) == ("✓", "✓")
        assert text_of(view)[0][1] == "±"  # the hunk is decided in part
        view.set_split(False)
        await pilot.pause()
        signs = {row.split("+ ")[-1].strip(): row[1] for row in text_of(view) if "+ " in row}
        assert signs["const t = await loadOnce()"] == "✓"
        assert signs["this.pending = null"] == "✗"
        assert signs["// a second caller waits for the first one's answer"] == " "
        assert signs["if (t.expired) await rotateSingleFlight(t, 60)"] == " "


async def test_a_file_without_lines_carries_one_mark_and_its_description() -> None:
    view = DiffView()
    async with bench(view, (100, 12)):
        patch = b"diff --git a/x b/x\nGIT binary patch\nliteral 3\nabc\n\nliteral 2\nab\n\n"
        view.set_index(index_patch(patch, (b"x",)), file=0)
        view.set_description([(), line("PNG image")])
        view.set_marks({b"x": LineMarks(parts={"content": "rejected"}, one=True)})
        assert text_of(view)[0] == "▌✗  binary: its bytes are no lines"
        assert text_of(view)[2] == "  PNG image"
        assert view.selection.whole
        assert "literal" not in "\n".join(text_of(view))


async def test_search_steps_over_files_that_are_not_shown() -> None:
    app = Listening(DiffView())
    async with app.run_test(size=(100, 30)) as pilot:
        view: Any = app.widget
        view.set_index(INDEX, file=0)
        assert view.search("version")
        await pilot.pause()
        where = next(event for event in app.said if isinstance(event, DiffView.Elsewhere))
        assert (where.file, INDEX.text(where.row)) == (2, b'  "version": "1.0.0",')
        view.show_file(2)
        view.go_to_row(where.row)
        assert view.row == where.row
        assert view.step_found(1)
        assert INDEX.text(view.row) == b'  "version": "1.0.1",'
        assert view.step_found(-1)
        assert view.row == where.row
        assert not view.search("no such text [")
        assert view.search("")
        assert not view.step_found(1)


async def test_blanks_are_drawn_and_changes_of_nothing_else_folded() -> None:
    view = DiffView()
    async with bench(view, (100, 12)) as pilot:
        view.set_index(
            index_patch(
                file([("-", b"\tif a: "), ("-", b"b"), ("+", b"    if a:"), ("+", b"c")]), (b"x.txt",)
            ),
            file=0,
        )
        assert view.blanks == AS_IT_IS
        await pilot.press("w")
        assert view.blanks == DRAWN
        assert "- →   if·a:·" in text_of(view)[1]
        assert "+ ····if·a:" in text_of(view)[3]
        await pilot.press("w")
        assert view.blanks == FOLDED
        assert [row[13:].strip() for row in text_of(view)[1:4]] == ["- b", "~     if a:", "+ c"]
        await pilot.press("w")
        assert len([row for row in text_of(view) if row.strip()]) == 5


async def test_what_is_not_what_it_seems_is_flagged_written_out_and_gone_to() -> None:
    text = "    if \u0430dmin: # \u202e".encode()
    view = DiffView()
    async with bench(view, (100, 12)) as pilot:
        view.set_index(index_patch(file([("+", b"ok"), ("+", b"ok"), ("+", text)]), (b"x.py",)), file=0)
        assert "!+     if \\u0430dmin: # \\u202e" in text_of(view)[3]
        await pilot.press("u")
        assert view.selection.new == 1 << 3


async def test_copying_takes_the_lines_without_signs_and_nothing_that_a_terminal_obeys() -> None:
    app = Bench(DiffView())
    async with app.run_test(size=(100, 12)) as pilot:
        view: Any = app.widget
        view.set_index(
            index_patch(
                file([("-", b"old"), ("+", b"\tnew\x1b[201~;rm\r"), ("+", b"\xff\xc2\x9b")]), (b"x",)
            ),
            file=0,
        )
        await pilot.press("a", "y")
        assert app.clipboard == "old\n\tnew\\x1b[201~;rm\\r\n\\xff\\x9b"
        view.set_index(index_patch(file([("+", b"y" * 900)] * 200), (b"x",)), file=0)
        text, count, whole = view.copied_text()
        assert len(text.encode()) <= COPIED
        assert (count, whole) == (72, False)


async def test_another_context_keeps_the_cursor_on_its_line() -> None:
    view = DiffView()
    async with bench(view, (100, 12)) as pilot:
        view.set_index(INDEX, file=0)
        await pilot.press(*["down"] * 8)
        chosen = view.selection.new
        assert chosen == 1 << 117
        wide = PATCH.replace(b"@@ -112,14 +112,16 @@", b"@@ -111,15 +111,17 @@").replace(
            b"  private token", b"  // before\n   private token", 1
        )
        view.set_index(index_patch(wide, PATHS), file=0, keep=True)
        assert view.selection.new == chosen


async def test_another_width_keeps_the_cursor_on_its_row_and_tells_the_layout() -> None:
    app = Listening(DiffView())
    async with app.run_test(size=(100, 12)) as pilot:
        view: Any = app.widget
        view.set_index(INDEX, file=0)
        await pilot.press("l", *["down"] * 14)
        row, told = view.row, len(app.told)
        assert INDEX.kinds[row] in (SAME, ADDED)
        await pilot.resize_terminal(140, 12)
        await pilot.pause()
        assert (view.sides, view.row) == (True, row)
        assert len(app.told) > told
        await pilot.resize_terminal(100, 12)
        await pilot.pause()
        assert (view.sides, view.row) == (False, row)


async def test_long_lines_move_sideways_on_both_sides_while_numbers_stand_still() -> None:
    view = DiffView()
    async with bench(view, (130, 8)) as pilot:
        view.set_index(
            index_patch(file([("-", b"a" * 100 + b"OLD"), ("+", b"b" * 100 + b"NEW")]), (b"x",)), file=0
        )
        assert view.sides
        await pilot.press(*["right"] * 7)
        row = text_of(view)[1]
        left, _, right = row.partition("│")
        assert left[2:10] == "    1 - "
        assert left.rstrip().endswith("OLD")
        assert right.rstrip().endswith("NEW")


async def test_all_of_a_hundred_thousand_lines_are_selected_as_masks() -> None:
    count = 100_000
    patch = b"diff --git a/x b/x\n@@ -0,0 +1,%d @@\n" % count + b"+line\n" * count
    view = DiffView()
    async with bench(view, (100, 30)) as pilot:
        view.set_index(index_patch(patch, (b"x",)), file=0)
        await pilot.press("v", "G")
        assert view.selection.lines == count
        assert all(row.startswith("▌") for row in text_of(view))
        assert view.end_range()
        assert view.selection.lines == 1


async def test_many_hunks_and_many_files_leave_the_keys_answered() -> None:
    count = 20_000
    patch = b"".join(
        b"diff --git a/d%d/f%d b/d%d/f%d\n@@ -1 +1 @@\n-\xd0\xb0dmin\n+admin %d\n" % (n % 50, n, n % 50, n, n)
        for n in range(count)
    )
    view = DiffView()
    async with bench(view, (140, 40)) as pilot:
        view.set_index(index_patch(patch))
        view.set_marks({b"d%d/f%d" % (n % 50, n): LineMarks(accepted_new=2) for n in range(0, count, 2)})
        slowest = 0.0
        for key in ("G", "g", "pagedown", "v", "G", "v", "a", "a", "u", "w", "w", "w", "g"):
            start = time.process_time()
            await pilot.press(key)
            await pilot.pause()
            slowest = max(slowest, time.process_time() - start)
        assert view.step_hunk(1)
        assert view.search("admin 19999")
        assert slowest < 20.0
        assert view.selection.path == b"d49/f19999"
