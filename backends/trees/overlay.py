"""The ``overlay`` provider: a box's changes over a shared layer of its base (:mod:`backends.trees.layers`).

Making a box writes nothing that grows with the base but a copy of its index. The mount is made by the tier,
in the box's own namespaces; outside only ``upper``, the changes, can be read.
"""

from __future__ import annotations

import os
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.errors import Refused
from backends.trees import layers, packs, quarantine, repo, source
from backends.trees.layers import Layer
from backends.trees.provider import make_mount_point, shallow
from backends.trees.seal import Check
from backends.trees.values import Base, Source


def prepare(
    paths: BoxPaths,
    origin: Source,
    base: Base,
    *,
    history: str = "full",
    owner: tuple[int, int] | None = None,
) -> None:
    """Make quarantine, layer, upper folder and private repository, as ``backends.trees.provider.prepare``."""
    git = source.git(origin)
    quarantine.init(paths, git.objects, source.object_format(base.commit))
    building = packs.begin(git, paths.repository_key, base, history)
    try:
        for folder in (paths.tree, paths.upper, paths.work):
            folder.mkdir(mode=0o700)
        make_mount_point(paths.upper)
        layer = layers.use(paths, git, base.tree, paths.repository_key)
        objects = packs.finish(building)
    except BaseException:
        packs.abandon(building)
        raise
    repo.make_private(
        paths, base, objects, layer.entries, history=history, shallow=shallow(origin), owner=owner
    )  # fmt: skip
    if owner:
        os.chown(paths.upper, *owner)


def lowers(paths: BoxPaths) -> tuple[Path, ...]:
    """The folders to mount under ``upper``, the topmost first; ``()`` where the provider is another.

    ``Refused`` when one is missing: :func:`ready` makes it anew.
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


class Verification:
    """A box's layers checked against their seals while its launch goes on (rule S10)."""

    def __init__(self, paths: BoxPaths, base_tree: str) -> None:
        """Makes what is missing first, from the objects that the box's quarantine borrows."""
        self._paths = paths
        self._base_tree = base_tree
        self._stack = self._ready()
        self._check = Check([(layer.files, layer.seal) for layer in self._stack])

    def _ready(self) -> tuple[Layer, ...]:
        layer = layers.find(self._base_tree)
        if layer is None or layers.used(self._paths) != (layer.tree, *layer.below):
            layer = self._make()
        return layers.stack(layer)

    def _make(self) -> Layer:
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
