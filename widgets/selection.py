"""What the cursor stands for (a line, a range, a hunk, a file) and the marks painted on lines. Pure.

Lines are named by side and number, as bit masks: bit ``n`` of ``old`` is line ``n`` of the base that is
removed, bit ``n`` of ``new`` line ``n`` of the snapshot that is added. Numbers survive another context,
another layout and a restart; rows do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from widgets.patch import ADDED, REMOVED, PatchIndex
from widgets.shown import Shown

LINE, RANGE, HUNK, FILE = "line", "range", "hunk", "file"
UNITS = (LINE, HUNK, FILE)
"""What a key steps through; a range is begun and ended by a key of its own."""


class LineMarks(NamedTuple):
    """What was decided of one file, and which of its lines carry a comment; masks as above."""

    accepted_old: int = 0
    accepted_new: int = 0
    rejected_old: int = 0
    rejected_new: int = 0
    noted_old: int = 0
    noted_new: int = 0
    whole: str = ""  # accepted or rejected: the file itself, such as a binary one

    def of(self, old: int, new: int) -> str:
        """The one state of all lines of the masks: accepted, rejected, "" for undecided, or mixed."""
        accepted = (self.accepted_old & old, self.accepted_new & new)
        rejected = (self.rejected_old & old, self.rejected_new & new)
        if accepted == (old, new):
            return "accepted" if old or new else ""
        if rejected == (old, new):
            return "rejected"
        return "mixed" if any(accepted) or any(rejected) else ""

    def noted(self, old: int, new: int) -> bool:
        """A line of the masks carries a comment."""
        return bool(self.noted_old & old or self.noted_new & new)


NO_MARKS = LineMarks()


class Selection(NamedTuple):
    """What a decision would be about."""

    unit: str  # line, range, hunk, file
    path: bytes
    file: int | None  # place in the index
    hunk: int | None
    rows: Sequence[int]  # all rows that it covers, context as well
    old: int
    new: int
    whole: bool  # the file itself is meant: its mode, its name, or content that is no lines

    @property
    def lines(self) -> int:
        """How many changed lines it covers."""
        return self.old.bit_count() + self.new.bit_count()


NO_SELECTION = Selection(LINE, b"", None, None, (), 0, 0, False)


def select(
    index: PatchIndex,
    shown: Shown,
    unit: str,
    place: int,
    anchor: int | None = None,
    known: Selection = NO_SELECTION,
) -> Selection:
    """The selection of the cursor at ``place``; ``anchor`` is where a range was begun. In two columns a line
    is what stands on both sides. ``known`` is one of the same patch: the answer when it is still right."""
    if not len(shown) or not 0 <= place < len(shown):
        return NO_SELECTION
    here = shown.rows_at(place)[-1]
    file, hunk = index.file_at(here), index.hunk_at(here)
    path = index.files[file].path if file is not None else b""
    rows: Sequence[int]
    if unit == LINE and hunk is not None and index.hunks[hunk].first == here:
        unit = HUNK  # its header stands for it
    same = anchor is None and known.unit == unit and known.file == file
    if same and (unit == FILE or (unit == HUNK and hunk is not None and known.hunk == hunk)):
        return known
    if anchor is not None:
        unit = RANGE
        low, high = sorted((max(0, min(anchor, len(shown) - 1)), place))
        if isinstance(shown.left, range):
            rows = shown.left[low : high + 1]
        else:
            rows = sorted({*shown.left[low : high + 1], *shown.right[low : high + 1]} - {-1})
    elif unit == FILE and file is not None:
        rows = range(index.files[file].first, index.files[file].last)
        hunk = None
    elif unit == HUNK and hunk is not None:
        rows = range(index.hunks[hunk].first, index.hunks[hunk].last)
    else:
        unit = LINE
        rows = shown.rows_at(place)
    old, new = masks(index, rows)
    whole = unit == FILE or (unit == LINE and hunk is None and file is not None)
    return Selection(unit, path, file, hunk, rows, old, new, whole)


def masks(index: PatchIndex, rows: Sequence[int]) -> tuple[int, int]:
    """The changed lines among rows; a row that goes on with a long line stands for that line."""
    kinds, sides = index.kinds, (index.old, index.new)
    old = [index.old[row] for row in rows if kinds[row] == REMOVED]
    new = [index.new[row] for row in rows if kinds[row] == ADDED]
    if (old and not min(old)) or (new and not min(new)):  # rows that go on with a long line
        for found, numbers, kind in zip((old, new), sides, (REMOVED, ADDED), strict=True):
            found.clear()
            before = -1
            for row in rows:
                if kinds[row] == kind and (numbers[row] or before != row - 1):
                    found.append(numbers[row] or numbers[begin(index, row)])
                before = row
    return mask(old), mask(new)


def begin(index: PatchIndex, row: int) -> int:
    """The first row of the line that ``row`` is a part of."""
    while row > 0 and not index.old[row] and not index.new[row]:
        row -= 1
    return row


def mask(numbers: Sequence[int]) -> int:
    """The mask of line numbers; linear in the highest, however many there are."""
    if len(numbers) < 8:
        bits = 0
        for number in numbers:
            bits |= 1 << number
        return bits
    digits = bytearray(b"0" * (max(numbers) + 1))
    for number in numbers:
        digits[-1 - number] = 0x31
    return int(digits, 2)
