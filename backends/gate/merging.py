"""The commit that apply would make, built of objects in the quarantine; no branch and no file is touched."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from backends.errors import Busy, ClocheError, Conflict, Refused
from backends.evidence.visible import text_of
from backends.trees.git import Git, failure

NAMED = 20  # conflicting files named in a message


class Result(NamedTuple):
    """A commit in the quarantine whose first parent is the branch's tip."""

    commit: str
    tree: str
    mode: str  # fast-forward, merge, squash
    parents: tuple[str, ...]
    work: str = ""  # a commit in its history whose tree is exactly what was taken


def merge(
    quarantine: Git,
    *,
    base: str,
    tip: str,
    tree: str,
    message: str,
    merge_message: str,
    squash: bool,
    who: Mapping[str, str],
    when: float,
    head: str = "",
) -> Result:
    """Put ``tree``, a change to ``base``, on top of ``tip``.

    ``head`` is a commit with that tree on top of the base, which is taken as it is instead of a new one.

    With ``tip`` still at ``base`` the commit holds exactly ``tree``. Otherwise the change is merged
    (git-merge-tree(1)): as a merge commit, or with ``squash`` as one commit. The second parent of a merge
    bears the time ``when`` and not the present one, so that it is known before it is made. ``Busy``
    when the branch no longer contains the base or the merge conflicts, naming the files.
    """
    git = quarantine.with_variables(who)
    if tip == base and head:
        parents = tuple(git.line("show", "--no-patch", "--format=%P", head).split())
        return Result(head, tree, "fast-forward", parents, head)
    if tip == base:
        made = _commit(git, tree, [base], message)
        return Result(made, tree, "squash" if squash else "fast-forward", (base,), made)
    kin = git.call("merge-base", "--is-ancestor", base, tip)
    if kin.status not in (0, 1):
        raise failure(("merge-base",), kin)
    if kin.status == 1:
        raise Busy(
            "the proposal cannot be applied",
            f"the branch was rewritten: it no longer contains the base {base[:12]}",
            "export the proposal and apply the patch by hand: cloche export BOX --out DIR",
            code="branch-rewritten",
        )
    then = f"@{int(when)} +0000"
    dated = git.with_variables({"GIT_AUTHOR_DATE": then, "GIT_COMMITTER_DATE": then})
    proposed = head or _commit(dated, tree, [base], message)
    merged = _merged_tree(git, tip, proposed)
    if squash:
        return Result(_commit(git, merged, [tip], message), merged, "squash", (tip,))
    made = _commit(git, merged, [tip, proposed], merge_message)
    return Result(made, merged, "merge", (tip, proposed), proposed)


def _commit(git: Git, tree: str, parents: list[str], message: str) -> str:
    args = ["commit-tree", tree, *(word for parent in parents for word in ("-p", parent)), "-F", "-"]
    return git.run(*args, input=message.encode("utf-8", "surrogateescape")).decode("ascii").strip()


def _merged_tree(git: Git, ours: str, theirs: str) -> str:
    tree, files = merged_tree(git, ours, theirs)
    if files:
        said = ", ".join(text_of(name) for name, _ in files[:NAMED])
        more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
        raise Conflict(
            "the proposal conflicts with what the branch gained since",
            f"both changed {said}{more}; nothing was changed",
            "bring the box onto the branch and solve it there: cloche rebase BOX; or export it and merge by "
            "hand",
            files,
        )
    return tree


def merged_tree(git: Git, ours: str, theirs: str) -> tuple[str, tuple[tuple[bytes, str], ...]]:
    """The tree that merging two commits gives, and the files that conflict: path and Git's word for how.

    Where files conflict the tree holds them as Git leaves them to be solved (git-merge-tree(1)): with marks.
    """
    args = ("merge-tree", "--write-tree", "-z", "--name-only", ours, theirs)
    done = git.call(*args)
    tree, _, rest = done.stdout.partition(b"\0")
    if done.status == 129:
        raise Refused(
            "the proposal cannot be merged",
            f"this Git is too old: {os.fsdecode(git.run('version')).strip()}",
            "install Git 2.38 or newer",
            code="git-too-old",
        )
    if done.status not in (0, 1):
        raise failure(args, done)
    return tree.decode("ascii"), conflicts(rest) if done.status == 1 else ()


def conflicts(text: bytes) -> tuple[tuple[bytes, str], ...]:
    """What ``git merge-tree -z --name-only`` tells after the tree: each file in conflict once, and how."""
    head, _, told = text.partition(b"\0\0")
    how = dict.fromkeys((name for name in head.split(b"\0") if name), "")
    fields = told.split(b"\0")
    at = 0
    while at < len(fields) and fields[at].isdigit():  # count, paths, kind, sentence
        count = int(fields[at])
        kind = fields[at + count + 1 : at + count + 2]
        word = text_of(kind[0]).partition("(")[2].rstrip(")") if kind else ""
        for name in fields[at + 1 : at + 1 + count]:
            if word and name in how and not how[name]:
                how[name] = word
        at += count + 3
    return tuple((name, word or "contents") for name, word in how.items())


def carry(quarantine: Git, objects: Path, new: str, known: tuple[str, ...], shared: str, tmp: Path) -> None:
    """Copy what ``new`` reaches beyond the ``known`` commits into another object folder, checked by fsck.

    ``objects`` is the source repository's folder, ``shared`` its ``core.sharedRepository`` ("" when unset).
    The objects are one pack. It is first read into a folder of its own in ``tmp``, because a pack that does
    not pass would leave its remains behind.
    """
    wanted = "".join([f"{new}\n", *(f"^{commit}\n" for commit in known)])
    pack = quarantine.run("pack-objects", "--revs", "--stdout", "-q", input=wanted.encode())
    with tempfile.TemporaryDirectory(prefix="apply-", dir=tmp) as scratch:
        Path(scratch, "pack").mkdir()
        aside = {
            "GIT_OBJECT_DIRECTORY": scratch,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": alternates(objects),
        }
        done = quarantine.with_variables(aside).call("index-pack", "--stdin", "--strict", input=pack)
        if done.status != 0:
            said = os.fsdecode(done.stderr).strip().splitlines()
            raise Refused(
                "the proposal does not enter the repository",
                said[-1].removeprefix("fatal: ") if said else f"git index-pack: {done.status}",
                "take it back and remove what Git refuses: cloche reopen BOX",
                code="fsck",
            )
    into = quarantine.with_variables({"GIT_OBJECT_DIRECTORY": os.fspath(objects)})
    sharing = f"core.sharedRepository={shared or 'umask'}"
    done = into.call("-c", sharing, "index-pack", "--stdin", "--strict", input=pack)
    if done.status != 0:
        said = os.fsdecode(done.stderr).strip().splitlines()
        raise ClocheError(
            "the proposal could not be copied into the repository",
            said[-1] if said else f"exit status {done.status}",
            f"look at the disk and the permissions of {objects}",
            code="import",
        )


def alternates(path: Path) -> str:
    """A path for ``GIT_ALTERNATE_OBJECT_DIRECTORIES``, quoted as git(1) says where it holds a colon."""
    text = os.fspath(path)
    if ":" not in text and not text.startswith('"'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def shallow_of(common_dir: Path) -> dict[str, str]:
    """The variable that tells Git where the history of a shallow source ends (git(1), shallow(5))."""
    boundary = common_dir / "shallow"
    return {"GIT_SHALLOW_FILE": os.fspath(boundary)} if boundary.exists() else {}
