"""What keeping commits brings into a repository beside the proposal: what only commits on the way hold.

A reviewer reads one change, from the base to the last tree. What a commit added and a later one took away is
in no line of it, and is in the repository for good.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backends.digest import sha256
from backends.evidence.visible import hidden, name_of, visible
from backends.gate.commits import parse
from backends.gate.commits.values import Commit
from backends.gate.objects import GITLINK, listing
from backends.gate.rows import WARNED
from backends.gate.wording import JOINING
from backends.snapshots import CheckRow

if TYPE_CHECKING:
    from backends.trees.git import Git

NAMED = 5  # paths that are named
_ID = "commits"


def check(git: Git, base_tree: str, commits: Sequence[Commit]) -> tuple[CheckRow, ...]:
    """A warning for the content that only commits on the way hold, and one for what their messages hide."""
    top = commits[-1]
    rows: list[CheckRow] = []
    if len({commit.tree for commit in commits}) > 1:
        found = _only_on_the_way(git, base_tree, commits)
        if found:
            said = ", ".join(f"{visible(path[:200])} in {oid[:12]}" for path, oid in found[:NAMED])
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            many = f"{len(found)} versions of files are" if len(found) > 1 else "1 version of a file is"
            rows.append(_row(f"{many} in the kept commits and not in the proposal: {said}{more}", top))
    said = _hiding(commits)
    if said:
        rows.append(_row(said, top))
    return tuple(rows)


def _only_on_the_way(git: Git, base_tree: str, commits: Sequence[Commit]) -> list[tuple[bytes, str]]:
    """Path and commit of each version of a file that is neither in the base nor in the last tree."""
    known = {
        (entry.mode, entry.oid)
        for tree in (base_tree, commits[-1].tree)
        for entry in listing(git, tree).entries.values()
    }
    wanted = "".join(f"{one.id}\n" for one in commits).encode()
    args = ("diff-tree", "--stdin", "-m", "-r", "-z", "--raw", "--no-renames", "--full-index")
    fields = iter(git.run(*args, input=wanted).split(b"\0"))
    found: dict[tuple[int, str], tuple[bytes, str]] = {}
    at = ""
    for field in fields:
        if not field.startswith(b":"):
            at = field.strip().decode("ascii")
            continue
        path = next(fields)
        mode, oid = int(field.split(b" ")[1], 8), field.split(b" ")[3].decode("ascii")
        if mode and mode != GITLINK and (mode, oid) not in known:
            found.setdefault((mode, oid), (path, at))
    return list(found.values())


def _hiding(commits: Sequence[Commit]) -> str:
    for commit in commits:
        unseen = {char for text in parse.readings(commit) for char in hidden(text, keep=JOINING)}
        if unseen:
            names = ", ".join(map(name_of, sorted(unseen)[:4]))
            return f"commit {commit.id[:12]}: its message or who made it holds {names}"
    return ""


def _row(reason: str, top: Commit) -> CheckRow:
    key = sha256(json.dumps([_ID, reason, top.id]).encode("ascii")).hexdigest()[:32]
    return CheckRow(_ID, WARNED, reason, None, key)
