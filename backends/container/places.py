"""What a container and the folder of its launch are called: after the box, so that what is left is found."""

from __future__ import annotations

import os
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.container.podman import Podman
from backends.digest import sha256

PREFIX = "cloche-"


def mark(paths: BoxPaths) -> str:
    """24 digits that no two boxes share."""
    return sha256(os.fsencode(os.path.realpath(paths.root))).hexdigest()[:24]


def name(paths: BoxPaths) -> str:
    """The container's name in Podman's table."""
    return PREFIX + mark(paths)


def folder(engine: Podman, paths: BoxPaths) -> Path:
    """The files and sockets of one launch; gone after it, unless its steward was killed."""
    return engine.run / "b" / mark(paths)
