"""What killed builds and imports leave in the store; for ``cloche gc``. One that runs holds a lock."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.boxes.layout import cache_dir
from backends.container import images, places
from backends.container.podman import Podman, find, prepare, store_dir

_PATIENCE = 120.0  # seconds


@contextmanager
def working(podman: Podman) -> Iterator[None]:
    """Held by whoever has files in the scratch folder or a build on its way."""
    fd = os.open(_lock(podman.store), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def _lock(store: Path) -> Path:
    return store / "working"


def sweep() -> int:
    """Remove what nobody works on any more; how many things.

    Scratch files, containers of builds, file systems of images that are gone. 0 without a look where nobody
    ever used Podman here, or while somebody works. ``ClocheError`` as Podman says.
    """
    if find() is None or not store_dir().is_dir():
        return 0
    podman = prepare()
    fd = os.open(_lock(podman.store), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        return _scratch(podman) + _builds(podman) + _file_systems(podman)
    finally:
        os.close(fd)


def _scratch(podman: Podman) -> int:
    left = [str(path) for path in (podman.store / "tmp").iterdir()]
    if left:
        # Some of it belongs to other ids of the user namespace.
        subprocess.run(
            [*podman.around(), "rm", "-rf", "--one-file-system", "--", *left],
            env=podman.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    return len(left)


def _builds(podman: Podman) -> int:
    """Containers that Podman's table does not know: those of builds (podman-ps(1), ``--external``).

    A box's is none of them: one that was launched with another runtime folder is in another table.
    """
    words = ("ps", "--all", "--external", "--format", "{{.ID}} {{.Status}} {{.Names}}")
    said = images.call(podman, *words, doing="listing the containers")
    rows = [line.split() for line in said.splitlines()]
    found = [
        row[0] for row in rows if row[1:2] == ["Storage"] and not "".join(row[2:3]).startswith(places.PREFIX)
    ]
    for ident in found:
        images.call(podman, "rm", "--force", ident, doing="removing what a build left")
    return len(found)


def _file_systems(podman: Podman) -> int:
    known = {image.hex for image in images.listing(podman)}
    left = [path for path in (cache_dir() / "rootfs").glob("*.*") if path.name.split(".")[0] not in known]
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)
