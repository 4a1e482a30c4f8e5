"""Searching a patch: the rows that hold a text. Pure; one pass over the bytes, whatever the lines' length."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from widgets.patch import FILE, PatchIndex


class Found(NamedTuple):
    """The rows that hold ``needle``, from first to last."""

    needle: str
    rows: array[int]

    def after(self, row: int) -> int | None:
        """The next row beyond ``row``, ``None`` at the end."""
        place = bisect_right(self.rows, row)
        return self.rows[place] if place < len(self.rows) else None

    def before(self, row: int) -> int | None:
        """The last row before ``row``, ``None`` at the beginning."""
        place = bisect_left(self.rows, row)
        return self.rows[place - 1] if place else None

    def number(self, row: int) -> int:
        """How many matching rows there are up to ``row``, itself included."""
        return bisect_right(self.rows, row)


NOT_FOUND = Found("", array("i"))


def find(index: PatchIndex, needle: str) -> Found:
    """The rows in which ``needle`` begins, as literal text; capitals count when it has any (ASCII ones)."""
    rows = array("i")
    if not needle:
        return NOT_FOUND
    wanted = needle.encode("utf-8", "surrogateescape")
    pattern = re.compile(re.escape(wanted), 0 if needle != needle.lower() else re.IGNORECASE)
    place = 0
    while (match := pattern.search(index.patch, place)) is not None:
        row = index.row_of(match.start())
        if row < 0:
            place = match.start() + 1
            continue
        if index.kinds[row] != FILE:  # its text is git's header; the name is in the list of files
            rows.append(row)
        place = index.offsets[row] + index.sizes[row]
        if place <= match.start():
            place = match.start() + 1
    return Found(needle, rows)
