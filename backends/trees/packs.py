"""Cached packs: for one base, exactly the objects that it reaches, for the box's repository to borrow.

The source's own object folder would show a box what was reset away or stashed. A folder of this cache holds
the objects of one base and nothing else; it is itself laid out like an object folder. The next base of the
same repository adds a pack with its difference only, and hard links to the packs of an ancestor.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from backends.boxes.layout import cache_dir
from backends.record import NamedTuple
from backends.trees.git import Git, Output, failure
from backends.trees.values import Base

if TYPE_CHECKING:
    from subprocess import Popen

CANDIDATES = 8  # latest bases that are asked whether they are ancestors
LAYERS = 16  # packs in one folder, before everything is packed anew: each costs every lookup
# No new deltas: those of the source are kept, and the time to find others costs more than their bytes.
PACK = ("pack-objects", "--revs", "--delta-base-offset", "--window=0", "-q")


class Building(NamedTuple):
    """A pack that Git is writing, so that the caller can check out meanwhile."""

    process: Popen[bytes] | None  # None: it lay in the cache
    fresh: Path
    kept: Path


def root() -> Path:
    """The folder of all packs, private to the user."""
    return cache_dir() / "packs"


def begin(source: Git, repository_key: str, base: Base, history: str) -> Building:
    """Start to pack what ``base`` reaches (``history`` "full") or its tree alone ("none")."""
    group = root() / repository_key
    kept = group / (base.commit if history == "full" else f"tree-{base.tree}")
    if (kept / "pack").is_dir():
        os.utime(kept)  # so that nobody prunes it before the box that is being made says that it borrows
        return Building(None, kept, kept)
    root().mkdir(mode=0o700, parents=True, exist_ok=True)
    group.mkdir(mode=0o700, exist_ok=True)
    fresh = group / f".new-{os.getpid()}-{os.urandom(4).hex()}"
    (fresh / "pack").mkdir(parents=True)
    (fresh / "info").mkdir()
    wanted = base.commit if history == "full" else base.tree
    known = _ancestor(source, group, base.commit) if history == "full" else None
    if known is not None:
        for part in (known / "pack").iterdir():
            os.link(part, fresh / "pack" / part.name)
        wanted += f"\n^{known.name}"
    # The list is one line or two: it fits the pipe, so nobody waits for a reader.
    read, write = os.pipe()
    os.write(write, wanted.encode() + b"\n")
    os.close(write)
    try:
        process = source.start(*PACK, fresh / "pack" / "pack", stdin=read)
    finally:
        os.close(read)
    return Building(process, fresh, kept)


def finish(building: Building) -> Path:
    """Wait for the pack and return the folder that holds it; ``ClocheError`` when Git failed."""
    if building.process is None:
        return building.kept
    with building.process as process:
        out, complaint = process.communicate()
    if process.returncode != 0:
        raise failure(PACK[:1], Output(process.returncode, out, complaint))
    # The box reads it as another user, whatever the umask is here; the folders above stay private.
    for folder in (building.fresh, building.fresh / "pack", building.fresh / "info"):
        folder.chmod(0o755)
    for part in (building.fresh / "pack").iterdir():
        part.chmod(0o444)
    try:
        building.fresh.rename(building.kept)
    except OSError:
        if not (building.kept / "pack").is_dir():
            raise
        _delete(building.fresh)  # another cloche packed the same base meanwhile
    return building.kept


def abandon(building: Building) -> None:
    """End the packing and remove what it wrote so far."""
    if building.process is not None:
        if building.process.poll() is None:
            building.process.kill()
            building.process.communicate()
        _delete(building.fresh, ignore_errors=True)


def _delete(folder: Path, *, ignore_errors: bool = False) -> None:
    import shutil  # with all its archive formats, and few commands delete a pack

    shutil.rmtree(folder, ignore_errors=ignore_errors)


def _ancestor(source: Git, group: Path, commit: str) -> Path | None:
    """The latest cached base that ``commit`` descends from: all that it holds, ``commit`` reaches too."""
    folders = [entry for entry in group.iterdir() if entry.name.isalnum()]
    folders.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for folder in folders[:CANDIDATES]:
        if source.call("merge-base", "--is-ancestor", folder.name, commit).status == 0:
            layers = sum(1 for part in (folder / "pack").iterdir() if part.suffix == ".pack")
            return folder if layers < LAYERS else None
    return None


def prune(used: set[Path], *, age: float = 3600.0) -> int:
    """Remove every cached folder that is not in ``used`` and was not asked for in the last ``age`` seconds.

    Also what a packing that was killed left behind. Returns the number removed.
    """
    removed = 0
    latest = time.time() - age
    for folder in root().glob("*/*"):
        if folder not in used and folder.stat().st_mtime <= latest:
            _delete(folder)
            removed += 1
    return removed
