"""The repository that bare names of boxes belong to, as seen from a folder."""

from __future__ import annotations

from pathlib import Path

from backends.boxes.layout import repository_key
from backends.errors import Refused
from backends.trees.source import discover
from backends.trees.values import Source

DETACHED = "detached"  # the key of boxes that were cloned or begun empty: they have no source repository


def locate(cwd: Path) -> Source | None:
    """The source repository around ``cwd``; None outside any, and in one that is not this user's.

    Making a box in somebody else's repository is refused by name; listing one's own boxes there is not.
    """
    try:
        return discover(cwd)
    except Refused:
        return None


def key_of(source: Source) -> str:
    """The folder name for the boxes of ``source``."""
    return repository_key(Path(source.common_dir))
