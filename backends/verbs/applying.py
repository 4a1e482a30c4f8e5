"""Carrying a proposal onto a branch, and showing before what that would be."""

from __future__ import annotations

from typing import Any, Unpack

from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import APPLIED, require
from backends.boxes.manifest import Manifest
from backends.errors import Refused
from backends.gate.apply import Request
from backends.snapshots import ApplyOutcome, ApplyPlan, SnapshotInfo
from backends.trees import layers
from backends.trees.values import Source
from backends.verbs import authority, passage, proposal, rebasing
from backends.verbs.passage import Held
from backends.verbs.values import Applying


def preview(paths: BoxPaths, **how: Unpack[Applying]) -> ApplyPlan:
    """What :func:`apply` would do now; see ``Engine.plan_apply``."""
    authority.require_outside("apply")
    from backends.gate import apply as gate

    with passage.holding(paths, "apply") as held:
        place, snapshot, request = _request(held, part=True, **how)
        return gate.plan(paths, place, snapshot, request).plan


def apply(paths: BoxPaths, *, part: bool, seen: ApplyPlan | None, **how: Unpack[Applying]) -> ApplyOutcome:
    """Carry the reviewed snapshot, or the accepted part, onto a branch; see ``Engine.apply``."""
    authority.require_outside("apply")
    from backends.gate import apply as gate

    with passage.holding(paths, "apply") as held:
        place, snapshot, request = _request(held, part=part, **how)
        manifest, chosen = held.manifest, request.part

        def applied(done: ApplyOutcome) -> dict[str, Any]:
            return {**done._asdict(), "scripted": request.scripted, "start": snapshot.base}

        def intend(done: ApplyOutcome, work: str) -> None:
            if chosen is None:
                why = f"applied to {done.branch}"
                rebasing.intend_move(
                    held,
                    done.branch,
                    done.new,
                    arrives=True,
                    state=APPLIED,
                    why=why,
                    who=request.who,
                    applied=applied(done),
                    commit=done.new,
                )
                return
            # The rest stays in the box, on top of what was taken: only what it is compared with moves.
            after = {
                "base": work,
                "base_tree": chosen.tree,
                "base_ref": done.branch,
                "lower_tree": manifest.under if layers.used(paths) else "",
            }
            value = {**applied(done), "before": _base(manifest)}
            why = f"a part was applied to {done.branch}"
            rebasing.intend(held, after, why, request.who, snapshot=None, applied=value, commit=done.new)

        with rebasing.settled(held):
            done, _ = gate.apply(paths, place, snapshot, request, seen=seen, intend=intend)
        if done.partial:
            rebasing.finish(held, applied={**applied(done), "before": _base(manifest)})
        else:
            rebasing.finish_move(held, applied=applied(done))
        proposal.anchor(paths, held.manifest)
        return done


def _base(manifest: Manifest) -> dict[str, str]:
    return {
        "base": manifest.base,
        "base_tree": manifest.base_tree,
        "base_ref": manifest.base_ref,
        "lower_tree": manifest.lower_tree,
    }


def _named(paths: BoxPaths, as_name: str | None) -> None:
    if as_name is not None and not as_name.strip():
        raise Refused(
            f"box {paths.name} was not applied",
            "the name of the script is empty",
            "give one: --as NAME",
            code="no-name",
        )


def _request(held: Held, *, part: bool, **how: Unpack[Applying]) -> tuple[Source, SnapshotInfo, Request]:
    paths, manifest = held.paths, held.manifest
    as_name, expect = how.get("as_name"), how.get("expect")
    _named(paths, as_name)
    require(paths.name, manifest.state, "apply")
    if manifest.detached:
        raise Refused(
            f"box {paths.name} cannot be applied",
            "it is detached: no branch of yours is its parent",
            f"export it: cloche export {paths.name} --out DIR",
            code="detached",
        )
    stored = proposal.snapshot_of(paths, manifest, "apply")
    snapshot = proposal.info(stored)
    if expect is not None and expect != snapshot.id:
        raise Refused(
            f"box {paths.name} was not applied",
            f"its snapshot is {snapshot.id}, and {expect} was reviewed",
            f"review it again: cloche diff {paths.name}",
            code="other-snapshot",
        )
    from backends.gate import tried
    from backends.verbs import reviewing

    accepted = reviewing.accepted(paths, snapshot)
    if accepted.part is not None and not part:
        raise Refused(
            f"box {paths.name} was not applied",
            "the review accepts a part of it, and the whole proposal was shown",
            f"apply the accepted part: cloche apply {paths.name}; or take all: "
            f"cloche accept {paths.name} --all",
            code="part-accepted",
        )
    place = proposal.source_of(paths, manifest)
    assert place is not None
    from backends.verbs import commits

    keep = how.get("keep_commits", False)
    request = Request(
        branch=manifest.base_ref,
        who=as_name if as_name is not None else passage.person(),
        scripted=as_name is not None,
        squash=how.get("squash", False),
        purpose=manifest.purpose,
        policy_digest=manifest.policy_digest,
        checks=proposal.checks(paths, stored, accepted.part.tree if accepted.part else ""),
        part=accepted.part,
        total=accepted.total,
        onto=how.get("onto", ""),
        message=how.get("message", ""),
        commits=commits.to_keep(held, part=accepted.part is not None, squash=how.get("squash", False))
        if keep
        else (),
        tried=tried.read(paths.journal, snapshot.id),
        acknowledged=accepted.acknowledged,
    )
    return place, snapshot, request
