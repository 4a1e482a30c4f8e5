"""Reading a proposal in the gate: tree, search, context, what is no text, the editor, the whole screen."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from app.screens.review import ReviewScreen
from backends.engine import Engine, NewBox
from backends.errors import Refused
from backends.snapshots import FileChange
from tests import support
from tests.workbench import frozen
from tests.workbench.stage import Play, play
from tests.workbench.test_screens import SIZES, to_gate
from widgets.diff_view import DiffView
from widgets.file_list import FileList

NEW = b"\n".join(b"line %d" % n for n in range(1, 170)) + b"\n"
PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 640, 480) + b"\x08\6\0\0\0"
LOGO = (
    b"diff --git a/logo.png b/logo.png\nnew file mode 100644\nGIT binary patch\n"
    b"literal 3\nzab\n\nliteral 0\nHcmV\n\n"
)


def engine() -> frozen.FrozenEngine:
    made = frozen.FrozenEngine()
    change = FileChange(b"logo.png", None, "A", 0, 0o100644, "0" * 40, "6" * 40, None, None)
    made.diff = frozen.DIFF._replace(changes=(*frozen.CHANGES, change), patch=frozen.PATCH + LOGO)
    made.blobs = {"2" * 40: NEW, "6" * 40: PNG}
    return made


def parts(stage: Play) -> tuple[ReviewScreen, DiffView, FileList]:
    screen = stage.app.screen
    assert isinstance(screen, ReviewScreen)
    return screen, screen.query_one(DiffView), screen.query_one(FileList)


async def test_search_finds_goes_to_other_files_and_gives_the_keys_back() -> None:
    async with play(engine()) as stage:
        await to_gate(stage)
        screen, diff, files = parts(stage)
        await stage.press("slash")
        assert stage.app.screen.query_one("#search", Input).has_focus
        await stage.type("1.0.")
        await stage.press("enter")
        await stage.until(lambda: files.file == 2)
        await stage.shows("1 of 2 with “1.0.”")
        assert diff.index.text(diff.row) == b'  "version": "1.0.0",'
        assert stage.app.screen.focused == diff
        await stage.press("n")
        assert diff.index.text(diff.row) == b'  "version": "1.0.1",'
        await stage.press("N", "N")
        await stage.shows("2 of 2 with “1.0.”")
        await stage.press("slash")
        await stage.press("escape")
        assert stage.app.screen is screen
        assert stage.app.screen.focused == diff


async def test_hunks_are_stepped_through_from_file_to_file() -> None:
    async with play(engine()) as stage:
        await to_gate(stage)
        _, diff, files = parts(stage)
        seen = []
        for key in ("l", "l", "l", "l", "h", "h", "h"):
            await stage.press(key)
            await stage.pilot.pause()
            seen.append((files.file, diff.hunk))
        assert seen == [(0, 1), (1, 2), (2, 3), (2, 3), (1, 2), (0, 1), (0, 0)]


async def test_more_and_less_context_come_from_the_file_and_keep_the_place() -> None:
    async with play(engine()) as stage:
        await to_gate(stage)
        _, diff, _ = parts(stage)
        diff.focus()
        await stage.press(*["down"] * 7)
        chosen = diff.selection.new
        assert chosen == 1 << 116
        await stage.press("right_curly_bracket")
        await stage.shows("context 10", "line 106")
        assert diff.selection.new == chosen
        await stage.press("right_curly_bracket", "right_curly_bracket")
        await stage.shows("whole file", "hunk 1/1")
        await stage.press(*["left_curly_bracket"] * 4)
        await stage.shows("context 1")
        assert diff.selection.new == chosen
        assert "line 106" not in stage.text()
        await stage.press("J")
        await stage.shows("runs-on: ubuntu-latest", "context 1")
        await stage.press("K", "right_curly_bracket")
        await stage.until(lambda: "context" not in str(diff.border_subtitle))


@pytest.mark.parametrize("size", SIZES)
async def test_an_image_is_described_and_never_decoded(size: tuple[int, int]) -> None:
    async with play(engine(), size) as stage:
        await to_gate(stage)
        await stage.press("J", "J", "J")
        await stage.shows(
            "binary: its bytes are no lines", "no file", "PNG image", "640 × 480", "sha256 after"
        )


async def test_a_file_that_cannot_be_read_says_so_in_its_place() -> None:
    made = engine()

    def refuse(verb: str, ref: str) -> None:
        if verb == "blob":
            raise Refused("the file is too large to be read here", "it has 40,000,000 bytes", "export it")

    made.wait = refuse
    async with play(made) as stage:
        await to_gate(stage)
        await stage.press("J", "J", "J")
        await stage.shows("the file is too large to be read here: it has 40,000,000 bytes")


async def test_the_editor_gets_a_copy_at_the_line_of_the_cursor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[list[str]] = []

    @contextmanager
    def lent() -> Iterator[None]:
        yield

    def edit(argv: list[str], environ: Any) -> int:
        seen.append(argv)
        assert Path(argv[-1]).read_bytes() == NEW
        return 3

    (tmp_path / "vim").write_text("")
    (tmp_path / "vim").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("EDITOR", "vim")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setattr("app.screens.reading.edit", edit)
    async with play(engine()) as stage:
        await to_gate(stage)
        _, diff, _ = parts(stage)
        monkeypatch.setattr(stage.app, "suspend", lent)
        diff.focus()
        await stage.press(*["down"] * 7, "e")
        await stage.until(lambda: seen)
        assert seen[0][-2] == "+116"
        copy = Path(seen[0][-1])
        assert copy.name == "read-only-refresh.ts"
        await stage.shows("the editor ended with 3")
        await stage.press("escape")
        await stage.until(lambda: not copy.exists())


async def test_a_terminal_that_cannot_be_lent_is_said() -> None:
    async with play(engine()) as stage:
        await to_gate(stage)
        await stage.press("e")
        await stage.shows("this terminal cannot be lent to an editor")


async def test_the_diff_takes_the_whole_screen_and_escape_ends_a_range_first() -> None:
    async with play(engine()) as stage:
        screen = await to_gate(stage)
        _, diff, _ = parts(stage)
        width = diff.size.width
        await stage.press("l", "F")
        await stage.shows("hunk 2/2 · hunk of 1 changed line · unified")
        assert diff.size.width > width
        assert stage.app.screen.focused == diff
        assert "Evidence" not in stage.text()
        await stage.press("down", "v", "down", "down")
        await stage.shows("range of")
        await stage.press("escape")
        assert stage.app.screen is screen
        assert diff.selection.unit == "line"
        await stage.press("F", "escape")
        assert stage.app.screen is not screen


@pytest.mark.real
@pytest.mark.flow
async def test_what_a_real_box_made_is_read_by_kind(repo: Path, home: Any) -> None:
    made = Engine(repo)
    key = made.create(NewBox(name="kinds", tier="process")).key
    script = (
        "mkdir -p src/deep; printf 'a = 1\\n' > src/deep/one.py; "
        "printf 'p\\320\\260ypal = 2\\n' > src/deep/two.py; "
        "printf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\rIHDR\\0\\0\\0\\020\\0\\0\\0\\010' > logo.png; "
        "ln -s /etc/passwd link; : > empty; yes 'row = 1' | head -n 100000 > long.py"
    )
    support.run(support.cloche_argv("run", "kinds", "--", "sh", "-c", script), cwd=repo)
    support.wait_until(lambda: made.view(key).row.state == "idle", "the box is idle")
    made.propose(key)
    review = made.review(key)
    oids = {change.path: change.new_oid for change in review.diff.changes}
    assert made.blob(key, oids[b"src/deep/two.py"]) == "p\u0430ypal = 2\n".encode()
    with pytest.raises(Refused):
        made.blob(key, "HEAD:long.py")
    async with play(made, (160, 50), cwd=repo) as stage:
        await stage.until(lambda: stage.app.focused is not None)
        await stage.press("E")
        await stage.until(lambda: isinstance(stage.app.screen, ReviewScreen))
        await stage.shows("src/deep/", "two.py")
        screen, diff, files = parts(stage)
        await stage.until(lambda: screen.review is not None)
        places = {change.path: place for place, change in enumerate(files.changes)}
        for path, words in (
            (b"logo.png", "16 × 8"),
            (b"link", "a symbolic link"),
            (b"empty", "empty"),
            (b"src/deep/two.py", "p\\u0430ypal = 2"),
            (b"long.py", "row = 1"),
        ):
            files.select_file(places[path])
            await stage.shows(words)
        diff.focus()
        await stage.press("G")
        await stage.shows("100000 +")
        await stage.press("v", "g")
        await stage.shows("range of 100000 changed lines")
