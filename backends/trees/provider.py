"""The ``checkout`` provider: everything that a new box has on disk of its base, from a source repository.

Made in one go, so that packing and checking out overlap and no file is looked at twice: the quarantine, the
tree, the box's own repository with its index, and the record that lets the first snapshot read nothing.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from backends.boxes.layout import BoxPaths
from backends.trees import inert, packs, quarantine, repo, source
from backends.trees.values import Base, Source

if TYPE_CHECKING:
    from backends.trees.checkout import Written


def prepare(
    paths: BoxPaths,
    origin: Source,
    base: Base,
    *,
    history: str = "full",
    owner: tuple[int, int] | None = None,
    apart: str = "",
) -> None:
    """Make quarantine, tree and private repository of a confined box; the box's root exists already.

    ``origin`` is the source repository, ``history`` as in :class:`backends.policy.model.Policy`. ``owner``
    (uid, gid): who the box's processes run as, where that is not the caller. Tree and repository are given
    to it and need no other ``chown``, which would change every file's change time, so that the first
    snapshot would read them all. ``apart`` names what lies at the top and is no part of the work.
    """
    from backends.trees.checkout import checkout

    git = source.git(origin)
    quarantine.init(paths, git.objects, source.object_format(base.commit))
    building = packs.begin(git, paths.repository_key, base, history)
    try:
        paths.tree.mkdir(mode=0o700)
        make_mount_point(paths.tree)
        written = checkout(git, base.tree, paths.tree, owner=owner)
        objects = packs.finish(building)
    except BaseException:
        packs.abandon(building)
        raise
    repo.make_private(
        paths,
        base,
        objects,
        written,
        history=history,
        shallow=shallow(origin),
        owner=owner,
        apart=apart,
    )
    if owner:
        os.chown(paths.tree, *owner)
    remember(paths, written)


def make_mount_point(tree: Path) -> None:
    """What the private repository is mounted on: a Git that a person's prompt starts here ends its search."""
    fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        inert.make(fd)
    finally:
        os.close(fd)


def prepare_worktree(paths: BoxPaths, origin: Source, base: Base) -> None:
    """Make quarantine and linked worktree of an unconfined (``workspace``) box."""
    from backends.trees import worktree

    quarantine.init(paths, source.git(origin).objects, source.object_format(base.commit))
    remember(paths, worktree.add(paths, origin, base))


def remember(paths: BoxPaths, written: list[Written]) -> None:
    """Record what the checkout wrote, so that snapshots read only what changed since."""
    from backends.trees import statcache

    records = (
        (row.path, statcache.value(row.oid, statcache.SETTLED, status))
        for row, status in written
        if stat.S_ISREG(status.st_mode)
    )
    (paths.quarantine / quarantine.STAT_CACHE).write_bytes(statcache.serialise(records))


def shallow(origin: Source) -> bytes:
    """Where the source's history is cut (``shallow`` of gitrepository-layout(5)), empty when it is whole."""
    path = Path(origin.common_dir) / "shallow"
    return path.read_bytes() if path.exists() else b""
