"""A box's own repository: it borrows the base's objects read-only and may ruin nothing but itself.

The folder lies beside the tree and is mounted as ``.git`` only inside. Its alternates name the place where
the tier mounts the borrowed folders *inside* (:mod:`backends.trees.borrowing`), because host paths do not
exist there.
The host starts Git on this repository only while it is made: afterwards it belongs to the box.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from backends.boxes.layout import BoxPaths
from backends.trees.borrowing import INSIDE_OBJECTS, OBJECTS_FILE
from backends.trees.git import Git
from backends.trees.quarantine import make_skeleton, put
from backends.trees.source import object_format
from backends.trees.values import Base

if TYPE_CHECKING:
    from backends.trees.checkout import Written

OBJECTS_VERSION = 1

CONFIG = """[core]
\trepositoryformatversion = {version}
\tbare = false
\tfilemode = true
\tlogAllRefUpdates = true
\tcheckStat = minimal
[user]
\tname = cloche {name}
\temail = {name}@box.invalid
"""


def branch(box: str) -> str:
    """The branch that a box begins on."""
    return f"refs/heads/cloche/{box}"


def make_private(
    paths: BoxPaths,
    base: Base,
    objects: Path,
    written: Iterable[Written] | None,
    *,
    history: str = "full",
    shallow: bytes = b"",
    owner: tuple[int, int] | None = None,
    apart: str = "",
) -> None:
    """Make the box's repository: HEAD on ``cloche/<box>`` at the base, index ready for the files ``written``.

    With ``written`` None the index is the shared one of a layer (``layers.Layer.gitdir``), over which the
    repository is mounted.

    ``objects`` is the folder from :mod:`backends.trees.packs`. With ``history`` "none" the base's tree is a
    root commit of its own. ``shallow`` is the source's file of that name, when its history is cut.
    ``owner`` (uid, gid) receives the repository. ``apart`` is a name at the top that Git is told to ignore,
    so that the box's own ``git add --all`` leaves it out as a snapshot does.
    """
    hash_name = object_format(base.commit)
    root = paths.repo
    make_skeleton(root, _config(paths.name, hash_name), borrowed=[Path(INSIDE_OBJECTS) / "0"])
    put(root, "HEAD", f"ref: {branch(paths.name)}\n".encode())
    os.mkdir(f"{root}/info")
    if apart:
        put(root, "info/exclude", os.fsencode(f"/{apart}\n"))
    if shallow:
        put(root, "shallow", shallow)
    commit = base.commit if history == "full" else _root_commit(Git(root), base)
    references = {branch(paths.name): commit}
    if base.ref and not (base.ref + "/").startswith(("refs/heads/cloche/", branch(paths.name) + "/")):
        references[base.ref] = commit  # so that `git diff main` means inside what it means outside
    lines = [f"{references[ref]} {ref}\n" for ref in sorted(references)]
    put(root, "packed-refs", b"# pack-refs with: sorted\n" + os.fsencode("".join(lines)))
    if written is None:
        paths.repo_work.mkdir(mode=0o700)
    else:
        from backends.trees import index

        index.write(root / "index", written, hash_name)
    text = json.dumps({"version": OBJECTS_VERSION, "folders": [os.fspath(objects)]}, indent=1) + "\n"
    put(paths.root, OBJECTS_FILE, text.encode())
    if owner:
        give(root, owner)
        if written is None:
            os.chown(paths.repo_work, *owner)


def give(root: Path, owner: tuple[int, int]) -> None:
    """Give a folder that no box has touched yet, and all in it, to ``owner``."""
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            os.chown(f"{folder}/{name}", *owner, follow_symlinks=False)
    os.chown(root, *owner, follow_symlinks=False)


def _config(name: str, hash_name: str) -> str:
    text = CONFIG.format(version=0 if hash_name == "sha1" else 1, name=name)
    return text if hash_name == "sha1" else text + f"[extensions]\n\tobjectFormat = {hash_name}\n"


def _root_commit(repository: Git, base: Base) -> str:
    who = f"cloche <cloche@invalid> {int(time.time())} +0000"
    content = f"tree {base.tree}\nauthor {who}\ncommitter {who}\n\nThe files of {base.commit}\n"
    oid = repository.run("hash-object", "-w", "-t", "commit", "--stdin", input=content.encode())
    return oid.decode("ascii").strip()
