"""Row numbers in little room: the same numbers as a set of them, sorted."""

from __future__ import annotations

import sys
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets import selection
from widgets.patch import index_patch
from widgets.ranges import Ranges, union
from widgets.selection import RANGE, masks, select
from widgets.shown import two_columns

BLOCKS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8)
Block = tuple[int, int, int]


def sides(blocks: list[Block]) -> tuple[list[int], list[int]]:
    """Columns as of a patch: rows that are the same, then removed beside added ones, -1 where none is."""
    left: list[int] = []
    right: list[int] = []
    row = 0
    for same, gone, came in blocks:
        left += range(row, row + same)
        right += range(row, row + same)
        row += same
        most = max(gone, came)
        left += [*range(row, row + gone), *[-1] * (most - gone)]
        right += [*range(row + gone, row + gone + came), *[-1] * (most - came)]
        row += gone + came
    return left, right


@given(BLOCKS, st.data())
def test_a_stretch_of_two_columns_holds_exactly_the_rows_of_both(
    blocks: list[Block], data: st.DataObject
) -> None:
    columns = sides(blocks)
    size = len(columns[0])
    low = data.draw(st.integers(0, size))
    high = data.draw(st.integers(low, size))
    wanted = sorted({row for side in columns for row in side[low:high]} - {-1})
    found = union(array("i", side[low:high]) for side in columns)
    assert list(found) == wanted and len(found) == len(wanted)
    assert [row for row in range(-1, size + 20) if row in found] == wanted
    assert [found[at] for at in range(-len(wanted), len(wanted))] == wanted * 2
    assert list(found[1:-1]) == wanted[1:-1]


def test_runs_are_compared_by_what_they_hold_and_end_where_they_say() -> None:
    some = Ranges([(1, 3), (5, 6)])
    assert list(some) == [1, 2, 5] and some.pieces == 2 and list(some.runs) == [range(1, 3), range(5, 6)]
    assert some == Ranges([(1, 3), (5, 6)]) != Ranges([(1, 3)]) and hash(some) == hash(
        Ranges([(1, 3), (5, 6)])
    )
    assert 3 not in some and len(Ranges([])) == 0 and some != [1, 2, 5]
    with pytest.raises(IndexError):
        some[3]


def patch(blocks: int) -> bytes:
    rows = b"".join(b" s%d\n-old%d\n-older%d\n+new%d\n" % (n, n, n, n) for n in range(blocks))
    head = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,%d +1,%d @@\n" % (blocks * 3, blocks * 2)
    return head + rows


@pytest.mark.parametrize("few", [0, 16])
def test_a_range_over_two_columns_means_its_lines_whatever_its_shape(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "FEW", few)
    index = index_patch(patch(6), (b"f",))
    shown = two_columns(index, 0, len(index))
    for low in range(len(shown)):
        for high in range(low, len(shown)):
            found = select(index, shown, "line", high, low)
            rows = sorted({*shown.left[low : high + 1], *shown.right[low : high + 1]} - {-1})
            assert found.unit == RANGE and list(found.rows) == rows
            assert (found.old, found.new) == masks(index, rows)


def test_a_range_over_very_many_lines_takes_no_room_for_each() -> None:
    index = index_patch(patch(20_000), (b"f",))
    shown = two_columns(index, 0, len(index))
    found = select(index, shown, "line", len(shown) - 1, 0)
    assert found.rows == range(len(index)) and found.lines == 60_000
    part = select(index, shown, "line", len(shown) - 2, 0)  # the last block only begun
    assert isinstance(part.rows, (range, Ranges)) and sys.getsizeof(part.rows) < 1000
