"""Boxes of provider ``overlay``: their folders, a real box of the ``process`` tier on them, and its tree."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from backends.boxes.layout import BoxPaths, state_dir
from backends.tiers.protocol import LaunchSpec
from backends.trees import overlay, quarantine, snapshot, source
from backends.trees.values import Base, Limits, TreeSnapshot
from tests.boundary import harness

UID, GID = (harness.PAYLOAD, harness.PAYLOAD) if os.geteuid() == 0 else (os.geteuid(), os.getegid())


class Layered(NamedTuple):
    """One box's folders."""

    paths: BoxPaths
    base: Base

    def snapshot(self, **limits: Any) -> TreeSnapshot:
        return snapshot.snapshot(self.paths, self.base.tree, limits=Limits(**limits))

    def rows(self, tree: str) -> dict[bytes, bytes]:
        """Path to mode, type and id of everything in a tree."""
        out = quarantine.git(self.paths).run("ls-tree", "-r", "-z", tree)
        return {path: meta for meta, _, path in (row.partition(b"\t") for row in out.split(b"\0")[:-1])}

    @contextlib.contextmanager
    def live(self, observe: str = "writes") -> Iterator[harness.Box]:
        """A box of this folder, without a keeper."""
        policy = harness.policy(observe=observe)
        spec = LaunchSpec(self.paths, policy, "probe", UID, GID, detached=True, tree_provider="overlay")
        with harness.launched(spec) as box:
            yield box

    def sh(self, script: str) -> str:
        """What a shell prints that runs in the box's tree."""
        with self.live() as box:
            done = box.sh(script)
        assert done.exit == 0, done
        return done.out


def make(where: Path, name: str = "one", rev: str = "HEAD", key: str = "sample") -> Layered:
    """A box of the repository ``where``, whose boxes lie below ``key``."""
    origin = source.discover(where)
    assert origin is not None
    base = source.resolve(origin, rev)
    paths = BoxPaths(state_dir() / key / name)
    paths.root.mkdir(parents=True, mode=0o700)
    for folder in (paths.mount, paths.home):
        folder.mkdir(mode=0o700)
    paths.manifest.write_text("{}")
    owner = (UID, GID) if os.geteuid() == 0 else None
    if owner:
        os.chown(paths.home, *owner)
    overlay.prepare(paths, origin, base, owner=owner)
    return Layered(paths, base)


MakeLayered = Callable[..., Layered]
