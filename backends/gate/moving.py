"""Moving a branch from one commit to another with the person's checkout of it, or neither of both."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.errors import Busy, ClocheError
from backends.gate import merging, worktree
from backends.gate.worktree import Checkout
from backends.trees import quarantine as quarantines
from backends.trees.git import Git, failure
from backends.trees.values import Source


def quarantine_of(paths: BoxPaths, source: Source) -> Git:
    """The box's quarantine, with the source's end of history where that is cut."""
    return quarantines.git(paths).with_variables(merging.shallow_of(Path(source.common_dir)))


def move(
    paths: BoxPaths,
    source: Source,
    place: Checkout | None,
    old: str,
    new: str,
    settings: Mapping[str, str],
    *,
    begin: Callable[[], None],
    swap: Callable[[Path], None],
) -> tuple[str, ...]:
    """Bring ``place``, the checkout of the branch if it is in one, from ``old`` to ``new``; then ``swap``.

    ``begin`` runs when nothing stands in the way and nothing was changed yet. ``swap`` moves the references,
    given the git directory to do it in; when it fails the files are brought back. Returns what the person
    should still do.
    """
    objects = Path(source.common_dir) / "objects"
    quarantine = quarantine_of(paths, source)
    opened = (
        worktree.opened(place, objects, quarantine.objects, old, settings, paths.root)
        if place
        else nullcontext()
    )
    with opened as files:
        if files is not None:
            files.require_clean(old)
            files.move(old, new, dry_run=True)
        begin()
        if files is not None:
            files.move(old, new)
        try:
            swap(place.git_dir if place else Path(source.common_dir))
        except BaseException as error:  # an interrupt must not leave the files ahead of the branch either
            if files is not None:
                _bring_back(files, new, old, error)
            raise
        if files is None:
            return ()
        names = quarantine.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new)
        return tuple(
            f"changed files are meant to pass the filter {name}; Cloche runs none: do it in your checkout"
            for name in files.filtered(names)
        )


def _bring_back(files: worktree.Files, new: str, old: str, error: BaseException) -> None:
    try:
        files.move(new, old)
    except ClocheError as second:
        raise ClocheError(
            "the branch was not moved, but your checkout was",
            f"{error}; and the files could not be brought back: {second.why}",
            "look at them, then: git restore --staged --worktree --source=HEAD :/",
            code="checkout-left",
        ) from error


class Step:
    """One reference that moves: from ``old`` to ``new``, each "" for none."""

    def __init__(self, ref: str, old: str, new: str) -> None:
        self.ref = ref
        self.old = old
        self.new = new

    def line(self) -> str:
        """The command of git-update-ref(1), ``--stdin``."""
        if not self.new:
            return f"delete {self.ref} {self.old}\n"
        return f"update {self.ref} {self.new} {self.old or '0' * len(self.new)}\n"


def swap_refs(
    git_dir: Path, branch: Step, base: Step | None, why: str, identity: Mapping[str, str], retry: str
) -> None:
    """Move the branch and, with it or not at all, the reference that keeps a box's base.

    ``Busy`` when either is not where it was expected; ``retry`` is the command to give then.
    """
    git = Git(git_dir, variables=identity)
    lines = branch.line() + (f"option no-deref\n{base.line()}" if base else "")
    args = ("update-ref", "-m", why, "--stdin")
    done = git.call(*args, input=os.fsencode(lines))
    if done.status == 0:
        return
    said = os.fsdecode(done.stderr).strip().removeprefix("fatal: ")
    if base and base.ref in said:
        raise Busy(
            "the box's base is not where it was expected",
            f"{said}; nothing was changed",
            "look at it: cloche doctor",
            code="base-moved",
        )
    if any(word in said for word in ("but expected", ".lock", "already exists", "unable to resolve")):
        raise Busy(
            "the branch moved meanwhile",
            f"{said}; nothing was changed",
            f"look at it: git log -3 {branch.ref.removeprefix('refs/heads/')}; then again: {retry}",
            code="branch-moved",
        )
    raise failure(args, done)
