"""What crashes leave of containers: records in Podman's table, files of launches. For ``cloche gc``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from backends.boxes.layout import BoxPaths, runtime_dir
from backends.container import gvisor_left, images, places, plan
from backends.container.plan import RECORDS, REMOVE
from backends.container.podman import Podman, find, prepare, store_dir
from backends.errors import ClocheError
from backends.trees.remove import remove


def sweep(live: Iterable[BoxPaths]) -> int:
    """Remove every container and launch folder of Cloche's own store but those of ``live``; how many.

    0 without asking Podman where nothing can be left. ``ClocheError`` as Podman or removal says.
    """
    if find() is None or not (_launched() or any((store_dir() / RECORDS).glob("?" * 64))):
        return 0
    engine = prepare()
    kept = {places.mark(paths) for paths in live}
    count = 0
    said = images.call(
        engine,
        "ps",
        "--all",
        "--external",
        "--no-trunc",
        "--format",
        "{{.Names}} {{.ID}}",
        doing="listing containers",
    )
    rows = [line.partition(" ") for line in said.splitlines()]
    gvisor_left.end(engine, {ident for name, _, ident in rows if name.removeprefix(places.PREFIX) in kept})
    for name, _, ident in rows:
        if name.startswith(places.PREFIX) and name.removeprefix(places.PREFIX) not in kept:
            _drop(engine, name)
            plan.drop_groups(ident)
            count += 1
    plan.drop_old_groups()
    folders = engine.run / "b"
    for folder in sorted(folders.iterdir()) if folders.is_dir() else ():
        if folder.name not in kept:
            with contextlib.suppress(FileNotFoundError):  # its steward was still at it
                remove(folder)
            count += 1
    return count


def _launched() -> bool:
    """Whether a launch of this boot left files, or is at work."""
    return any(runtime_dir().glob("podman-*/b/*"))  # of another state folder's too: Podman is asked then


def _drop(engine: Podman, name: str) -> None:
    """Remove one container. Where its monitor was killed Podman finds out only by failing to stop it."""
    for last in (False, True):
        try:
            images.call(engine, *REMOVE, name, doing=f"removing the container {name}")
        except ClocheError:
            if last:
                raise
        else:
            return
