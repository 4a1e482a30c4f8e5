"""Every tree of a history judged, not only the last: what a commit holds stays in the repository."""

from __future__ import annotations

import time
from collections.abc import Sequence
from subprocess import DEVNULL
from typing import TYPE_CHECKING

from backends.evidence.visible import text_of
from backends.gate.commits.values import (
    MOST_ENTRIES,
    MOST_LINKED,
    MOST_LISTED,
    MOST_SECONDS,
    Commit,
    Unfit,
)
from backends.gate.objects import GITLINK, LIST, SYMLINK, Entry, listing, parse, sizes
from backends.gate.rows import REFUSED, Rows
from backends.gate.structure import check_links, check_shape
from backends.trees.names import embedded_repositories

if TYPE_CHECKING:
    from backends.trees.git import Git

_BLOCK = 1 << 20
LONGEST_LINK = 4096  # bytes of a target; PATH_MAX of limits.h


def require_sound(git: Git, base_tree: str, commits: Sequence[Commit]) -> None:
    """``Unfit`` naming the first commit whose tree the gate would refuse to take, and the path.

    Compared with the base: what is wrong there already is the source's own.
    """
    base = listing(git, base_tree).entries
    known = frozenset(embedded_repositories(base))
    seen = {base_tree}
    looked = 0
    until = time.monotonic() + MOST_SECONDS
    for commit in commits:
        if commit.tree in seen:
            continue
        seen.add(commit.tree)
        tree = parse(_listed(git, commit))
        looked += len(tree.entries)
        if looked > MOST_ENTRIES or time.monotonic() > until:
            raise Unfit("its commits hold more paths than can be looked at")
        _no_long_link(git, commit, tree.entries)
        rows = Rows(lambda path: "")  # nothing of it is acknowledged
        check_shape(rows, base, tree.entries, tree.repeated, known)
        check_links(rows, git, base, tree.entries)
        for path, entry in tree.entries.items():
            if entry.mode == GITLINK and base.get(path) != entry:
                rows.add("submodule", REFUSED, "moves a submodule, whose commits do not travel along", path)
        for row in rows.finish():
            if row.verdict == REFUSED:
                where = f"{text_of(row.path)}: " if row.path is not None else ""
                raise Unfit(f"commit {commit.id[:12]}: {where}{row.reason}")


def _listed(git: Git, commit: Commit) -> bytes:
    """The paths of a commit, read no further than the bound: a tree that holds another ten times, and so on
    for ten levels, is eleven objects and ten thousand million paths."""
    parts: list[bytes] = []
    size = 0
    with git.start(*LIST, commit.tree, stdin=DEVNULL) as process:
        assert process.stdout is not None
        try:
            while size <= MOST_LISTED and (data := process.stdout.read(_BLOCK)):
                parts.append(data)
                size += len(data)
        finally:
            if size > MOST_LISTED:
                process.kill()
    if size > MOST_LISTED:
        raise Unfit(f"commit {commit.id[:12]} holds more paths than can be looked at")
    if process.returncode != 0:
        raise Unfit(f"commit {commit.id[:12]} has a tree that cannot be listed")
    return b"".join(parts)


def _no_long_link(git: Git, commit: Commit, entries: dict[bytes, Entry]) -> None:
    links = {path: entry.oid for path, entry in entries.items() if entry.mode == SYMLINK}
    known = sizes(git, links.values())
    if sum(known.values()) > MOST_LINKED:
        raise Unfit(f"commit {commit.id[:12]} holds more links than can be looked at")
    for path, oid in links.items():
        if known[oid] > LONGEST_LINK:
            raise Unfit(
                f"commit {commit.id[:12]}: {text_of(path)}: is a link with a target of {known[oid]} bytes"
            )
