"""How a command names things of one file: ``@2``, ``12-15``, ``-7``, ``mode``, several with commas."""

from __future__ import annotations

import re

from backends.errors import UsageError
from backends.gate.patch.marks import NOTHING, PARTS, Marks
from backends.gate.patch.model import File

_LINES = re.compile(r"([+-]?)([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")
_HUNK = re.compile(r"@([1-9][0-9]{0,8})")


def marks_of(file: File, text: str) -> Marks:
    """What ``text`` names: ``@2`` the second hunk; ``12``, ``12-15`` or ``+12-15`` added lines by their
    number in the snapshot; ``-7`` or ``-7-9`` removed lines by their number in the base; ``exists``,
    ``name``, ``mode``, ``content`` a part.

    ``UsageError`` for other words, and for one that names nothing that the file changes.
    """
    marks = NOTHING
    for word in text.split(","):
        found = _word(file, word)
        if found.empty:
            raise _wrong(file, word, _has(file))
        marks = marks.union(found)
    return marks


def _word(file: File, word: str) -> Marks:
    if word in PARTS:
        return file.part(word)
    if match := _HUNK.fullmatch(word):
        number = int(match[1])
        return file.hunk(number - 1) if number <= len(file.hunks) else NOTHING
    if match := _LINES.fullmatch(word):
        first, last = int(match[2]), int(match[3] or match[2])
        return file.old_lines(first, last) if match[1] == "-" else file.new_lines(first, last)
    raise _wrong(file, word, "it is no hunk (@2), no lines (12-15, -7) and no part (mode)")


def _has(file: File) -> str:
    what = [f"{len(file.hunks)} hunk" + "s" * (len(file.hunks) != 1)] if file.hunks else []
    what += [part for part in PARTS if part in file.all.parts]
    return "the change has nothing there; it has " + ", ".join(what)


def _wrong(file: File, word: str, why: str) -> UsageError:
    name = file.path.decode("utf-8", "surrogateescape")
    return UsageError(
        f"{word[:80]!r} names nothing of {name}",
        why,
        "see hunks and lines: cloche review BOX --json",
        code="no-such-lines",
    )
