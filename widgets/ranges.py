"""Very many row numbers in little room, by where they begin and end. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import overload


class Ranges(Sequence[int]):
    """Increasing numbers: a sequence that takes 12 bytes for each run of neighbours, whatever its length."""

    __slots__ = ("_ends", "_starts", "_stops")

    def __init__(self, runs: Iterable[tuple[int, int]]) -> None:
        """``runs`` are first and behind the last of each, in order, none touching another."""
        self._starts, self._stops = array("i"), array("i")
        for start, stop in runs:
            self._starts.append(start)
            self._stops.append(stop)
        sizes = (stop - start for start, stop in zip(self._starts, self._stops, strict=True))
        self._ends = array("i", accumulate(sizes))  # how many numbers there are up to the end of each

    @property
    def runs(self) -> Iterator[range]:
        """The runs of neighbours."""
        return map(range, self._starts, self._stops)

    @property
    def pieces(self) -> int:
        """How many runs there are."""
        return len(self._starts)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[int]:
        for run in self.runs:
            yield from run

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number < self._stops[at]

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        if place < 0:
            place += len(self)
        if not 0 <= place < len(self):
            raise IndexError(place)
        at = bisect_right(self._ends, place)
        return self._stops[at] - (self._ends[at] - place)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ranges):
            return NotImplemented
        return (self._starts, self._stops) == (other._starts, other._stops)

    def __hash__(self) -> int:
        return hash((self._starts.tobytes(), self._stops.tobytes()))


def union(sides: Iterable[Sequence[int]]) -> Sequence[int]:
    """The numbers of all sides, each of which increases but for what is below 0 and left out."""
    parts = [part for part in sides if len(part)]
    edges = [[row for row in (_edge(part, 1), _edge(part, -1)) if row >= 0] for part in parts]
    found = [row for pair in edges for row in pair]
    if not found:
        return range(0)
    first, last = min(found), max(found)
    there = bytearray(last - first + 1)
    for part in parts:
        for row in part:
            if row >= 0:
                there[row - first] = 1
    runs = []
    at = 0
    while at >= 0:
        end = there.find(0, at)
        runs.append((first + at, first + (end if end >= 0 else len(there))))
        at = there.find(1, end) if end >= 0 else -1
    return range(*runs[0]) if len(runs) == 1 else Ranges(runs)


def _edge(part: Sequence[int], step: int) -> int:
    """The first number that is not below 0, from the front or the back; -1 without one."""
    places = range(len(part)) if step > 0 else range(len(part) - 1, -1, -1)
    return next((part[at] for at in places if part[at] >= 0), -1)
