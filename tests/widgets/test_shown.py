"""Where rows stand: every row once, beside its counterpart, and found again from its place."""

from __future__ import annotations

from hypothesis import given

from tests.widgets.patches import EDITS, Edit, file
from widgets.patch import REMOVED, index_patch
from widgets.shown import NOTHING_SHOWN, blank_changes, one_column, two_columns


@given(EDITS)
def test_every_row_stands_in_one_place_and_is_found_there(lines: list[Edit]) -> None:
    index = index_patch(file(lines))
    for shown in (one_column(index, 1, len(index)), two_columns(index, 1, len(index))):
        rows = sorted(row for place in range(len(shown)) for row in shown.rows_at(place))
        assert rows == list(range(1, len(index)))
        for row in rows:
            assert row in shown.rows_at(shown.place_of(row))


@given(EDITS)
def test_folding_blanks_hides_only_removed_rows_that_stand_again(lines: list[Edit]) -> None:
    index = index_patch(file(lines))
    flags = blank_changes(index, 1, len(index))
    shown = one_column(index, 1, len(index), flags)
    hidden = set(range(1, len(index))) - set(shown.left)
    assert all(index.kinds[row] == REMOVED and flags[row - 1] for row in hidden)
    gone = sorted(b"".join(index.text(row).split()) for row in hidden)
    stand = [row for row in shown.left if flags[row - 1]]
    assert sorted(b"".join(index.text(row).split()) for row in stand) == gone


def test_changes_of_blanks_are_paired_over_other_changes_of_the_block() -> None:
    index = index_patch(
        file(
            [
                ("-", b"if a:"),
                ("-", b"gone"),
                ("-", b"\tb()"),
                ("+", b"if  a:"),
                ("+", b"  b()"),
                ("+", b"new"),
            ]
        )
    )
    assert list(blank_changes(index, 2, len(index))) == [1, 0, 1, 1, 1, 0]


def test_a_line_of_several_rows_is_never_taken_for_a_change_of_blanks() -> None:
    index = index_patch(file([("-", b"x" * 1500 + b" "), ("+", b"x" * 1500)]))
    assert not any(blank_changes(index, 1, len(index)))


def test_nothing_shown_has_no_place() -> None:
    assert len(NOTHING_SHOWN) == 0
    assert NOTHING_SHOWN.place_of(7) == 0
