"""The patch as values: files, hunks and blocks of changed lines, and what of them can be decided."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from backends.gate.patch.marks import Marks, mask, span
from backends.snapshots import FileChange

PLAIN = 0o100644
EXECUTABLE = 0o100755
SYMLINK = 0o120000
GITLINK = 0o160000


class Block(NamedTuple):
    """Neighbouring lines that are replaced together: ``old_count`` lines from line ``old`` of the base give
    way to ``new_count`` lines from line ``new`` of the snapshot. Lines count from 1; where a count is 0 the
    number is that of the line before which the other side's lines stand."""

    old: int
    old_count: int
    new: int
    new_count: int


class Hunk(NamedTuple):
    """One hunk as Git shows it: its range on both sides, and the blocks in it."""

    old: int
    old_count: int
    new: int
    new_count: int
    blocks: tuple[Block, ...]


class Hunks:
    """The hunks of a file in order: kept as numbers, 16 bytes a block, made into values when asked for."""

    __slots__ = ("_blocks", "_heads")

    def __init__(self, heads: array[int], blocks: array[int]) -> None:
        """``heads``: five numbers a hunk, its range on both sides and where its blocks end, counted over the
        file; ``blocks``: four numbers a block."""
        self._heads = heads
        self._blocks = blocks

    def __len__(self) -> int:
        return len(self._heads) // 5

    def __getitem__(self, number: int) -> Hunk:
        if not 0 <= number < len(self):
            raise IndexError(number)
        old, old_count, new, new_count, end = self._heads[5 * number : 5 * number + 5]
        start = self._heads[5 * number - 1] if number else 0
        return Hunk(old, old_count, new, new_count, tuple(self._between(start, end)))

    def __iter__(self) -> Iterator[Hunk]:
        return (self[number] for number in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hunks) and (self._heads, self._blocks) == (other._heads, other._blocks)

    def __hash__(self) -> int:
        return hash(self._blocks.tobytes())

    def blocks(self) -> Iterator[Block]:
        """All blocks of the file, from top to bottom."""
        return self._between(0, len(self._blocks) // 4)

    def _between(self, start: int, end: int) -> Iterator[Block]:
        flat = self._blocks[4 * start : 4 * end]
        return map(Block._make, zip(*(flat[side::4] for side in range(4)), strict=True))


class File(NamedTuple):
    """One changed file. Identified by ``path``: that in the snapshot, of a deleted file that in the base."""

    change: FileChange
    hunks: Hunks  # none for what is decided as a whole
    all: Marks  # everything that can be decided
    key: str  # changes with anything that a decision on this file could be about
    source: bytes  # Git's whole patch
    place: tuple[int, int]  # where in it this file begins and ends

    @property
    def text(self) -> bytes:
        """What Git's patch says of the file, from ``diff --git`` on."""
        return self.source[self.place[0] : self.place[1]]

    @property
    def path(self) -> bytes:
        return self.change.path

    @property
    def base_path(self) -> bytes:
        """Where it lies in the base (and stays while a rename is not accepted)."""
        return self.change.old_path or self.change.path

    @property
    def by_line(self) -> bool:
        """Its lines can be decided one by one."""
        return bool(self.all.old or self.all.new)

    def hunk(self, number: int) -> Marks:
        """The lines of a hunk, counted from 0; ``IndexError`` when there is none."""
        hunk = self.hunks[number]
        old = mask(((b.old, b.old_count) for b in hunk.blocks), hunk.old + hunk.old_count)
        new = mask(((b.new, b.new_count) for b in hunk.blocks), hunk.new + hunk.new_count)
        return Marks(frozenset(), old, new)

    def old_lines(self, first: int, last: int) -> Marks:
        """The removed lines among lines ``first`` to ``last`` of the base."""
        return Marks(frozenset(), span(first, last) & self.all.old, 0)

    def new_lines(self, first: int, last: int) -> Marks:
        """The added lines among lines ``first`` to ``last`` of the snapshot."""
        return Marks(frozenset(), 0, span(first, last) & self.all.new)

    def part(self, name: str) -> Marks:
        """One part, nothing when the file has no such part."""
        return Marks(frozenset({name}) & self.all.parts)


class Patch(NamedTuple):
    """The difference between two trees, in the order of Git's patch."""

    base: str  # tree id
    tree: str  # tree id of the snapshot
    files: tuple[File, ...]

    def file(self, path: bytes) -> File | None:
        """The file of that path."""
        return self.by_path().get(path)

    def by_path(self) -> dict[bytes, File]:
        """All files by their path."""
        return {file.path: file for file in self.files}
