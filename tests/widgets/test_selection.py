"""The cursor stands for lines by side and number, and marks are read back by the same names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.patches import EDITS, Edit, file
from widgets.finder import find
from widgets.patch import ADDED, HUNK, REMOVED, index_patch
from widgets.selection import FILE, LINE, NO_SELECTION, RANGE, LineMarks, mask, masks, select
from widgets.selection import HUNK as WHOLE_HUNK
from widgets.shown import NOTHING_SHOWN, one_column, two_columns

INDEX = index_patch(file([(" ", b"a"), ("-", b"b"), ("-", b"c"), ("+", b"B"), (" ", b"d")]), (b"x.py",))


def test_a_line_in_one_column_is_one_side_and_in_two_columns_both() -> None:
    shown = one_column(INDEX, 1, len(INDEX))
    place = shown.place_of(3)
    assert select(INDEX, shown, LINE, place)[4:7] == ((3,), 1 << 2, 0)
    both = two_columns(INDEX, 1, len(INDEX))
    chosen = select(INDEX, both, LINE, both.place_of(3))
    assert (chosen.old, chosen.new, chosen.lines) == (1 << 2, 1 << 2, 2)
    assert chosen.path == b"x.py"


def test_a_range_a_hunk_its_header_and_a_file_cover_their_lines() -> None:
    shown = one_column(INDEX, 1, len(INDEX))
    header = shown.place_of(1)
    assert INDEX.kinds[1] == HUNK
    chosen = select(INDEX, shown, LINE, header)
    assert (chosen.unit, chosen.old, chosen.new) == (WHOLE_HUNK, 0b1100, 0b100)
    assert select(INDEX, shown, WHOLE_HUNK, shown.place_of(6))[5:7] == (0b1100, 0b100)
    ranged = select(INDEX, shown, LINE, shown.place_of(5), anchor=shown.place_of(4))
    assert (ranged.unit, ranged.old, ranged.new) == (RANGE, 1 << 3, 1 << 2)
    whole = select(INDEX, shown, FILE, 0)
    assert (whole.old, whole.new, whole.whole) == (0b1100, 0b100, True)


def test_a_row_about_the_file_means_the_file_itself() -> None:
    index = index_patch(b"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", (b"x",))
    chosen = select(index, one_column(index, 1, len(index)), LINE, 0)
    assert (chosen.whole, chosen.lines, chosen.path) == (True, 0, b"x")
    assert select(index, NOTHING_SHOWN, LINE, 0) == NO_SELECTION


def test_any_row_of_a_long_line_means_the_line() -> None:
    index = index_patch(file([("+", b"y" * 5000), ("+", b"z")]))
    for row in range(2, 7):
        assert masks(index, (row,)) == (0, 1 << 1)
    assert masks(index, range(len(index))) == (0, 0b110)


@given(EDITS)
def test_selecting_all_is_every_changed_line_and_nothing_else(lines: list[Edit]) -> None:
    index = index_patch(file(lines))
    old, new = masks(index, range(len(index)))
    assert old == sum(1 << index.old[row] for row in range(len(index)) if index.kinds[row] == REMOVED)
    assert new == sum(1 << index.new[row] for row in range(len(index)) if index.kinds[row] == ADDED)


@given(st.sets(st.integers(1, 3000)))
def test_a_mask_has_one_bit_for_each_number(numbers: set[int]) -> None:
    assert mask(sorted(numbers)) == sum(1 << number for number in numbers)


def test_marks_tell_all_from_some_from_none() -> None:
    marks = LineMarks(accepted_old=0b10, accepted_new=0b110, rejected_new=0b1000)
    assert marks.of(0b10, 0b100) == "accepted"
    assert marks.of(0, 0b1000) == "rejected"
    assert marks.of(0, 0b1100) == "mixed"
    assert marks.of(0b100, 0) == ""
    assert marks.of(0, 0) == ""
    assert marks.tally(0b110, 0b11110) == (3, 1, 2)


def test_search_is_literal_and_capitals_count_when_there_are_any() -> None:
    index = index_patch(
        file([(" ", b"Token[0]"), ("-", b"token[0] token[0]"), ("+", b"tokens"), (" ", b"x")])
    )
    assert list(find(index, "token[0]").rows) == [2, 3]
    assert list(find(index, "Token").rows) == [2]
    assert list(find(index, "x.py").rows) == []
    assert list(find(index, "").rows) == []
    found = find(index, "token")
    assert (found.after(2), found.before(2), found.number(3)) == (3, None, 2)


def test_a_match_across_the_rows_of_one_long_line_is_found_where_it_begins() -> None:
    index = index_patch(file([("+", b"y" * 998 + b"needle" + b"y" * 3000 + b"needle")]))
    assert list(find(index, "needle").rows) == [2, 6]
