"""Unapply: bring the branch back to where it was before the last apply, as long as nothing came after.

The person's checkout of it is brought back as well. The objects that apply copied stay, unreferenced, until
Git collects them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from backends.boxes.layout import BoxPaths
from backends.errors import Busy, Refused
from backends.evidence.journal import Journal
from backends.gate import configuration, moving, worktree
from backends.trees import source as sources
from backends.trees.values import Source


class Last(NamedTuple):
    """What the last apply did."""

    branch: str
    old: str  # "" where apply made the branch
    new: str
    start: str  # the commit that the branch, new or not, was taken from
    bases: tuple[str, str] | None  # the box's base before and after, where apply moved it


def unapply(
    paths: BoxPaths,
    source: Source,
    last: Last,
    *,
    who: str,
    scripted: bool,
    intend: Callable[[], None] = lambda: None,
) -> None:
    """Undo ``last`` and journal it. The caller holds the box's lock; ``intend`` runs before references move.

    Errors are those of :func:`checkout`, and ``Busy`` when the files are not clean. Nothing is changed then.
    """
    place = checkout(paths, source, last)
    settings = configuration.read(source)
    facts: dict[str, object] = {
        "branch": last.branch, "old": last.new, "new": last.old, "who": who, "scripted": scripted,
    }  # fmt: skip

    def begin() -> None:
        Journal(paths.journal).append("unapply-start", facts, sync=True)
        intend()

    def swap(git_dir: Path) -> None:
        base = None
        if last.bases is not None:
            before, after = last.bases
            base = moving.Step(sources.base_ref(paths.name), after, before)
        moving.swap_refs(
            git_dir,
            moving.Step(last.branch, last.new, last.old),
            base,
            f"cloche unapply {paths.name}",
            configuration.identity(settings),
            f"cloche unapply {paths.name}",
        )

    moving.move(paths, source, place, last.new, last.start, settings, begin=begin, swap=swap)
    Journal(paths.journal).append("unapply", facts, sync=True)


def checkout(paths: BoxPaths, source: Source, last: Last) -> worktree.Checkout | None:
    """The checkout that is brought back with the branch, None when there is none.

    ``Busy`` when the branch is not at ``last.new`` any more, ``Refused`` when a branch would go that is
    checked out.
    """
    tip = sources.tip(source, last.branch)
    if tip != last.new:
        raise Busy(
            f"the apply of box {paths.name} cannot be undone",
            f"{last.branch} is {f'at {tip[:12]}' if tip else 'gone'}, and apply left it at {last.new[:12]}",
            f"undo it in your repository: git revert {last.new[:12]}",
            code="branch-moved",
        )
    if sources.git(source).call("symbolic-ref", "--quiet", last.branch).status == 0:
        raise Refused(
            f"the apply of box {paths.name} cannot be undone",
            f"{last.branch} is a symbolic reference to another branch now",
            "make it a branch of its own",
            code="symbolic-branch",
        )
    place = worktree.checkout_of(source, last.branch)
    if place is not None and not last.old:
        raise Refused(
            f"the apply of box {paths.name} cannot be undone",
            f"it made {last.branch}, which is checked out in {place.work_tree}",
            f"switch to another branch there, then: cloche unapply {paths.name}",
            code="checked-out",
        )
    return place
