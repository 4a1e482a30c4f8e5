"""Reading Git's patch of two trees into the model.

The difference itself is Git's own (``diff-tree --patch --binary`` on objects, :mod:`backends.trees.diff`):
what a reviewer decides about are the very hunks that were shown. Its search is bounded (XDL_MAX_COST_MIN of
xdiffi.c), and what Git calls binary is decided as a whole. Runs of equal kind are found by regular
expressions that never go back, so a patch of a hundred thousand lines is read in a fraction of a second.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from backends.digest import sha256
from backends.errors import ClocheError
from backends.gate.patch.marks import CONTENT, EXISTS, MODE, NAME, Marks, mask
from backends.gate.patch.model import EXECUTABLE, GITLINK, SYMLINK, File, Hunks, Patch
from backends.snapshots import Diff, FileChange

_HEAD = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@[^\n]*\n")
_SAME = re.compile(rb"(?: [^\n]*+\n)++")
_GONE = re.compile(rb"(?:-[^\n]*+\n)++")
_CAME = re.compile(rb"(?:\+[^\n]*+\n)++")
_NEXT = b"\ndiff --git "


class _Section(NamedTuple):
    end: int
    hunks: Hunks
    blocks: array[int]  # four numbers a block
    binary: bool


class Outline(NamedTuple):
    """One section of a patch text: where it begins and ends, and how many lines it adds and deletes."""

    start: int
    end: int
    binary: bool
    added: int
    deleted: int


def outline(patch: bytes) -> Iterator[Outline]:
    """The sections of a patch text, which cover all of it. Raises ``ClocheError`` where they do not."""
    at = 0
    while at < len(patch):
        found = _section(patch, at)
        yield Outline(at, found.end, found.binary, sum(found.blocks[3::4]), sum(found.blocks[1::4]))
        at = found.end


def read(diff: Diff, base_tree: str) -> Patch:
    """The model of ``diff``, whose base commit has the tree ``base_tree``.

    Raises ``ClocheError`` when patch and list of files do not belong together.
    """
    return Patch(base_tree, diff.tree, tuple(_files(diff.changes, diff.patch)))


def _files(changes: tuple[FileChange, ...], patch: bytes) -> list[File]:
    files: list[File] = []
    at = 0
    for change in changes:
        start = at
        section = _section(patch, at)
        at = section.end
        if change.status == "T":  # Git takes the old file away and then makes the new one
            at = _section(patch, at).end
        files.append(_file(change, section, patch, (start, at)))
    if at != len(patch):
        raise _odd(at, "text after the last file")
    return files


def _file(change: FileChange, section: _Section, patch: bytes, place: tuple[int, int]) -> File:
    by_line = change.status != "T" and not section.binary and not _special(change)
    parts = set()
    if change.status in ("A", "D"):
        parts.add(EXISTS)
        if change.status == "A" and change.new_mode == EXECUTABLE:
            parts.add(MODE)
    else:
        if change.status == "R":
            parts.add(NAME)
        if change.status != "T" and change.old_mode != change.new_mode:
            parts.add(MODE)
        if not by_line and (change.status == "T" or change.old_oid != change.new_oid):
            parts.add(CONTENT)
    old = new = 0
    if by_line and section.blocks:
        flat = section.blocks
        old = mask(zip(flat[0::4], flat[1::4], strict=True), flat[-4] + flat[-3])
        new = mask(zip(flat[2::4], flat[3::4], strict=True), flat[-2] + flat[-1])
    hunks = section.hunks if by_line else Hunks(array("I"), array("I"))
    key = _key(change, section.blocks.tobytes() if by_line else b"")
    return File(change, hunks, Marks(frozenset(parts), old, new), key, patch, place)


def _special(change: FileChange) -> bool:
    return bool({change.old_mode, change.new_mode} & {SYMLINK, GITLINK})


def _key(change: FileChange, blocks: bytes) -> str:
    facts = (*change, sha256(blocks).hexdigest())
    return sha256(repr(facts).encode("ascii", "backslashreplace")).hexdigest()[:32]


def _section(patch: bytes, at: int) -> _Section:
    """What the patch says of one file from ``at`` on."""
    if not patch.startswith(b"diff --git ", at):
        raise _odd(at, "no file begins here")
    place = _after(patch, at)
    while place < len(patch) and not patch.startswith((b"@@ ", b"diff --git ", b"GIT binary patch\n"), place):
        place = _after(patch, place)
    if patch.startswith(b"GIT binary patch\n", place):
        # A line of it is a length and base 85, whose alphabet has no space (git-diff(1), base85.c).
        end = patch.find(_NEXT, place)
        none = array("I")
        return _Section(len(patch) if end < 0 else end + 1, Hunks(none, none), none, True)
    heads, flat = array("I"), array("I")
    while match := _HEAD.match(patch, place):
        a, b, c, d = (1 if value is None else int(value) for value in match.groups())
        place = _hunk(patch, match.end(), (a + (b == 0), b, c + (d == 0), d), flat)
        heads.extend((a, b, c, d, len(flat) // 4))
    return _Section(place, Hunks(heads, flat), flat, False)


def _hunk(patch: bytes, at: int, where: tuple[int, int, int, int], flat: array[int]) -> int:
    """The offset behind a hunk whose first line lies at ``at``; its blocks are added to ``flat``."""
    old, left, new, right = where
    while left > 0 or right > 0:
        if match := _SAME.match(patch, at):
            count = patch.count(b"\n", at, match.end())
            at, old, new, left, right = match.end(), old + count, new + count, left - count, right - count
        gone = came = 0
        if match := _GONE.match(patch, at):
            gone = patch.count(b"\n", at, match.end())
            at = _skip_note(patch, match.end())
        if match := _CAME.match(patch, at):
            came = patch.count(b"\n", at, match.end())
            at = match.end()
        if gone or came:
            flat.extend((old, gone, new, came))
            old, new, left, right = old + gone, new + came, left - gone, right - came
        elif left > 0 or right > 0:
            raise _odd(at, "a hunk ends early")
        at = _skip_note(patch, at)
    if left or right:
        raise _odd(at, "a hunk is longer than it says")
    return at


def _skip_note(patch: bytes, at: int) -> int:
    """Past "\\ No newline at end of file", where that stands at ``at``."""
    return _after(patch, at) if patch[at : at + 1] == b"\\" else at


def _after(patch: bytes, at: int) -> int:
    end = patch.find(b"\n", at)
    return len(patch) if end < 0 else end + 1


def _odd(at: int, why: str) -> ClocheError:
    return ClocheError(
        "the patch cannot be read",
        f"byte {at}: {why}",
        "run cloche diff; if it shows the files, report this with the words above",
        code="patch-unread",
    )
