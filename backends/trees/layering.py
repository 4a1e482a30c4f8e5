"""Making shared layers (:mod:`backends.trees.layers`): whole from a base, or thin over a known one.

A base that lies near a known one is a thin layer: its changed files and whiteouts, over the known one. Hard
links to the known layer's files would cost one link for each file of the tree, and move the change time of
files that are sealed; a thin layer costs what changed.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from backends.kernel import mounts
from backends.trees import checkout, ignore, index, layers, seal
from backends.trees.checkout import GITLINK, Row
from backends.trees.git import Git
from backends.trees.layers import Layer
from backends.trees.listing import Listing
from backends.trees.remove import remove

DEEPEST = 8  # thin layers over each other, before a base is checked out whole: each costs every lookup
NEIGHBOURS = 4  # layers that a new base is compared with
OTHERS = 64  # latest layers of other repositories, of which this one may have the trees as well
FEW = 64  # changes that are always few
THIN = 0.25  # largest part of a tree that may have changed for a thin layer


def make(git: Git, tree: str, key: str) -> Layer:
    """The layer of ``tree``, made; for :func:`backends.trees.layers.use`, which holds the lock."""
    fresh = layers.root() / f"{layers.FRESH}{os.getpid()}-{os.urandom(4).hex()}"
    (fresh / "tree").mkdir(mode=0o755, parents=True)
    (fresh / "tree").chmod(0o755)
    try:
        with open(fresh / "listing", "wb") as file:
            git.run("ls-tree", "-r", "-z", "--full-tree", tree, stdout=file.fileno())
        below, data = _thin(git, tree, key, fresh) or _whole(git, tree, fresh)
        _finish(git, tree, key, fresh, below, data)
        kept = layers.root() / tree
        if kept.exists() and layers.find(tree) is None:
            layers.discard(Layer(kept, tree, ()))  # an older format, or what lay under it is gone
        try:
            fresh.rename(kept)
        except OSError:
            if layers.find(tree) is None:
                raise
            remove(fresh)  # another cloche made the same one meanwhile
    except BaseException:
        remove(fresh)
        raise
    return Layer(kept, tree, below)


def _finish(git: Git, tree: str, key: str, fresh: Path, below: tuple[str, ...], entries: bytes) -> None:
    layer = Layer(fresh, tree, below)
    layer.gitdir.mkdir(mode=0o755)
    layer.gitdir.chmod(0o755)
    layer.entries.write_bytes(entries)
    layer.entries.chmod(0o644)
    seal.write(layer.gitdir, layer.gitdir_seal)
    (fresh / "rules").write_bytes(rules(git, (fresh / "listing").read_bytes()))
    seal.write(fresh / "tree", fresh / "seal")
    about = {
        "version": layers.VERSION,
        "tree": tree,
        "repository_key": key,
        "below": list(below),
        "made": time.time(),
    }
    (fresh / "about.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")


def _hash_name(tree: str) -> str:
    return "sha256" if len(tree) == 64 else "sha1"


def _whole(git: Git, tree: str, fresh: Path) -> tuple[tuple[str, ...], bytes]:
    rows = checkout.listing((fresh / "listing").read_bytes())
    written = checkout.write_rows(git, rows, fresh / "tree")
    return (), index.build(written, _hash_name(tree))


def rules(git: Git, listing: bytes) -> bytes:
    """The ``.gitignore`` files of a tree as ``path NUL length NUL content``, by its listing."""
    wanted: list[tuple[bytes, bytes]] = []
    at = listing.find(b".gitignore\0")
    while at >= 0:
        begin = listing.rfind(b"\0", 0, at) + 1
        meta, _, path = listing[begin : at + 10].partition(b"\t")
        mode, _, oid = meta.split(b" ")
        if path.rpartition(b"/")[2] == b".gitignore" and mode in (b"100644", b"100755"):
            wanted.append((path, oid))
        at = listing.find(b".gitignore\0", at + 1)
    if not wanted:
        return b""
    out = git.run("cat-file", "--batch", "--buffer", input=b"".join(oid + b"\n" for _, oid in wanted))
    parts: list[bytes] = []
    at = 0
    for path, _ in wanted:
        end = out.index(b"\n", at)
        size = int(out[at:end].split(b" ")[2])
        content = out[end + 1 : end + 1 + min(size, ignore.LARGEST + 1)]
        at = end + 1 + size + 1
        parts.append(b"%s\0%d\0%s" % (path, len(content), content))
    return b"".join(parts)


class _Change(NamedTuple):
    """One row of git-diff-tree(1) without renames; ``row`` is ``None`` for a path that is gone."""

    path: bytes
    row: Row | None


def _thin(git: Git, tree: str, key: str, fresh: Path) -> tuple[tuple[str, ...], bytes] | None:
    """A layer of the changes against the nearest known one; ``None`` when none is near."""
    best: tuple[list[_Change], Layer] | None = None
    for layer in _neighbours(git, key):
        found = _changes(git, layer.tree, tree)
        if found is not None and (best is None or len(found) < len(best[0])):
            best = found, layer
    if best is None:
        return None
    changes, near = best
    data = (fresh / "listing").read_bytes()
    if len(changes) > FEW + THIN * data.count(b"\0"):
        return None
    rows = checkout.listing(b"".join(_line(one.row) for one in changes if one.row))
    written = checkout.write_rows(git, rows, fresh / "tree")
    gone = [one.path for one in changes if one.row is None]
    _hide(fresh / "tree", Listing(data), gone)
    entries = index.splice(near.entries.read_bytes(), set(gone), written, _hash_name(tree))
    return (near.tree, *near.below), entries


def _line(row: Row) -> bytes:
    kind = b"commit" if row.mode == GITLINK else b"blob"
    return b"%06o %s %s\t%s\0" % (row.mode, kind, row.oid, row.path)


def _neighbours(git: Git, key: str) -> list[Layer]:
    """Layers that another one may lie on: the latest of the repository, then of others with a tree it has.

    A second clone has the trees of the first, and a layer is its tree, whoever made it.
    """
    near: list[tuple[bool, float, str]] = []
    for folder in layers.root().iterdir():
        about = layers.about(folder) if folder.name.isalnum() else None
        if about and len(about["below"]) < DEEPEST:
            near.append((about["repository_key"] == key, folder.stat().st_mtime, folder.name))
    near.sort(reverse=True)
    own = [name for mine, _, name in near if mine][:NEIGHBOURS]
    if len(own) < NEIGHBOURS:
        own += _held(git, [name for mine, _, name in near if not mine][:OTHERS])
    return [layer for name in own[:NEIGHBOURS] if (layer := layers.find(name)) is not None]


def _held(git: Git, trees: list[str]) -> list[str]:
    """Those of ``trees`` that the repository has; the same id in another hash function is none of them."""
    if not trees:
        return []
    done = git.call("cat-file", "--batch-check", input="".join(f"{tree}\n" for tree in trees).encode())
    told = [line.split(b" ") for line in done.stdout.splitlines()]
    return [os.fsdecode(words[0]) for words in told if len(words) == 3 and words[1] == b"tree"]


def _changes(git: Git, old: str, new: str) -> list[_Change] | None:
    """What differs between two trees, in order; ``None`` when the repository has lost the old one."""
    done = git.call("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", old, new)
    if done.status != 0:
        return None
    fields = done.stdout.split(b"\0")[:-1]
    changes: list[_Change] = []
    for meta, path in zip(fields[::2], fields[1::2], strict=True):
        _, mode, _, oid, status = meta.split(b" ")
        changes.append(_Change(path, None if status == b"D" else Row(int(mode, 8), oid, path)))
    changes.sort()
    return changes


def _hide(tree: Path, now: Listing, gone: list[bytes]) -> None:
    """Whiteouts for what lower layers have and this base has not, each at the topmost name that is gone."""
    top = os.open(tree, checkout.FOLDER_FLAGS)
    try:
        for path in gone:
            _hide_one(top, path.split(b"/"), now)
    finally:
        os.close(top)


def _hide_one(top: int, parts: list[bytes], now: Listing) -> None:
    fd = os.dup(top)
    try:
        for depth in range(1, len(parts) + 1):
            path = b"/".join(parts[:depth])
            meta = now.get(path)
            submodule = meta is not None and meta.startswith(b"160000")
            if meta is not None and not submodule:
                return  # a file or a link took the place of a folder, and hides it
            if not submodule and not now.holds(path):
                try:
                    mounts.whiteout(parts[depth - 1], dir_fd=fd)
                except FileExistsError:
                    return  # hidden already, with another path below it
                return
            if depth == len(parts):
                return  # a folder took the place of a file, and hides it
            with suppress(FileExistsError):
                os.mkdir(parts[depth - 1], 0o755, dir_fd=fd)
            below = os.open(parts[depth - 1], checkout.FOLDER_FLAGS, dir_fd=fd)
            os.close(fd)
            fd = below
    finally:
        os.close(fd)
