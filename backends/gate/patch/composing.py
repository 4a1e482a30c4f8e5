"""The file that a selection gives: the base's lines with exactly the accepted changes.

Where a block is taken in part, the lines that were kept come first and the accepted new ones after them, as
every tool does that takes single lines; but new lines that, from the top of the block on, replace accepted
removals one for one take their place, as they are shown side by side.

Only the last line of a file can be without a line end. A line that had none and is followed by others gets
one, so that no two lines run together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from backends.gate.patch.marks import bits
from backends.gate.patch.model import Block
from backends.gate.patch.selecting import Chosen


class Edit(NamedTuple):
    """``gone`` lines of the base from place ``old`` (counted from 0) give way to these new lines."""

    old: int
    gone: int
    new: Sequence[int]  # places in the snapshot's file, counted from 0


class Lines(NamedTuple):
    """A file as lines without their ends; only ``\\n`` ends a line."""

    lines: list[bytes]
    ended: bool  # the last line has its end; true of an empty file


def split(blob: bytes) -> Lines:
    """The lines of a file."""
    lines = blob.split(b"\n")
    ended = not lines[-1]
    if ended:
        lines.pop()
    return Lines(lines, ended)


def edits(chosen: Chosen) -> Iterator[Edit]:
    """What is changed in the base's file, from top to bottom."""
    file, takes = chosen.file, chosen.takes
    if takes.lines == file.all.lines:
        for block in file.hunks.blocks():
            yield Edit(block.old - 1, block.old_count, _places(block))
        return
    old = bits(takes.old, file.all.old.bit_length())
    new = bits(takes.new, file.all.new.bit_length())
    for block in file.hunks.blocks():
        gone = old[block.old : block.old + block.old_count]
        came = new[block.new : block.new + block.new_count]
        if "0" not in gone and "0" not in came:
            yield Edit(block.old - 1, block.old_count, _places(block))
        elif "1" in gone or "1" in came:
            yield from _within(block, gone, came)


def _places(block: Block) -> range:
    return range(block.new - 1, block.new - 1 + block.new_count)


def _within(block: Block, gone: str, came: str) -> Iterator[Edit]:
    """The edits of a block that is taken in part; ``gone`` and ``came`` say "1" of each line taken."""
    wanted = [place for place, taken in enumerate(came) if taken == "1"]
    paired = 0
    while paired < len(wanted) and gone[wanted[paired] : wanted[paired] + 1] == "1":
        paired += 1
    first, start = block.old - 1, block.new - 1
    at = 0
    for place, taken in enumerate(gone):
        if taken == "1":
            here = at < paired and wanted[at] == place
            yield Edit(first + place, 1, (start + place,) if here else ())
            at += here
    if paired < len(wanted):
        yield Edit(first + len(gone), 0, [start + place for place in wanted[paired:]])


def compose(base: bytes, snapshot: bytes, chosen: Chosen) -> bytes:
    """The file with the lines that are taken of it. ``base`` and ``snapshot`` are its blobs on both sides.

    For files that are decided line by line; what is taken or left as a whole is one of the two blobs.
    """
    old, new = split(base), split(snapshot)
    out: list[bytes] = []
    at = 0
    last: tuple[Lines, int] | None = None
    for edit in edits(chosen):
        if edit.old > at:
            out += old.lines[at : edit.old]
            last = (old, edit.old)
        if edit.new:
            taken = edit.new
            if isinstance(taken, range):
                out += new.lines[taken.start : taken.stop]
            else:
                out += [new.lines[place] for place in taken]
            last = (new, taken[-1] + 1)
        at = edit.old + edit.gone
    if at < len(old.lines):
        out += old.lines[at:]
        last = (old, len(old.lines))
    if last is None:
        return b""
    side, place = last
    ended = side.ended or place < len(side.lines)
    return b"\n".join(out) + (b"\n" if ended else b"")
