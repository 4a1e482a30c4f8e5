"""The quarantine: a bare repository that the host owns, into which a box's tree is read.

It borrows the source's objects and adds what a box changed, so that every later command works on objects
that no box can reach. Its attributes outrank any ``.gitattributes`` of the tree: bytes decide what is text,
and a blob is the file's bytes (gitattributes(5): ``$GIT_DIR/info/attributes`` has the highest precedence).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.errors import Busy
from backends.trees.git import Git
from backends.trees.names import quote

ATTRIBUTES = (
    b"* !diff -text !eol -ident -filter !working-tree-encoding !merge"
    b" !conflict-marker-size !whitespace !export-subst !export-ignore\n"
)
CONFIG = """[core]
\trepositoryformatversion = {version}
\tbare = true
\tfilemode = true
\tlogAllRefUpdates = false
\tpreferSymlinkRefs = false
[gc]
\tauto = 0
"""
STAT_CACHE = "stat-cache"  # what backends.trees.statcache keeps of the last walk
STAT_CACHE_NEW = "stat-cache.new"
LOCK_WAIT = 30.0  # seconds that one snapshot waits for another of the same box


def git(paths: BoxPaths) -> Git:
    """Git on the quarantine of a box."""
    return Git(paths.quarantine)


def init(paths: BoxPaths, source_objects: Path | None, object_format: str = "sha1") -> Git:
    """Make the quarantine of a box, borrowing from ``source_objects`` (``None``: from nobody).

    ``object_format`` is ``sha1`` or ``sha256``, the source's (git-config(1), ``extensions.objectFormat``).
    """
    root = paths.quarantine
    make_skeleton(root, config(object_format), borrowed=[source_objects] if source_objects else [])
    put(root, "HEAD", b"ref: refs/heads/main\n")
    os.mkdir(f"{root}/info")
    put(root, "info/attributes", ATTRIBUTES)
    return Git(root)


def config(object_format: str) -> str:
    """The configuration of a repository that the host owns."""
    if object_format == "sha1":
        return CONFIG.format(version=0)
    return CONFIG.format(version=1) + f"[extensions]\n\tobjectFormat = {object_format}\n"


def make_skeleton(root: Path, configuration: str, borrowed: list[Path]) -> None:
    """The folders and the configuration of a git directory (gitrepository-layout(5)), without its HEAD.

    Written by hand: ``git init`` would copy a template folder, hooks included. What Git makes by itself when
    it is first written to (``objects/pack``, ``refs/heads``) is left to it: each folder of a box costs at its
    creation, at each start, where it is measured, and at its end.
    """
    os.mkdir(root, 0o700)
    for folder in ("objects", "objects/info", "refs"):
        os.mkdir(f"{root}/{folder}")
    put(root, "config", configuration.encode())
    if borrowed:
        lines = b"".join(quote(os.fsencode(path)) + b"\n" for path in borrowed)
        put(root, "objects/info/alternates", lines)


def put(root: Path, name: str, content: bytes) -> None:
    """Write a file of a git directory that is being made."""
    file = os.open(f"{root}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        os.write(file, content)
    finally:
        os.close(file)


@contextmanager
def locked(paths: BoxPaths) -> Iterator[None]:
    """Hold the quarantine for one snapshot; another host process that reads the same box waits.

    The lock is the quarantine's own file, never one that the box's Git needs. ``Busy`` after half a minute.
    """
    import time

    fd = os.open(paths.quarantine / "snapshot.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_WAIT
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise Busy(
                        f"the files of {paths.name} cannot be read now",
                        f"another cloche has been reading them for {LOCK_WAIT:.0f} seconds",
                        "wait for it to end, then run the command again",
                        code="snapshot-busy",
                    ) from error
                time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def sweep(paths: BoxPaths) -> None:
    """Remove what an import that did not end left behind; only while the quarantine is held."""
    root = paths.quarantine
    leftovers = [*root.glob("fast_import_crash_*"), *(root / "objects" / "pack").glob("tmp_*")]
    for path in (*leftovers, root / STAT_CACHE_NEW):
        path.unlink(missing_ok=True)
