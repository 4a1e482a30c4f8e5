"""Interdiff: what a proposal says otherwise than the one that was reviewed before. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from backends.snapshots import FileChange

ADDED = "added"
"""The file was not part of the earlier proposal."""
DROPPED = "dropped"
"""The file is no longer part of the proposal."""
CHANGED = "changed"
"""What is proposed for the file is something else: its bytes, mode or name."""
REBASED = "rebased"
"""The same is proposed, and compared with another base."""


class Moved(NamedTuple):
    """One file about which two proposals differ; ``before`` and ``after`` are its rows in them."""

    path: bytes
    kind: str
    before: FileChange | None
    after: FileChange | None


def interdiff(before: Sequence[FileChange], after: Sequence[FileChange]) -> tuple[Moved, ...]:
    """What changed since the proposal ``before``; files about which both say the same are left out.

    The bytes that differ are between ``before.new_oid`` and ``after.new_oid`` of a row: the proposals' trees
    can be compared as any two trees, with :func:`backends.trees.diff.patch`.
    """
    earlier = {change.path: change for change in before}
    later = {change.path: change for change in after}
    found = []
    for path in sorted(earlier.keys() | later.keys()):
        kind = _kind(earlier.get(path), later.get(path))
        if kind:
            found.append(Moved(path, kind, earlier.get(path), later.get(path)))
    return tuple(found)


def _kind(before: FileChange | None, after: FileChange | None) -> str:
    if before is None or after is None:
        return ADDED if before is None else DROPPED
    if (before.new_oid, before.new_mode, before.old_path) != (after.new_oid, after.new_mode, after.old_path):
        return CHANGED
    return "" if (before.old_oid, before.old_mode) == (after.old_oid, after.old_mode) else REBASED
