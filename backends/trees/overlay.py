"""The ``overlay`` provider: a box's changes over a shared layer of its base (:mod:`backends.trees.layers`).

Making a box writes nothing that grows with the base. The mounts, of the tree and of the private repository,
are made by the tier, in the box's own namespaces; outside only what the box changed can be read.
"""

from __future__ import annotations

import os

from backends.boxes.layout import BoxPaths
from backends.trees import layers, packs, quarantine, repo, source
from backends.trees.provider import make_mount_point, shallow
from backends.trees.values import Base, Source


def prepare(
    paths: BoxPaths,
    origin: Source,
    base: Base,
    *,
    history: str = "full",
    owner: tuple[int, int] | None = None,
    apart: str = "",
) -> None:
    """Make quarantine, layer, upper folder and private repository, as ``backends.trees.provider.prepare``."""
    git = source.git(origin)
    quarantine.init(paths, git.objects, source.object_format(base.commit))
    building = packs.begin(git, paths.repository_key, base, history)
    try:
        for folder in (paths.tree, paths.upper, paths.work):
            folder.mkdir(mode=0o700)
        make_mount_point(paths.upper)
        layers.use(paths, git, base.tree, paths.repository_key)
        objects = packs.finish(building)
    except BaseException:
        packs.abandon(building)
        raise
    repo.make_private(
        paths, base, objects, None, history=history, shallow=shallow(origin), owner=owner, apart=apart
    )
    if owner:
        os.chown(paths.upper, *owner)
