"""What the cursor stands for (a line, a range, a hunk, a file) and the marks painted on lines. Pure.

Lines are named by side and number, as bit masks: bit ``n`` of ``old`` is line ``n`` of the base that is
removed, bit ``n`` of ``new`` line ``n`` of the snapshot that is added. Numbers survive another context,
another layout and a restart; rows do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import compress
from operator import or_
from types import MappingProxyType
from typing import NamedTuple

from widgets.patch import ADDED, META, NOTE, REMOVED, PatchIndex
from widgets.ranges import Ranges, union
from widgets.shown import Shown

LINE, RANGE, BLOCK, HUNK, FILE = "line", "range", "block", "hunk", "file"
UNITS = (LINE, HUNK, FILE)
"""What a key steps through; a range is begun and ended by a key of its own."""
NARROWER = {FILE: HUNK, HUNK: BLOCK, BLOCK: LINE}
"""What splitting makes of each; a block is changed lines without an unchanged one between."""

FEW = 16
"""Runs of rows of which each is looked at as a whole."""

EXISTS, NAME, MODE, CONTENT = "exists", "name", "mode", "content"
"""Parts of a file that are decided beside its lines."""
_PARTS: tuple[tuple[bytes, tuple[str, ...]], ...] = (
    (b"new file mode 100755", (MODE,)),  # that the file is made is decided on every other row of its header
    (b"new file mode ", (EXISTS,)),
    (b"deleted file mode ", (EXISTS,)),
    (b"old mode ", (MODE,)),
    (b"new mode ", (MODE,)),
    (b"rename ", (NAME,)),
    (b"copy ", (NAME,)),
    (b"similarity ", (NAME,)),
    (b"GIT binary patch", (CONTENT,)),
    (b"Binary files ", (CONTENT,)),
)
_IS: dict[int, bytes] = {kind: bytes(n == kind for n in range(256)) for kind in (ADDED, REMOVED)}


class Tally(NamedTuple):
    """How many lines are in which state."""

    accepted: int
    rejected: int
    undecided: int


class LineMarks(NamedTuple):
    """What was decided of one file; masks as above."""

    accepted_old: int = 0
    accepted_new: int = 0
    rejected_old: int = 0
    rejected_new: int = 0
    parts: Mapping[str, str] = MappingProxyType({})  # the state of each part that the file has, "" undecided
    one: bool = False  # the file is decided as one thing: its rows have the state of its content

    def of(self, old: int, new: int) -> str:
        """The one state of all lines of the masks: accepted, rejected, "" for undecided, or mixed."""
        accepted = (self.accepted_old & old, self.accepted_new & new)
        rejected = (self.rejected_old & old, self.rejected_new & new)
        if accepted == (old, new):
            return "accepted" if old or new else ""
        if rejected == (old, new):
            return "rejected"
        return "mixed" if any(accepted) or any(rejected) else ""

    def tally(self, old: int, new: int) -> Tally:
        """How many of the masks' lines are in which state."""
        accepted = (self.accepted_old & old).bit_count() + (self.accepted_new & new).bit_count()
        rejected = (self.rejected_old & old).bit_count() + (self.rejected_new & new).bit_count()
        return Tally(accepted, rejected, old.bit_count() + new.bit_count() - accepted - rejected)

    def of_parts(self, names: Sequence[str]) -> str:
        """The one state of those of these parts that the file has, or mixed."""
        found = {self.parts[name] for name in names if name in self.parts}
        return found.pop() if len(found) == 1 else "mixed" if found else ""


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
    parts: tuple[str, ...] = ()  # which of its parts, when a row about some is meant

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
            rows = union(side[low : high + 1] for side in (shown.left, shown.right))
    elif unit == FILE and file is not None:
        rows = range(index.files[file].first, index.files[file].last)
        hunk = None
    elif unit == HUNK and hunk is not None:
        rows = range(index.hunks[hunk].first, index.hunks[hunk].last)
    elif unit == BLOCK and index.kinds[here] in (ADDED, REMOVED, NOTE):
        if anchor is None and known.unit == BLOCK and known.file == file and here in known.rows:
            return known
        rows = block_at(index, here)
    else:
        unit = LINE
        rows = shown.rows_at(place)
    old, new = masks(index, rows)
    whole = unit == FILE or (unit == LINE and hunk is None and file is not None)
    parts = parts_at(index, here) if unit == LINE and whole else ()
    return Selection(unit, path, file, hunk, rows, old, new, whole, parts)


def block_at(index: PatchIndex, row: int) -> range:
    """The rows of the changed lines around ``row`` without an unchanged one between."""
    changed = (ADDED, REMOVED, NOTE)
    first = last = row
    while first > 0 and index.kinds[first - 1] in changed:
        first -= 1
    while last < len(index) and index.kinds[last] in changed:
        last += 1
    return range(first, last)


def parts_at(index: PatchIndex, row: int) -> tuple[str, ...]:
    """The parts of its file that a row of a file's header tells of; none for other rows."""
    if index.kinds[row] != META:
        return ()
    text = index.text(row)
    return next((names for start, names in _PARTS if text.startswith(start)), ())


def masks(index: PatchIndex, rows: Sequence[int]) -> tuple[int, int]:
    """The changed lines among rows; a row that goes on with a long line stands for that line."""
    kinds, sides = index.kinds, (index.old, index.new)
    if isinstance(rows, Ranges) and rows.pieces < FEW:
        bits = [masks(index, run) for run in rows.runs]
        return reduce(or_, (old for old, _ in bits)), reduce(or_, (new for _, new in bits))
    if isinstance(rows, range) and len(rows) > 1:
        of = kinds[rows.start : rows.stop]
        old = list(compress(index.old[rows.start : rows.stop], of.translate(_IS[REMOVED])))
        new = list(compress(index.new[rows.start : rows.stop], of.translate(_IS[ADDED])))
    else:
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
