"""A file's patch with another number of unchanged lines around its changes. Pure, on bytes.

The changed lines and their numbers stay what they are: only what is shown around them differs, so decisions
hold whatever the context. More lines than the patch has come from the file itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

STEPS = (0, 1, 3, 10, 25, 1 << 30)
"""Lines of context that a key steps through; the last is the whole file."""
USUAL = 3

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_NO_END = b"\\ No newline at end of file\n"


class Block(NamedTuple):
    """Changed lines without a break: where they begin on both sides, their number, and their text."""

    old: int
    new: int
    gone: int
    came: int
    text: bytes  # lines with their signs
    heading: bytes  # what git said after the @@ of their hunk


def words(context: int) -> str:
    """How much context is shown, for a person."""
    if context >= STEPS[-1]:
        return "whole file"
    return f"context {context}"


def with_context(patch: bytes, context: int, new: bytes | None = None) -> bytes:
    """``patch`` (of one file, as git prints it) with ``context`` lines around each change.

    ``new`` is the changed file's content; without it, there can be no more lines than the patch holds. What
    has no hunks is returned as it is.
    """
    start = patch.find(b"\n@@ ")
    if start < 0:
        return patch
    blocks, known = _parse(patch, start + 1)
    if not blocks:
        return patch
    lines: Mapping[int, bytes] | _File = known if new is None else _File(new)
    out = [patch[: start + 1]]
    group: list[Block] = []
    for block in blocks:
        if group:
            last = group[-1]
            gap = block.new - (last.new + last.came)
            whole = all((last.new + last.came + at) in lines for at in range(min(gap, 2 * context + 1)))
            if gap > 2 * context or not whole:
                out.append(_hunk(group, context, lines))
                group = []
        group.append(block)
    out.append(_hunk(group, context, lines))
    return b"".join(out)


class _File:
    """The lines of a file by number, from 1, each as a line of context."""

    def __init__(self, content: bytes) -> None:
        self._lines = content.split(b"\n")
        self._ended = not self._lines[-1]
        if self._ended:
            self._lines.pop()

    def __contains__(self, number: int) -> bool:
        return 1 <= number <= len(self._lines)

    def __getitem__(self, number: int) -> bytes:
        end = b"\n" + (_NO_END if number == len(self._lines) and not self._ended else b"")
        return b" " + self._lines[number - 1] + end


def _parse(patch: bytes, place: int) -> tuple[list[Block], dict[int, bytes]]:
    blocks: list[Block] = []
    known: dict[int, bytes] = {}
    old = new = left = right = 0
    heading = b""
    current: list[bytes] = []
    begun = (0, 0)

    def close() -> None:
        if current:
            blocks.append(Block(*begun, old - begun[0], new - begun[1], b"".join(current), heading))
            current.clear()

    size = len(patch)
    while place < size:
        end = patch.find(b"\n", place)
        end = size if end < 0 else end + 1
        text = patch[place:end]
        place = end
        if not text.endswith(b"\n"):
            text += b"\n"
        sign = text[:1]
        if sign == b"\\":
            if current:
                current.append(text)
            elif new - 1 in known:
                known[new - 1] += text
        elif left <= 0 and right <= 0:
            match = _HUNK.match(text)
            if match is None:
                continue
            close()
            left = int(match[2]) if match[2] is not None else 1
            right = int(match[4]) if match[4] is not None else 1
            # A side without lines is named by the line before.
            old, new = int(match[1]) + (left == 0), int(match[3]) + (right == 0)
            heading = match[5]
        elif sign in (b"-", b"+"):
            if not current:
                begun = (old, new)
            current.append(text)
            if sign == b"-":
                old, left = old + 1, left - 1
            else:
                new, right = new + 1, right - 1
        else:
            close()
            known[new] = text if sign == b" " else b" " + text
            old, new, left, right = old + 1, new + 1, left - 1, right - 1
    close()
    return blocks, known


def _hunk(group: Sequence[Block], context: int, lines: Mapping[int, bytes] | _File) -> bytes:
    first, last = group[0], group[-1]
    before: list[bytes] = []
    at = first.new - 1
    while len(before) < context and at in lines:
        before.append(lines[at])
        at -= 1
    before.reverse()
    body = before
    for block, following in zip(group, [*group[1:], None], strict=True):
        body.append(block.text)
        if following is not None:
            body += [lines[number] for number in range(block.new + block.came, following.new)]
    lead = first.new - 1 - at
    at = last.new + last.came
    tail = 0
    while tail < context and at in lines:
        body.append(lines[at])
        at += 1
        tail += 1
    old_start, new_start = first.old - lead, first.new - lead
    old_count = last.old + last.gone + tail - old_start
    new_count = last.new + last.came + tail - new_start
    heading = first.heading if context == USUAL else b""  # git's guess from the lines above it
    where = b"@@ -%s +%s @@%s\n" % (_side(old_start, old_count), _side(new_start, new_count), heading)
    return where + b"".join(body)


def _side(start: int, count: int) -> bytes:
    if not count:
        return b"%d,0" % (start - 1)
    return b"%d" % start if count == 1 else b"%d,%d" % (start, count)
