"""Which host folders of git objects a box's repository borrows; read at every launch, so lean."""

from __future__ import annotations

import json
from pathlib import Path

from backends.boxes.layout import BoxPaths

INSIDE_OBJECTS = "/run/cloche/objects"
OBJECTS_FILE = "objects.json"  # in the box's root: which host folders are borrowed


def borrowed(paths: BoxPaths) -> tuple[Path, ...]:
    """The host folders to mount read-only inside, number n at ``INSIDE_OBJECTS/n``; none at ``workspace``."""
    try:
        text = (paths.root / OBJECTS_FILE).read_text()
    except FileNotFoundError:
        return ()
    return tuple(Path(folder) for folder in json.loads(text)["folders"])
