"""A real desk over a frozen proposal: what is decided is kept in a folder that goes with its engine."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from backends.boxes.layout import BoxPaths
from backends.gate.decisions import Review
from backends.gate.patch import read
from backends.snapshots import CheckRow, DiffStat, SnapshotInfo
from backends.verbs.reviewing import Desk

if TYPE_CHECKING:
    from tests.workbench.frozen import FrozenEngine

BASE_TREE = "ab" * 20
_folders: list[weakref.finalize[..., object]] = []


def desk_paths(owner: object) -> BoxPaths:
    """The folder of a box, of which only what a desk keeps is there; it is removed with ``owner``."""
    folder = Path(tempfile.mkdtemp(prefix="cloche-desk-"))
    _folders.append(weakref.finalize(owner, shutil.rmtree, folder))
    return BoxPaths(folder)


def remove_all() -> None:
    """Removes what is left, for a process that ends without its interpreter's own end."""
    while _folders:
        _folders.pop()()


class FrozenDesk(Desk):
    """A desk over what the engine shows. It takes any acknowledgement, as a test says."""

    def __init__(self, engine: FrozenEngine, who: str) -> None:
        diff = engine.diff
        snapshot = SnapshotInfo(diff.tree, diff.base, BASE_TREE, 0.0, DiffStat(len(diff.changes), 0, 0))
        super().__init__(
            engine.kept, read(diff, BASE_TREE), snapshot, who, lambda tree: engine.checks, scripted=False
        )
        self._engine = engine

    def acknowledge(
        self, keys: Iterable[str], *, withdraw: bool = False, also: Iterable[CheckRow] = ()
    ) -> Review:
        self._engine._fail("acknowledge")
        for key in keys:
            (self._engine.acknowledged.remove if withdraw else self._engine.acknowledged.append)(key)
        return self.review
