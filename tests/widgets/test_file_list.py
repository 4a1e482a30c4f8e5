"""The tree of changed files: folders of several files, figures, marks, folding, and any name there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backends.snapshots import CheckRow, FileChange
from tests.widgets.drawn import bench, text_of
from widgets.file_list import FileDone, FileList, tree_rows


def change(path: bytes, status: str = "M", added: int | None = 1, deleted: int | None = 0) -> FileChange:
    return FileChange(path, None, status, 0o100644, 0o100644, "1" * 40, "2" * 40, added, deleted)


CHANGES = (
    change(b"README", "A"),
    change(b"src/a/deep/one.py"),
    change(b"src/a/deep/two.py", added=3, deleted=2),
    change(b"src/b.py", "D", 0, 9),
    change(b"test/only.py"),
)


def test_folders_stand_over_several_files_and_single_ones_keep_their_folders() -> None:
    rows = [(row.depth, row.name, row.files) for row in tree_rows(CHANGES, frozenset())]
    assert rows == [
        (0, b"README", 0),
        (0, b"src/", 3),
        (1, b"a/deep/", 2),
        (2, b"one.py", 0),
        (2, b"two.py", 0),
        (1, b"b.py", 0),
        (0, b"test/only.py", 0),
    ]


def test_a_folded_folder_says_the_sum() -> None:
    rows = tree_rows(CHANGES, {b"src/"})
    assert [row.name for row in rows] == [b"README", b"src/", b"test/only.py"]
    assert (rows[1].added, rows[1].deleted) == (4, 11)


@given(
    st.lists(
        st.lists(st.sampled_from([b"a", b"b", b"a.b", b"\xff", b""]), min_size=1, max_size=5), max_size=20
    )
)
def test_every_file_has_one_row_in_order_and_names_spell_the_path(parts: list[list[bytes]]) -> None:
    changes = [change(path) for path in sorted({b"/".join(part) for part in parts})]
    rows = tree_rows(changes, frozenset())
    assert [row.file for row in rows if not row.files] == list(range(len(changes)))
    above: dict[int, bytes] = {}
    for row in rows:
        said = above.get(row.depth - 1, b"") if row.depth else b""
        assert said + row.name == row.path
        if row.files:
            above[row.depth] = row.path
            assert all(c.path.startswith(row.path) for c in changes[row.file : row.file + row.files])


def test_a_tree_of_thousands_of_folders_is_no_deep_recursion() -> None:
    changes = [change(b"a/" * n + b"f") for n in range(1, 1500)]
    assert sum(not row.files for row in tree_rows(sorted(changes, key=lambda c: c.path), frozenset())) == 1499


async def test_folding_walking_and_marking() -> None:
    view = FileList()
    async with bench(view, (60, 12)) as pilot:
        view.set_files(CHANGES, (CheckRow("x", "warn", "look", b"src/b.py"),))
        view.set_suspects({1: (2, "bidi")})
        view.set_decided(
            {
                b"README": FileDone(1, 0, 0, comments=2),
                b"src/b.py": FileDone(0, 4, 0, blocked=True),
                b"src/a/deep/two.py": FileDone(3, 0, 2),
            }
        )
        shown = text_of(view)
        assert shown[0].endswith("+1 -0 ✓ “2")
        assert shown[3].startswith("  !")  # holds characters that are not what they seem
        assert shown[4].endswith("+3 -2 ✓3 ○2")
        assert shown[5].startswith("  !")
        await pilot.press("down")
        assert view.file is None
        await pilot.press("enter")
        assert [row.name for row in view.rows] == [b"README", b"src/", b"test/only.py"]
        assert text_of(view)[1].startswith("  ! ▸ src/")
        view.step_file(1)
        assert view.change is CHANGES[4]
        view.select_file(2)
        assert view.change is CHANGES[2]
        assert len(view.rows) == 7
        assert view.here == (b"src/a/deep/two.py",)
        await pilot.press("g", "down")
        assert view.here == tuple(change.path for change in CHANGES[1:4])
        view.set_reviewed(set(view.here))
        view.step_unread()
        assert view.change is CHANGES[4]


async def test_what_nobody_wrote_by_hand_is_folded_and_says_so() -> None:
    view = FileList()
    async with bench(view, (60, 12)):
        bulk = {b"src/a/deep/one.py": "generated", b"src/a/deep/two.py": "vendored", b"README": "generated"}
        view.set_bulk(bulk)
        view.set_files(CHANGES, ())
        assert [row.name for row in view.rows] == [b"README", b"src/", b"a/deep/", b"b.py", b"test/only.py"]
        shown = text_of(view)
        assert shown[0].startswith("    A README  ") and shown[0].endswith(" gen +1 -0")
        assert shown[2].strip().startswith("▸ a/deep/")
        view.set_decided({change.path: FileDone(1, 0, 0) for change in CHANGES})
        assert text_of(view)[2].endswith("✓")
        view.set_decided({CHANGES[1].path: FileDone(1, 0, 0)})
        assert text_of(view)[2].endswith("±")
        view.select_file(1)
        assert view.change is CHANGES[1]
        assert len(view.rows) == 7
