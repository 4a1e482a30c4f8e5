"""Which shared layers a launch mounts, and whether they are still what they were sealed as (rule S10)."""

from __future__ import annotations

import os
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.errors import Refused
from backends.trees import layers
from backends.trees.layers import Layer
from backends.trees.seal import Check


def lowers(paths: BoxPaths) -> tuple[Path, ...]:
    """The folders to mount under ``upper``, the topmost first; ``()`` where the provider is another.

    ``Refused`` when one is missing: :class:`Verification` makes it anew.
    """
    names = layers.used(paths)
    found = tuple(layers.root() / name / "tree" for name in names)
    for folder in found:
        if not folder.is_dir():
            raise _missing(paths, folder)
    return found


def _missing(paths: BoxPaths, folder: Path) -> Refused:
    return Refused(
        f"the base of box {paths.name} cannot be shown",
        f"{folder} is not there",
        f"run the command again, which makes it anew; if it stays so: cloche doctor {paths.name}",
        code="layer-missing",
    )


def gitdir(paths: BoxPaths) -> Path | None:
    """The shared folder under the box's repository; ``None`` where that has an index of its own."""
    if not paths.repo_work.is_dir():
        return None
    found = layers.root() / layers.used(paths)[0] / "gitdir"
    if not found.is_dir():
        raise _missing(paths, found)
    return found


class Verification:
    """A box's layers checked against their seals while its launch goes on (rule S10)."""

    def __init__(self, paths: BoxPaths, base_tree: str, intact: frozenset[str] = frozenset()) -> None:
        """Makes what is missing first, from the objects that the box's quarantine borrows.

        ``intact``: folders of layers that need no look now (:mod:`backends.trees.intact`).
        """
        self._paths = paths
        self._base_tree = base_tree
        self._stack = self._ready()
        looked_at = [layer for layer in self._stack if os.fspath(layer.files) not in intact]
        top = self._stack[0]
        sealed = [(top.gitdir, top.gitdir_seal), *((layer.files, layer.seal) for layer in looked_at)]
        self._check = Check(sealed)

    def _ready(self) -> tuple[Layer, ...]:
        layer = layers.find(self._base_tree)
        if layer is None or layers.used(self._paths) != (layer.tree, *layer.below):
            layer = self._make()
        return layers.stack(layer)

    def _make(self) -> Layer:
        from backends.trees import quarantine

        git = quarantine.git(self._paths)
        return layers.use(self._paths, git, self._base_tree, self._paths.repository_key)

    def result(self) -> None:
        """Waits for the check. ``Refused`` names what was changed; the layer has been made anew then."""
        broken = self._check.result()
        if broken is None:
            return
        for layer in self._stack:
            layers.discard(layer)
        self._make()
        named = os.fsdecode(broken.path) or "the layer itself"
        raise Refused(
            f"box {self._paths.name} does not start: the shared files of its base were changed",
            f"{named}: {broken.why} since the layer {self._base_tree[:12]} was sealed",
            "find out what wrote there; the layer was made anew from the repository: run the command again",
            code="layer-broken",
        )

    def abandon(self) -> None:
        """End the check without its result."""
        self._check.abandon()
