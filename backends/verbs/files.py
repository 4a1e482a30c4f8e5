"""Everything on disk that a new box may write, and the quarantine that it is read into."""

from __future__ import annotations

import os

from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import Manifest
from backends.trees import choice, provider
from backends.trees.values import Base, Source


def make(
    paths: BoxPaths, manifest: Manifest, place: Source, base: Base, history: str, apart: str = ""
) -> None:
    """Make the folders of the box, its repository and its files, for the uid that it will run as."""
    for folder in (paths.receipts, paths.mount, paths.tmp, paths.home):
        folder.mkdir(mode=0o700)
    owner = (manifest.payload_uid, manifest.payload_gid)
    given = owner if owner != (os.geteuid(), os.getegid()) else None
    if given:
        os.chown(paths.home, *given)
    if manifest.tier == "workspace":
        provider.prepare_worktree(paths, place, base)
    elif manifest.tree_provider == choice.OVERLAY:
        from backends.trees import overlay

        overlay.prepare(paths, place, base, history=history, owner=given, apart=apart)
    else:
        provider.prepare(paths, place, base, history=history, owner=given, apart=apart)
