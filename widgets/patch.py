"""A patch as rows that can be drawn: where each line lies in the bytes, its number on both sides, its hunk.

Only offsets are kept beside the patch itself; text is decoded when a row is drawn. A line longer than
:data:`LONGEST` is folded into several rows, so that a 5 MB line is read page by page like any other and
nothing of it is hidden from the reviewer.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate, repeat
from operator import add, mul, sub
from typing import NamedTuple

LONGEST = 1000
"""Bytes of one row."""

_AFTER = re.compile(rb"\n(?![ +\-\\\n])")
_OLD = bytes(byte not in b"+\\" for byte in range(256))
_NEW = bytes(byte not in b"-\\" for byte in range(256))
_KIND = bytes(
    {0x5C: ord("n"), ord("-"): ord("-"), ord("+"): ord("+")}.get(byte, ord(" ")) for byte in range(256)
)
_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")

# Kinds of rows, one byte each in ``PatchIndex.kinds``.
META, FILE, HUNK, SAME, ADDED, REMOVED, NOTE, REST = b"mfh +-n."


_SAID_ELSEWHERE = (b"index ", b"--- ", b"+++ ")
"""Header lines that repeat the name or give object ids: they are in the export, not on the screen."""


class Hunk(NamedTuple):
    first: int  # row of the @@ line
    last: int  # row after the hunk's last
    file: int  # place in the list of files


def _first(hunk: Hunk) -> int:
    return hunk.first


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

    def file_at(self, row: int) -> int | None:
        """The file that the row lies in, by bisection; ``None`` outside files."""
        low, high = 0, len(self.files)
        while low < high:
            middle = (low + high) // 2
            if self.files[middle].last <= row:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self.files) and self.files[low].first <= row else None

    def hunks_in(self, first: int, last: int) -> range:
        """The places of the hunks that begin within these rows, by bisection."""
        start = bisect_left(self.hunks, first, key=_first)
        return range(start, bisect_left(self.hunks, last, lo=start, key=_first))

    def row_of(self, offset: int) -> int:
        """The row that holds a byte of the patch; -1 for bytes that are in no row (signs, line ends)."""
        row = bisect_right(self.offsets, offset) - 1
        return row if row >= 0 and offset < self.offsets[row] + self.sizes[row] else -1

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

    def add_hunk(self, patch: bytes, start: int, old: tuple[int, int], new: tuple[int, int]) -> int:
        """Adds the lines of a hunk whose first begins at ``start``, all at once; ``old`` and ``new`` are the
        first line and the number of lines on each side. Returns where the hunk ends, or -1, with nothing
        added, when its lines are not as its header says or one of them must be folded."""
        found = _AFTER.search(patch, start - 1)  # every line of a hunk has a sign
        end = found.start() + 1 if found is not None else len(patch)
        lines = patch[start : end - (end > start and patch[end - 1] == 0x0A)].split(b"\n")
        sizes = array("I", map(len, lines))
        if max(sizes) > LONGEST:
            return -1
        signs = b"".join([line[:1] or b" " for line in lines])
        left, right = signs.translate(_OLD), signs.translate(_NEW)
        if sum(left) != old[1] or sum(right) != new[1]:
            return -1
        notes = b"\\" in signs
        starts = accumulate(map(add, sizes, repeat(1)), initial=start)
        if notes or 0 in sizes:  # a note is shown with its sign; a line without any is a blank one
            bare = bytes(sign == 0x5C or not size for sign, size in zip(signs, sizes, strict=True))
            self.offsets.extend(at + 1 - none for at, none in zip(starts, bare, strict=False))
            self.sizes.extend(size - 1 + none for size, none in zip(sizes, bare, strict=True))
        else:
            self.offsets.extend(map(add, starts, repeat(1, len(sizes))))
            self.sizes.extend(map(sub, sizes, repeat(1)))
        self.kinds += signs.translate(_KIND)
        self.old.extend(map(mul, accumulate(left[:-1], initial=old[0]), left))
        self.new.extend(map(mul, accumulate(right[:-1], initial=new[0]), right))
        return end


def index_patch(patch: bytes, paths: tuple[bytes, ...] = ()) -> PatchIndex:
    """Rows of a patch as git-diff(1) prints it. ``paths`` are the names of its files in order; without them
    the names of the ``diff --git`` lines stand in. Only ``\\n`` ends a line."""
    rows = _Rows()
    hunks: list[Hunk] = []
    files: list[FileRows] = []
    left = right = old = new = 0
    hunk_start = -1
    gone = b""  # the header of the file that was just taken away
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
            done = rows.add_hunk(patch, end + 1, (old, left), (new, right)) if left or right else -1
            if done >= 0:
                left = right = 0
                place = done
                continue
        elif patch.startswith(b"diff --git ", place):
            _close(hunks, hunk_start, here, len(files) - 1)
            hunk_start = -1
            header = patch[place:end]
            if header != gone:  # else the file takes another type: Git has it go, then come, under one name
                if files:
                    files[-1] = files[-1]._replace(last=here)
                number = len(files)
                name = paths[number] if number < len(paths) else _name(header)
                files.append(FileRows(name, here, here))
                rows.add(FILE, place, end, 0, 0, patch)
            gone = header if patch.startswith(b"deleted file mode ", end + 1) else b""
        else:
            if first == 0x5C:
                rows.add(NOTE, place, end, 0, 0, patch)
            elif patch.startswith(b"GIT binary patch", place):
                rows.add(META, place, end, 0, 0, patch)
                found = patch.find(b"\ndiff --git ", end)  # its data is no text, and holds no space
                place = found + 1 if found >= 0 else size
                continue
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
