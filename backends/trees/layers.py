"""Shared lower layers: one pristine raw checkout per base tree, under the boxes of provider ``overlay``.

``<cache>/layers/<tree id>/`` holds ``tree`` (the files), ``gitdir`` (the index, for a box's repository),
``listing`` (``git ls-tree -r -z``), ``rules`` (the base's ``.gitignore`` files), a seal of each of the first
two and ``about.json``. They are made by :mod:`backends.trees.layering`; nobody writes a layer once it has its
name. Boxes name the layers that they use in their own folder; those that no box names are removed by
:func:`prune`.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.boxes.layout import BoxPaths, cache_dir
from backends.record import NamedTuple

if TYPE_CHECKING:
    from backends.trees.git import Git

VERSION = 2
BROKEN = ".broken-"  # prefix of a layer that is not as it was sealed
FRESH = ".new-"


class Layer(NamedTuple):
    """One layer; ``below`` are the ids of those under it, the nearest first."""

    root: Path
    tree: str
    below: tuple[str, ...]

    @property
    def files(self) -> Path:
        return self.root / "tree"

    @property
    def gitdir(self) -> Path:
        """What a repository holds whose files are this layer's, below what a box writes to it: the index."""
        return self.root / "gitdir"

    @property
    def gitdir_seal(self) -> Path:
        return self.root / "gitdir-seal"

    @property
    def entries(self) -> Path:
        """The index of a repository whose files are this layer's."""
        return self.gitdir / "index"

    @property
    def listing(self) -> Path:
        return self.root / "listing"

    @property
    def rules(self) -> Path:
        return self.root / "rules"

    @property
    def seal(self) -> Path:
        return self.root / "seal"


def root() -> Path:
    """The folder of all layers, private to the user."""
    return cache_dir() / "layers"


@contextmanager
def locked(kind: int) -> Iterator[None]:
    """Shared while a layer is chosen and written down as used, exclusive while unused ones are removed."""
    root().mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(root() / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, kind)
        yield
    finally:
        os.close(fd)


def find(tree: str) -> Layer | None:
    """The layer of ``tree`` with all that lies under it, ``None`` when it has to be made."""
    layer = _read(root() / tree)
    if layer is None or any(_read(root() / below) is None for below in layer.below):
        return None
    return layer


def _read(folder: Path) -> Layer | None:
    found = about(folder)
    return Layer(folder, folder.name, tuple(found["below"])) if found else None


def about(folder: Path) -> dict[str, Any] | None:
    try:
        value = json.loads((folder / "about.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) and value.get("version") == VERSION else None


def stack(layer: Layer) -> tuple[Layer, ...]:
    """``layer`` and those under it, the topmost first; ``FileNotFoundError`` when one is missing."""
    found = [layer]
    for tree in layer.below:
        below = _read(root() / tree)
        if below is None:
            raise FileNotFoundError(2, os.strerror(2), str(root() / tree))
        found.append(below)
    return tuple(found)


# ---- who uses what


def use(paths: BoxPaths, git: Git, tree: str, key: str) -> Layer:
    """The layer of ``tree``, made if need be, written down as used by the box ``paths``.

    ``git`` has the tree; ``key`` is the repository's, among whose layers a near one is looked for first.
    ``Refused`` for a tree that cannot be checked out.
    """
    with locked(fcntl.LOCK_SH):
        layer = find(tree)
        if layer is None:
            from backends.trees import layering  # what makes one, and most boxes need none made

            layer = layering.make(git, tree, key)
        names = [layer.tree, *layer.below]
        fresh = paths.layers.with_name(paths.layers.name + ".new")
        fresh.write_text(json.dumps({"version": VERSION, "layers": names}, indent=1) + "\n")
        fresh.rename(paths.layers)
        os.utime(layer.root)
        return layer


def used(paths: BoxPaths) -> tuple[str, ...]:
    """The ids of the layers that a box names, the topmost first; none where the provider is another."""
    try:
        value = json.loads(paths.layers.read_bytes())
    except FileNotFoundError:
        return ()
    return tuple(str(name) for name in value["layers"])


def prune(wanted: Callable[[], set[str]], *, live: bool) -> int:
    """Remove every layer that is not ``wanted``, and what makers that were killed left; how many.

    ``wanted`` is asked while no box can take a layer. ``live``: some box runs, so a layer that was taken out
    of use may still be mounted and stays.
    """
    from backends.trees.remove import remove

    removed = 0
    if not root().is_dir():
        return 0
    with locked(fcntl.LOCK_EX):
        kept = wanted()
        for folder in sorted(root().iterdir()):
            mounted = live and folder.name.startswith(BROKEN)
            if folder.is_dir() and folder.name not in kept and not mounted:
                remove(folder)
                removed += 1
    return removed


def discard(layer: Layer) -> None:
    """Take a layer that is not as it was sealed out of use; what is mounted of it stays until pruned."""
    aside = root() / f"{BROKEN}{layer.tree[:16]}-{os.urandom(4).hex()}"
    try:
        layer.root.rename(aside)
    except FileNotFoundError:
        return  # another launch met it first
