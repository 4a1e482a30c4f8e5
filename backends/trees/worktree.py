"""The linked worktree of the ``workspace`` tier: branch ``cloche/<box>`` in the source repository itself.

Nothing confines that tier, and its users expect what ``git worktree`` gives. The files are still written raw,
without filters and without hooks.
"""

from __future__ import annotations

import os
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.errors import Busy, ClocheError
from backends.trees import index, source
from backends.trees.checkout import Written, checkout
from backends.trees.git import Git
from backends.trees.repo import branch
from backends.trees.values import Base, Source


def add(paths: BoxPaths, origin: Source, base: Base) -> list[Written]:
    """Make the worktree at the box's tree, on a new branch at the base; what was written, in tree order.

    ``Busy`` when the branch exists. A failure after Git's part takes the worktree and the branch back.
    """
    git = Git(Path(origin.common_dir))
    name = branch(paths.name)
    if source.tip(origin, name):
        raise Busy(
            f"the branch {name.removeprefix('refs/heads/')} exists already",
            "an earlier box of that name left it, or you made it",
            f"choose another name, or delete it: git branch -D {name.removeprefix('refs/heads/')}",
            code="branch-exists",
        )
    git.run(
        "worktree", "add", "--no-checkout", "-b", name.removeprefix("refs/heads/"), paths.tree, base.commit
    )  # fmt: skip
    try:
        written = checkout(git, base.tree, paths.tree)
        administrative = find(paths, origin)
        if administrative is None:
            raise ClocheError(
                f"the worktree of {paths.name} cannot be found",
                f"git worktree add left no entry for {paths.tree}",
                "git worktree list",
                code="no-worktree",
            )
        index.write(administrative / "index", written, source.object_format(base.commit))
    except BaseException:
        release(paths, origin)
        raise
    return written


def find(paths: BoxPaths, origin: Source) -> Path | None:
    """The administrative folder of the box's worktree (``$GIT_DIR/worktrees/<id>``), ``None`` when gone.

    Found by what Git wrote in the source, not by the ``.git`` file in the tree, which the box can change.
    """
    wanted = os.fsencode(paths.tree / ".git")
    folder = Path(origin.common_dir) / "worktrees"
    if not folder.is_dir():
        return None
    for candidate in folder.iterdir():
        pointer = candidate / "gitdir"
        if pointer.is_file() and pointer.read_bytes().rstrip(b"\n") == wanted:
            return candidate
    return None


def release(paths: BoxPaths, origin: Source) -> str:
    """Take the worktree's entry and its branch out of the source; the commit the branch was at, "" if gone.

    The tree's files are not touched: removal of the box does that.
    """
    from backends.trees.remove import remove

    administrative = find(paths, origin)
    if administrative is not None:
        remove(administrative)
    name = branch(paths.name)
    tip = source.tip(origin, name)
    if tip:
        Git(Path(origin.common_dir)).run("update-ref", "--no-deref", "-d", name, tip)
    return tip
