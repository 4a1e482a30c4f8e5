"""The commit that apply would make, built of objects in the quarantine; no branch and no file is touched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from backends.errors import Busy, ClocheError, Refused
from backends.evidence.visible import visible
from backends.trees.git import Git, failure

NAMED = 20  # conflicting files named in a message


class Result(NamedTuple):
    """A commit in the quarantine whose first parent is the branch's tip."""

    commit: str
    tree: str
    mode: str  # fast-forward, merge, squash


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
) -> Result:
    """Put ``tree``, a change to ``base``, on top of ``tip``.

    With ``tip`` still at ``base`` the commit holds exactly ``tree``. Otherwise the change is merged
    (git-merge-tree(1)): as a merge commit, or with ``squash`` as one commit. ``Busy`` when the branch no
    longer contains the base or the merge conflicts, naming the files.
    """
    git = Git(quarantine.git_dir, variables=who)
    if tip == base:
        return Result(_commit(git, tree, [base], message), tree, "squash" if squash else "fast-forward")
    if git.call("merge-base", "--is-ancestor", base, tip).status != 0:
        raise Busy(
            "the proposal cannot be applied",
            f"the branch was rewritten: it no longer contains the base {base[:12]}",
            "export the proposal and apply the patch by hand: cloche export BOX --out DIR",
            code="branch-rewritten",
        )
    proposed = _commit(git, tree, [base], message)
    merged = _merged_tree(git, tip, proposed)
    if squash:
        return Result(_commit(git, merged, [tip], message), merged, "squash")
    return Result(_commit(git, merged, [tip, proposed], merge_message), merged, "merge")


def _commit(git: Git, tree: str, parents: list[str], message: str) -> str:
    args = ["commit-tree", tree, *(word for parent in parents for word in ("-p", parent)), "-F", "-"]
    return git.run(*args, input=message.encode("utf-8", "surrogateescape")).decode("ascii").strip()


def _merged_tree(git: Git, ours: str, theirs: str) -> str:
    args = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
    done = git.call(*args)
    tree, _, rest = done.stdout.partition(b"\0")
    if done.status == 1:
        names = list(dict.fromkeys(name for name in rest.split(b"\0") if name))
        said = ", ".join(visible(name) for name in names[:NAMED])
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise Busy(
            "the proposal conflicts with what the branch gained since",
            f"both changed {said}{more}; nothing was changed",
            "take it back and work on: cloche reopen BOX; or export it and merge by hand",
            code="conflict",
        )
    if done.status == 129:
        raise Refused(
            "the proposal cannot be merged",
            f"this Git is too old: {os.fsdecode(git.run('version')).strip()}",
            "install Git 2.38 or newer",
            code="git-too-old",
        )
    if done.status != 0:
        raise failure(args, done)
    return tree.decode("ascii")


def carry(quarantine: Git, objects: os.PathLike[str], new: str, known: tuple[str, ...], shared: str) -> None:
    """Copy what ``new`` reaches beyond the ``known`` commits into another object folder, checked by fsck.

    ``objects`` is the source repository's folder, ``shared`` its ``core.sharedRepository`` ("" when unset).
    Objects come in as one pack, which is not kept when Git finds anything wrong in it.
    """
    wanted = "".join([f"{new}\n", *(f"^{commit}\n" for commit in known)])
    pack = quarantine.run("pack-objects", "--revs", "--stdout", "-q", input=wanted.encode())
    importer = Git(quarantine.git_dir, variables={"GIT_OBJECT_DIRECTORY": os.fspath(objects)})
    args = ("-c", f"core.sharedRepository={shared or 'umask'}", "index-pack", "--stdin", "--strict")
    done = importer.call(*args, input=pack)
    if done.status != 0:
        said = os.fsdecode(done.stderr).strip().splitlines()
        if any("error" in line or "fsck" in line for line in said):
            raise Refused(
                "the proposal does not enter the repository",
                visible(said[-1].removeprefix("fatal: ")),
                "take it back and remove what Git refuses: cloche reopen BOX",
                code="fsck",
            )
        raise ClocheError(
            "the proposal could not be copied into the repository",
            visible(said[-1] if said else f"exit status {done.status}"),
            "look at the disk and the permissions of the repository's objects folder",
            code="import",
        )
