"""Sets of the things in one file that can be decided: its parts, and its lines as bit masks.

A line is named by its side and its number there, from 1: an old line is one that the change removes, a new
line one that it adds. Bit ``n`` of a mask stands for line ``n``, so that a hundred thousand lines are decided
by a few operations on whole numbers, and a set is a value that can be compared and kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

EXISTS = "exists"
"""Of a new file: that it is made. Of a deleted one: that it goes."""
NAME = "name"
"""Of a renamed file: that it moves."""
MODE = "mode"
"""That the executable bit changes; of a new executable file, that it is executable."""
CONTENT = "content"
"""Of a binary file, a link, a submodule's pointer, a path that changes its type: all of it, or nothing."""
PARTS = (EXISTS, NAME, MODE, CONTENT)

MOST_LINES = 100 << 20
"""No file of a snapshot has more lines than bytes (``Limits.file_size`` of backends.trees.values)."""

MOST_RUNS = 100
"""Runs that are written one by one; the digits of a mask cost a quarter of a byte for each line."""

_HEXADECIMAL = re.compile(r"x[1-9a-f][0-9a-f]*")
_ONES = re.compile(r"1+")
_RANGE = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")


class Marks(NamedTuple):
    """Parts and lines of one file."""

    parts: frozenset[str] = frozenset()
    old: int = 0
    new: int = 0

    def union(self, other: Marks) -> Marks:
        """What is in either."""
        return Marks(self.parts | other.parts, self.old | other.old, self.new | other.new)

    def minus(self, other: Marks) -> Marks:
        """What is in this one only."""
        return Marks(self.parts - other.parts, self.old & ~other.old, self.new & ~other.new)

    def within(self, other: Marks) -> Marks:
        """What is in both."""
        return Marks(self.parts & other.parts, self.old & other.old, self.new & other.new)

    @property
    def empty(self) -> bool:
        return not (self.parts or self.old or self.new)

    @property
    def lines(self) -> int:
        """How many lines."""
        return self.old.bit_count() + self.new.bit_count()

    @property
    def total(self) -> int:
        """How many things in all."""
        return len(self.parts) + self.lines


NOTHING = Marks()


def span(first: int, last: int) -> int:
    """The mask of the lines ``first`` to ``last``, both included; 0 when there are none."""
    return ((1 << (last - first + 1)) - 1) << first if last >= first else 0


def mask(spans: Iterable[tuple[int, int]], size: int) -> int:
    """The mask of many ``(first line, number of lines)``, none beyond line ``size``; linear in ``size``."""
    digits = bytearray(b"0" * (size + 1))
    for first, count in spans:
        digits[first : first + count] = b"1" * count
    digits.reverse()
    return int(digits, 2)


def bits(value: int, size: int) -> str:
    """A mask as text: character ``n`` is "1" where line ``n`` is in it; ``size`` + 1 characters or more."""
    return bin(value)[:1:-1].ljust(size + 1, "0")


def ranges(value: int) -> Iterator[tuple[int, int]]:
    """The runs of a mask as ``(first, last)``, in order."""
    for run in _ONES.finditer(bin(value)[:1:-1]):
        yield run.start(), run.end() - 1


def to_text(value: int) -> str:
    """A mask as ``3-7,12``, or with many runs as ``x`` and hexadecimal digits, the form on disk."""
    if not value:
        return ""
    low = value & -value
    if not value & (value + low):  # one run, as most are
        first, last = low.bit_length() - 1, value.bit_length() - 1
        return f"{first}-{last}" if first < last else str(first)
    if (value & ~(value << 1)).bit_count() > MOST_RUNS:
        return f"x{value:x}"
    return ",".join([str(a) if a == b else f"{a}-{b}" for a, b in ranges(value)])


def from_text(text: str, size: int) -> int:
    """The mask that :func:`to_text` wrote; ``ValueError`` for other text and lines beyond ``size``."""
    if not text:
        return 0
    if _HEXADECIMAL.fullmatch(text):
        value = int(text[1:], 16) if len(text) <= size // 4 + 2 else 0
        if value.bit_length() > size + 1 or value & 1 or not value:
            raise ValueError(f"lines lie beyond line {size}")
        return value
    if match := _RANGE.fullmatch(text):  # one run, as most are
        first = int(match[1])
        last = int(match[2] or first)
        if not first <= last <= size:
            raise ValueError(f"lines {text} lie beyond line {size}")
        return span(first, last)
    found: list[tuple[int, int]] = []
    end = 0
    for word in text.split(","):
        match = _RANGE.fullmatch(word)
        if match is None:
            raise ValueError(f"{word[:40]!r} is no range of lines")
        first = int(match[1])
        last = int(match[2] or first)
        if not end < first <= last <= size:
            raise ValueError(f"lines {word} do not follow line {end}, or lie beyond line {size}")
        found.append((first, last - first + 1))
        end = last
    return mask(found, end)
