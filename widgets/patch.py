"""A patch as rows that can be drawn: where each line lies in the bytes, its number on both sides, its hunk.

Only offsets are kept beside the patch itself; text is decoded when a row is drawn. A line longer than
:data:`LONGEST` is folded into several rows, so that a 5 MB line is read page by page like any other and
nothing of it is hidden from the reviewer.
"""

from __future__ import annotations

import re
from array import array
from typing import NamedTuple

LONGEST = 1000
"""Bytes of one row."""

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")

# Kinds of rows, one byte each in ``PatchIndex.kinds``.
META, FILE, HUNK, SAME, ADDED, REMOVED, NOTE, REST = b"mfh +-n."


_SAID_ELSEWHERE = (b"index ", b"--- ", b"+++ ")
"""Header lines that repeat the name or give object ids: they are in the export, not on the screen."""


class Hunk(NamedTuple):
    first: int  # row of the @@ line
    last: int  # row after the hunk's last
    file: int  # place in the list of files


class FileRows(NamedTuple):
    path: bytes
    first: int
    last: int


class PatchIndex(NamedTuple):
    """The rows of one patch. Parallel arrays: a hundred thousand rows cost two megabytes."""

    patch: bytes
    kinds: bytes
    offsets: array[int]
    sizes: array[int]
    old: array[int]  # line number before, 0 where there is none
    new: array[int]
    hunks: tuple[Hunk, ...]
    files: tuple[FileRows, ...]

    def __len__(self) -> int:
        return len(self.kinds)

    def text(self, row: int) -> bytes:
        """The bytes of a row, without the sign of its first column and without the line end."""
        start = self.offsets[row]
        return self.patch[start : start + self.sizes[row]]

    def hunk_at(self, row: int) -> int | None:
        """The hunk that the row lies in, by bisection; ``None`` outside hunks."""
        low, high = 0, len(self.hunks)
        while low < high:
            middle = (low + high) // 2
            if self.hunks[middle].last <= row:
                low = middle + 1
            else:
                high = middle
        if low < len(self.hunks) and self.hunks[low].first <= row:
            return low
        return None


EMPTY = PatchIndex(b"", b"", array("Q"), array("I"), array("I"), array("I"), (), ())


class _Rows:
    def __init__(self) -> None:
        self.kinds = bytearray()
        self.offsets = array("Q")
        self.sizes = array("I")
        self.old = array("I")
        self.new = array("I")

    def add(self, kind: int, start: int, end: int, old: int, new: int, patch: bytes) -> None:
        while True:
            stop = end
            if end - start > LONGEST:
                stop = start + LONGEST
                while stop > start + LONGEST - 4 and patch[stop] & 0xC0 == 0x80:
                    stop -= 1  # not within a UTF-8 sequence
            self.kinds.append(kind)
            self.offsets.append(start)
            self.sizes.append(stop - start)
            self.old.append(old)
            self.new.append(new)
            if stop == end:
                return
            start, old, new = stop, 0, 0


def index_patch(patch: bytes, paths: tuple[bytes, ...] = ()) -> PatchIndex:
    """Rows of a patch as git-diff(1) prints it. ``paths`` are the names of its files in order; without them
    the names of the ``diff --git`` lines stand in. Only ``\\n`` ends a line."""
    rows = _Rows()
    hunks: list[Hunk] = []
    files: list[FileRows] = []
    left = right = old = new = 0
    hunk_start = -1
    place = 0
    size = len(patch)
    while place < size:
        end = patch.find(b"\n", place)
        if end < 0:
            end = size
        first = patch[place] if end > place else 0
        here = len(rows.kinds)
        if left > 0 or right > 0:
            if first == REMOVED:
                rows.add(REMOVED, place + 1, end, old, 0, patch)
                old, left = old + 1, left - 1
            elif first == ADDED:
                rows.add(ADDED, place + 1, end, 0, new, patch)
                new, right = new + 1, right - 1
            elif first == 0x5C:  # "\ No newline at end of file"
                rows.add(NOTE, place, end, 0, 0, patch)
            else:
                rows.add(SAME, min(place + 1, end), end, old, new, patch)
                old, new, left, right = old + 1, new + 1, left - 1, right - 1
        elif patch.startswith(b"@@ ", place) and (match := _HUNK.match(patch, place)):
            _close(hunks, hunk_start, here, len(files) - 1)
            hunk_start = here
            old, new = int(match[1]), int(match[3])
            left = int(match[2]) if match[2] is not None else 1
            right = int(match[4]) if match[4] is not None else 1
            rows.add(HUNK, place, end, 0, 0, patch)
        elif patch.startswith(b"diff --git ", place):
            _close(hunks, hunk_start, here, len(files) - 1)
            hunk_start = -1
            if files:
                files[-1] = files[-1]._replace(last=here)
            number = len(files)
            name = paths[number] if number < len(paths) else _name(patch[place:end])
            files.append(FileRows(name, here, here))
            rows.add(FILE, place, end, 0, 0, patch)
        else:
            if first == 0x5C:
                rows.add(NOTE, place, end, 0, 0, patch)
            elif not patch.startswith(_SAID_ELSEWHERE, place):
                rows.add(META, place, end, 0, 0, patch)
        place = end + 1
    total = len(rows.kinds)
    _close(hunks, hunk_start, total, len(files) - 1)
    if files:
        files[-1] = files[-1]._replace(last=total)
    return PatchIndex(
        patch, bytes(rows.kinds), rows.offsets, rows.sizes, rows.old, rows.new, tuple(hunks), tuple(files)
    )


def _close(hunks: list[Hunk], start: int, end: int, file: int) -> None:
    if start >= 0:
        hunks.append(Hunk(start, end, file))


def _name(header: bytes) -> bytes:
    return header.rpartition(b" b/")[2] or header


def pair_rows(index: PatchIndex) -> tuple[array[int], array[int]]:
    """Rows for two columns: for each drawn row the index of its left and right row, -1 for none; a row that
    spans both columns stands in both. Removed and added rows of one block stand beside each other."""
    left = array("q")
    right = array("q")
    kinds = index.kinds
    place = 0
    total = len(kinds)
    while place < total:
        kind = kinds[place]
        if kind not in (ADDED, REMOVED):
            left.append(place)
            right.append(place)
            place += 1
            continue
        start = place
        while place < total and kinds[place] == REMOVED:
            place += 1
        middle = place
        while place < total and kinds[place] == ADDED:
            place += 1
        for step in range(max(middle - start, place - middle)):
            left.append(start + step if start + step < middle else -1)
            right.append(middle + step if middle + step < place else -1)
    return left, right


def differing(old: str, new: str) -> tuple[int, int, int]:
    """What two versions of a line share: length of the common head, and where the differing part ends in
    each. Linear, so any line may be compared."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, len(old) - tail, len(new) - tail
