"""What crashes leave of containers: records in Podman's table, files of launches. For ``cloche gc``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from backends.boxes.layout import BoxPaths, runtime_dir
from backends.container import images, places
from backends.container.podman import find, prepare, store_dir
from backends.trees.remove import remove


def sweep(live: Iterable[BoxPaths]) -> int:
    """Remove every container and launch folder of Cloche's own store but those of ``live``; how many.

    0 without a look where nobody ever used Podman here. ``ClocheError`` as Podman or removal says.
    """
    if find() is None or not store_dir().is_dir() or not any(runtime_dir().glob("podman-*")):
        return 0
    engine = prepare()
    kept = {places.mark(paths) for paths in live}
    count = 0
    said = images.call(engine, "ps", "--all", "--format", "{{.Names}}", doing="listing the containers")
    for name in said.split():
        if name.startswith(places.PREFIX) and name.removeprefix(places.PREFIX) not in kept:
            words = ("rm", "--force", "--time=0", "--ignore", name)
            images.call(engine, *words, doing=f"removing the container {name}")
            count += 1
    folders = engine.run / "b"
    for folder in sorted(folders.iterdir()) if folders.is_dir() else ():
        if folder.name not in kept:
            with contextlib.suppress(FileNotFoundError):  # its steward was still at it
                remove(folder)
            count += 1
    return count
