"""The diff view answers keys whatever it holds (kind U3), and shows outside text as text."""

from __future__ import annotations

import time
import tracemalloc

from tests.widgets.drawn import bench, text_of
from tests.workbench.frozen import CHANGES, PATCH
from widgets.diff_view import DiffView
from widgets.patch import index_patch

PATHS = tuple(change.path for change in CHANGES)


async def test_unified_below_120_columns_and_side_by_side_from_there() -> None:
    view = DiffView()
    async with bench(view, (100, 40)) as pilot:
        view.set_index(index_patch(PATCH, PATHS))
        assert not view.sides
        assert any("117       -     if (t.expired) rotate()" in row for row in text_of(view))
        await pilot.resize_terminal(140, 40)
        await pilot.pause()
        assert view.sides
        row = next(row for row in text_of(view) if "rotate()" in row)
        left, _, right = row.partition("│")
        assert "117 -     if (t.expired) rotate()" in left
        assert "117 +     if (t.expired) await rotateSingleFlight(t, 60)" in right


async def test_one_file_is_shown_alone_and_hunks_are_stepped_through() -> None:
    view = DiffView()
    async with bench(view, (100, 8)) as pilot:
        view.set_index(index_patch(PATCH, PATHS), file=0)
        assert view.hunk == 0
        view.step_hunk(1)
        await pilot.pause()
        assert view.hunk == 1
        view.step_hunk(1)
        await pilot.pause()
        assert view.hunk == 1
        view.show_file(1)
        assert text_of(view)[0].strip("▌ ") == "new file mode 100644"
        assert text_of(view)[1].split() == ["-0,0", "+1,4"]
        assert len([row for row in text_of(view) if row.strip()]) == 6


async def test_a_hundred_thousand_lines_open_at_once_and_every_key_is_answered() -> None:
    body = b"".join(b"%c    call_%d(self, 'abc', %d)\n" % (b" -+"[n % 3], n, n) for n in range(99_999))
    patch = b"diff --git a/x.py b/x.py\n@@ -1,66666 +1,66666 @@\n" + body
    index = index_patch(patch, (b"x.py",))
    view = DiffView()
    async with bench(view, (120, 40)) as pilot:
        start = time.process_time()
        view.set_index(index)
        await pilot.pause()
        assert time.process_time() - start < 20.0
        tracemalloc.start()
        slowest = 0.0
        for key in ("G", "pageup", "pageup", "g", "pagedown", "down", "G", "right", "left"):
            start = time.process_time()
            await pilot.press(key)
            await pilot.pause()
            slowest = max(slowest, time.process_time() - start)
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert slowest < 10.0
        assert grown < 20_000_000
        await pilot.press("G")
        await pilot.pause()
        assert "call_99998" in text_of(view)[-1]


async def test_a_five_megabyte_line_is_read_page_by_page() -> None:
    patch = b"diff --git a/x.min.js b/x.min.js\n@@ -0,0 +1 @@\n+" + b"var a='x';" * 500_000 + b"END\n"
    view = DiffView()
    async with bench(view, (100, 30)) as pilot:
        view.set_index(index_patch(patch, (b"x.min.js",)))
        await pilot.pause()
        start = time.process_time()
        await pilot.press("pagedown", "pagedown", "right", "left", "G")
        await pilot.pause()
        assert time.process_time() - start < 20.0
        assert text_of(view)[-1].endswith(" END")
        await pilot.press(*["right"] * 120)
        await pilot.pause()
        assert text_of(view)[-2].endswith("var a='x';")


async def test_control_characters_are_visible_and_carriage_returns_too() -> None:
    body = b"+ok\r\n+\x1b]52;c;aGk=\x07\n+\xc2\x9b31m\xff\n"
    view = DiffView()
    async with bench(view, (100, 20)):
        view.set_index(
            index_patch(b"diff --git a/x.py b/x.py\n@@ -0,0 +1,3 @@\n" + body, (b"src/[id]/p\x1b.py",))
        )
        shown = "\n".join(text_of(view))
        assert "ok\\r" in shown
        assert "\\x1b]52;c;aGk=\\x07" in shown
        assert "\\x9b31m\\xff" in shown
        assert "src/[id]/p\\x1b.py" in shown
        assert "\x1b" not in shown


async def test_a_live_diff_that_grew_keeps_the_place_of_the_reader() -> None:
    def patch(count: int) -> bytes:
        return b"diff --git a/x b/x\n@@ -0,0 +1,%d @@\n" % count + b"".join(
            b"+%d\n" % n for n in range(count)
        )

    view = DiffView()
    async with bench(view, (80, 10)) as pilot:
        view.set_index(index_patch(patch(100)))
        await pilot.press("pagedown", "pagedown")
        await pilot.pause()
        top = text_of(view)[0]
        view.set_index(index_patch(patch(150)))
        await pilot.pause()
        assert text_of(view)[0] == top


async def test_nothing_to_read_is_said() -> None:
    view = DiffView()
    async with bench(view):
        assert text_of(view)[0] == "no changes"
        view.set_index(index_patch(b"diff --git a/x b/x\n"), file=0)
        assert text_of(view)[0] == "nothing to read in this file"
