"""Undoing the last apply of a box, and showing before what that would be."""

from __future__ import annotations

import os

from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import IDLE, PROPOSED, require
from backends.boxes.manifest import Manifest
from backends.errors import Busy, Refused
from backends.gate import unapply as gate
from backends.snapshots import UnapplyOutcome
from backends.snapshots_moved import UnapplyPlan
from backends.trees import source as sources
from backends.trees.values import Source
from backends.verbs import authority, passage, proposal, rebasing


def preview(paths: BoxPaths) -> UnapplyPlan:
    """What :func:`unapply` would do now; see ``Engine.plan_unapply``."""
    authority.require_outside("unapply")
    with passage.holding(paths, "unapply", end_idle=True) as held:
        place, last = _last(paths, held.manifest)
        return _plan(paths, held.manifest, place, last)


def unapply(paths: BoxPaths, *, as_name: str | None, seen: UnapplyPlan | None = None) -> UnapplyOutcome:
    """Undo the last apply; see ``Engine.unapply``."""
    authority.require_outside("unapply")
    if as_name is not None and not as_name.strip():
        raise Refused(
            f"the apply of box {paths.name} was not undone",
            "the name of the script is empty",
            "give one: --as NAME",
            code="no-name",
        )
    with passage.holding(paths, "unapply", end_idle=True) as held:
        manifest = held.manifest
        place, last = _last(paths, manifest)
        if seen is not None and seen != _plan(paths, manifest, place, last):
            raise Busy(
                f"the apply of box {paths.name} was not undone",
                "what would be undone is otherwise than it was shown",
                f"look at it again: cloche status {paths.name}",
                code="plan-moved",
            )
        assert manifest.applied is not None
        before = manifest.applied.get("before")
        who = as_name if as_name is not None else passage.person()
        why = f"its apply to {last.branch} was undone"

        def intend() -> None:
            if before:
                rebasing.intend(held, before, why, who, applied=None, commit="")
            else:
                rebasing.intend_move(
                    held,
                    last.branch,
                    last.new,
                    arrives=False,
                    state=PROPOSED,
                    why=why,
                    who=who,
                    applied=None,
                    commit="",
                )

        with rebasing.settled(held):
            gate.unapply(paths, place, last, who=who, scripted=as_name is not None, intend=intend)
        if before:
            rebasing.finish(held)
        else:
            rebasing.finish_move(held)
        proposal.anchor(paths, held.manifest)
        return UnapplyOutcome(last.branch, last.new, last.old, held.manifest.state)


def _last(paths: BoxPaths, manifest: Manifest) -> tuple[Source, gate.Last]:
    applied = manifest.applied
    if applied is None:
        raise Refused(
            f"nothing of box {paths.name} can be undone",
            "it was not applied, or it was rebased since",
            f"cloche status {paths.name}",
            code="not-applied",
        )
    require(paths.name, manifest.state, "unapply")
    place = proposal.source_of(paths, manifest)
    assert place is not None
    before = applied.get("before")
    return place, gate.Last(
        applied["branch"],
        applied["old"],
        applied["new"],
        applied["old"] or applied["start"],
        (before["base"], manifest.base) if before else None,
    )


def _plan(paths: BoxPaths, manifest: Manifest, place: Source, last: gate.Last) -> UnapplyPlan:
    checkout = gate.checkout(paths, place, last)
    git = sources.git(place)
    subject = git.run("log", "-1", "--no-show-signature", "--format=%s", last.new)
    leaving = git.run("rev-list", "--count", last.new, f"^{last.start}")
    names = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", last.start, last.new)
    return UnapplyPlan(
        last.branch,
        last.new,
        last.old,
        subject.decode("utf-8", "surrogateescape").rstrip("\n"),
        int(leaving),
        names.count(b"\0"),
        os.fspath(checkout.work_tree) if checkout is not None else "",
        IDLE if last.bases else PROPOSED,
        (last.bases[1], last.bases[0]) if last.bases else None,
    )
