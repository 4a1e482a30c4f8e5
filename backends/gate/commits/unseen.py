"""What keeping commits brings into a repository beside the proposal: what only commits on the way hold.

A reviewer reads one change, from the base to the last tree. What a commit added and a later one took away is
in no line of it, and is in the repository for good.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

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


class Step(NamedTuple):
    """What one mail makes: the tree, and what it says in words, with who made it."""

    tree: str
    said: str


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


def step(commit: Commit) -> Step:
    """What the mail of a commit makes. Such a commit is UTF-8; a mail does not carry its committer."""
    said = b"\n".join((commit.message, commit.author.name, commit.author.email))
    return Step(commit.tree, said.decode("utf-8", "surrogateescape"))


def mailed(git: Git, base_tree: str, steps: Sequence[Step]) -> tuple[CheckRow, ...]:
    """The same of a series of mails, by their numbers: who has no box comes to the same words."""
    trees = [base_tree, *(step.tree for step in steps)]
    pairs = [f"{old} {new}" for old, new in itertools.pairwise(trees)]
    number = {pair: at for at, pair in reversed(list(enumerate(pairs, 1)))}
    rows = []
    found = _versions(git, (base_tree, trees[-1]), pairs) if len(set(trees)) > 2 else []
    if found:
        said = ", ".join(f"{visible(path[:200])} in mail {number[pair]}" for path, pair in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        many = f"{len(found)} versions of files are" if len(found) > 1 else "1 version of a file is"
        rows.append(f"{many} in the mails and not in the proposal: {said}{more}")
    for at, step in enumerate(steps, 1):
        unseen = hidden(step.said, keep=JOINING)
        if unseen:
            names = ", ".join(map(name_of, sorted(set(unseen))[:4]))
            rows.append(f"mail {at}: its message or who made it holds {names}")
            break
    return tuple(CheckRow(_ID, WARNED, reason, None, _key(reason, trees[-1])) for reason in rows)


def _only_on_the_way(git: Git, base_tree: str, commits: Sequence[Commit]) -> list[tuple[bytes, str]]:
    """Path and commit of each version of a file that is neither in the base nor in the last tree."""
    return _versions(git, (base_tree, commits[-1].tree), [one.id for one in commits])


def _versions(git: Git, ends: tuple[str, str], wanted: Sequence[str]) -> list[tuple[bytes, str]]:
    """Path of each version of a file that ``wanted`` (commits, or pairs of trees) bring and no tree of
    ``ends`` has, with the first of them that does."""
    known = {(entry.mode, entry.oid) for tree in ends for entry in listing(git, tree).entries.values()}
    args = ("diff-tree", "--stdin", "-m", "-r", "-z", "--raw", "--no-renames", "--full-index")
    fields = iter(git.run(*args, input="".join(f"{one}\n" for one in wanted).encode()).split(b"\0"))
    found: dict[tuple[int, str], tuple[bytes, str]] = {}
    at = ""
    for field in fields:
        if not field.startswith(b":"):
            # A commit's id ends with a NUL as all else does, a pair of trees always with a line end.
            heads, _, field = field.rpartition(b"\n:")
            if not heads:
                at = field.strip().decode("ascii")
                continue
            at = heads.rpartition(b"\n")[2].decode("ascii")
            field = b":" + field
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
    return CheckRow(_ID, WARNED, reason, None, _key(reason, top.id))


def _key(reason: str, about: str) -> str:
    return sha256(json.dumps([_ID, reason, about]).encode("ascii")).hexdigest()[:32]
