"""Which rows of a patch stand where: in one column or two, changes of nothing but blanks folded or not. Pure.

A place is a line of the view; a row is one of :class:`widgets.patch.PatchIndex`. Two columns show the removed
and the added rows of one block beside each other.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from widgets.patch import ADDED, REMOVED, PatchIndex

COMMON = 0
"""Nothing said of the row."""
BLANKS = 1
"""The row and its counterpart differ in blanks only."""


class Shown(NamedTuple):
    """The rows at each place: ``left`` and ``right`` are the same where a row spans the view; -1 is none."""

    left: Sequence[int]
    right: Sequence[int]
    sides: bool
    first: int = 0
    places: array[int] | None = None  # of two columns: the place of each row from ``first`` on

    def __len__(self) -> int:
        return len(self.left)

    def rows_at(self, place: int) -> tuple[int, ...]:
        """The rows drawn at a place: one, or one of each side."""
        left, right = self.left[place], self.right[place]
        if left == right:
            return (left,)
        return tuple(row for row in (left, right) if row >= 0)

    def place_of(self, row: int) -> int:
        """Where a row is drawn; the nearest place when it is folded away. 0 when nothing is shown."""
        size = len(self.left)
        if not size:
            return 0
        if self.places is not None:
            return self.places[max(0, min(row - self.first, len(self.places) - 1))]
        if isinstance(self.left, range):
            return max(0, min(row - self.left.start, size - 1))
        return min(bisect_left(self.left, row), size - 1)


NOTHING_SHOWN = Shown(range(0), range(0), False)


def one_column(index: PatchIndex, first: int, last: int, blanks: bytes = b"") -> Shown:
    """The rows ``first`` to ``last``; of pairs that ``blanks`` marks, only the new side."""
    if not blanks:
        rows = range(first, last)
        return Shown(rows, rows, False)
    kinds = index.kinds
    kept = array(
        "i", (row for row in range(first, last) if not (blanks[row - first] and kinds[row] == REMOVED))
    )
    return Shown(kept, kept, False)


def two_columns(index: PatchIndex, first: int, last: int) -> Shown:
    """Removed and added rows of one block beside each other; other rows span both columns."""
    left, right, places = array("i"), array("i"), array("i")
    kinds = index.kinds
    place = first
    while place < last:
        kind = kinds[place]
        start = place
        if kind not in (ADDED, REMOVED):
            while place < last and kinds[place] not in (ADDED, REMOVED):
                place += 1
            places.extend(range(len(left), len(left) + place - start))
            left.extend(range(start, place))
            right.extend(range(start, place))
            continue
        while place < last and kinds[place] == REMOVED:
            place += 1
        middle = place
        while place < last and kinds[place] == ADDED:
            place += 1
        gone, came = middle - start, place - middle
        places.extend(range(len(left), len(left) + gone))
        places.extend(range(len(left), len(left) + came))
        left.extend(range(start, middle))
        right.extend(range(middle, place))
        if gone > came:
            right.extend([-1] * (gone - came))
        elif came > gone:
            left.extend([-1] * (came - gone))
    return Shown(left, right, True, first, places)


def blank_changes(index: PatchIndex, first: int, last: int) -> bytes:
    """Which rows change nothing but blanks, one byte each (:data:`BLANKS`). Within a block each added line is
    paired with the next removed line that is equal without its blanks; a line of several rows never is."""
    found = bytearray(last - first)
    kinds = index.kinds
    place = first
    while place < last:
        if kinds[place] != REMOVED:
            place += 1
            continue
        start = place
        while place < last and kinds[place] == REMOVED:
            place += 1
        middle = place
        while place < last and kinds[place] == ADDED:
            place += 1
        wanted: dict[bytes, list[int]] = {}
        for row in range(middle - 1, start - 1, -1):
            wanted.setdefault(_bare(index, row, last), []).append(row)
        at = start
        for row in range(middle, place):
            rows = wanted.get(_bare(index, row, last), [])
            while rows and rows[-1] < at:
                rows.pop()
            if rows:
                at = rows.pop() + 1
                found[at - 1 - first] = found[row - first] = BLANKS
    return bytes(found)


def _bare(index: PatchIndex, row: int, last: int) -> bytes:
    folded = not (index.old[row] or index.new[row])
    goes_on = (
        row + 1 < last
        and index.kinds[row + 1] == index.kinds[row]
        and not (index.old[row + 1] or index.new[row + 1])
    )
    if folded or goes_on:
        return b"\n%d" % row  # equal to no other
    return b"".join(index.text(row).split())
