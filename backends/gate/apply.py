"""Apply: carry a reviewed proposal, or the accepted part of it, onto a branch.

Only tree objects are applied, never the live tree. The order is such that a failure at any point leaves
branch, files and history as they were: check the objects, build the commit in the quarantine, look at the
person's checkout, copy the objects, bring the checkout along, move the branch by compare-and-swap. When the
branch moved meanwhile the checkout is brought back.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from backends.boxes.layout import BoxPaths
from backends.errors import Busy, Refused
from backends.evidence.journal import Journal
from backends.gate import branches, configuration, merging, moving, tried, wording, worktree
from backends.gate.checks import require, require_acknowledged, run_checks, standing
from backends.gate.rows import WARNED
from backends.snapshots import CLAIMED, ApplyOutcome, ApplyPlan, BoxCommit, CheckRow, SnapshotInfo, Trial
from backends.trees import source as sources
from backends.trees.git import Git
from backends.trees.values import Source


class Part(NamedTuple):
    """The accepted part of a proposal as a tree of the quarantine, and how much it is."""

    tree: str
    accepted: int  # lines and parts
    left: int
    decisions: str  # digest of what was decided, as the journal has it


class Request(NamedTuple):
    """What is to be applied, where, and as whose act."""

    branch: str  # full name, as it was recorded when the box was made
    who: str
    scripted: bool = False
    squash: bool = False
    purpose: str = ""
    policy_digest: str = ""
    checks: Sequence[CheckRow] = ()  # the rows that were reviewed; those on objects are made again
    part: Part | None = None  # None: all of it
    total: int = 0  # lines and parts of all of it
    onto: str = ""  # a branch to make at the base, instead of ``branch``
    message: str = ""
    commits: Sequence[BoxCommit] = ()  # of the box, to be kept as they are; the last one's tree is all of it
    tried: Sequence[Trial] = ()  # of this snapshot
    acknowledged: Container[str] = frozenset()  # keys of warnings that somebody took upon themselves


class Planned(NamedTuple):
    """A plan with the commit that was made for it in the quarantine."""

    plan: ApplyPlan
    result: merging.Result
    settings: Mapping[str, str]
    identity: Mapping[str, str]


def apply(
    paths: BoxPaths,
    source: Source,
    snapshot: SnapshotInfo,
    request: Request,
    *,
    seen: ApplyPlan | None = None,
    intend: Callable[[ApplyOutcome, str], None] = lambda outcome, work: None,
) -> tuple[ApplyOutcome, str]:
    """Apply and journal it: the outcome, and the commit with exactly the accepted part as its tree.

    Where a part is taken that commit becomes the box's base, and the reference that keeps the base moves with
    the branch. The caller holds the box's lock. ``seen`` is the plan that was agreed to: ``Busy`` when it is
    another one now. ``intend`` is told what will be returned, right before any reference moves. Errors are
    those of :func:`plan`, and ``Refused`` (code "warnings-unacknowledged") while a warning stands.
    """
    planned = plan(paths, source, snapshot, request)
    now = planned.plan
    if seen is not None:
        _same(seen, now, paths.name)
    require_acknowledged(now.standing, paths.name)
    part, result = request.part, planned.result
    facts: dict[str, object] = {
        "branch": now.branch, "old": now.old, "new": result.commit, "mode": now.mode, "who": request.who,
        "scripted": request.scripted, "snapshot": snapshot.id, "tree": result.tree, "partial": now.partial,
        "acknowledged": [row.key for row in now.checks if row.key],
    }  # fmt: skip
    if part is not None:
        facts |= {
            "accepted": part.accepted, "left": part.left, "decisions": part.decisions, "part": part.tree,
        }  # fmt: skip
    if now.combination:
        facts["combination"] = now.combination
    kept = tuple(commit.id for commit in now.commits)
    if kept:
        facts |= {"commits": list(kept), "identity": CLAIMED}
    start = now.old or snapshot.base
    place = None if now.new_branch else worktree.checkout_of(source, now.branch)
    objects = Path(source.common_dir) / "objects"

    outcome = ApplyOutcome(
        now.branch,
        now.old,
        result.commit,
        now.mode,
        request.who,
        (),
        result.tree,
        now.partial,
        now.accepted,
        now.left,
        now.combination,
        kept,
    )

    def begin() -> None:
        # On disk before anything changes: a crash from here on is seen by a start without an end.
        Journal(paths.journal).append("apply-start", facts, sync=True)
        shared = planned.settings.get("core.sharedrepository", "")
        quarantine = moving.quarantine_of(paths, source)
        merging.carry(quarantine, objects, result.commit, (start,), shared, paths.root)
        intend(outcome, result.work)

    def swap(git_dir: Path) -> None:
        base = None
        if part is not None:
            base = moving.Step(sources.base_ref(paths.name), snapshot.base, result.work)
        moving.swap_refs(
            git_dir,
            moving.Step(now.branch, now.old, result.commit),
            base,
            f"cloche apply {paths.name}: {now.mode}",
            planned.identity,
            f"cloche apply {paths.name}",
        )

    notes = moving.move(
        paths, source, place, start, result.commit, planned.settings, begin=begin, swap=swap
    )  # fmt: skip
    Journal(paths.journal).append("apply", facts, sync=True)
    return outcome._replace(notes=notes), result.work


def plan(paths: BoxPaths, source: Source, snapshot: SnapshotInfo, request: Request) -> Planned:
    """The commit that apply would make, made in the quarantine only.

    ``Refused``: a check refuses, no branch to apply on, the new branch exists. ``Busy``: conflict, branch
    rewritten.
    """
    quarantine = moving.quarantine_of(paths, source)
    part = request.part
    tree = part.tree if part is not None else snapshot.id
    if request.onto:
        branch, old = branches.fresh(source, request.onto), ""
    else:
        branch = request.branch
        old = branches.tip(source, branch, paths.name)
    tip = old or snapshot.base
    _same_base(quarantine, snapshot)
    rows = (*request.checks, *run_checks(quarantine, snapshot.base_tree, tree))
    rows = tuple(dict.fromkeys(rows))  # what both found is said once
    require(rows, "apply", paths.name)
    if part is not None and request.squash and tip != snapshot.base:
        raise Refused(
            "the accepted part cannot be squashed",
            f"{branch} moved on since the base, and the rest could not be told from what it gained",
            f"merge it: cloche apply {paths.name}, or onto a new branch: --onto NAME",
            code="partial-squash",
        )
    settings = configuration.read(source)
    identity = configuration.identity(settings)
    total = part.accepted + part.left if part is not None else request.total
    said = wording.messages(
        wording.Facts(
            paths.name,
            paths.key,
            snapshot.id,
            request.purpose,
            request.policy_digest,
            request.who if request.scripted else "",
            (part.accepted, total) if part is not None else None,
            tried.combination(tree, request.tried),
        ),
        request.message,
    )
    result = merging.merge(
        quarantine,
        base=snapshot.base,
        tip=tip,
        tree=tree,
        message=said.work,
        merge_message=said.merge,
        squash=request.squash,
        who=identity,
        when=snapshot.created,
        head=request.commits[-1].id if request.commits else "",
    )
    top = request.commits[-1] if request.commits and result.mode == "fast-forward" else None
    if top is not None and request.message:
        raise Refused(
            "the message cannot be used",
            "the box's commits are kept as they are, and no other is made",
            f"leave it out: cloche apply {paths.name} --keep-commits; or make one commit of them: "
            f"cloche apply {paths.name} --message TEXT",
            code="message-unused",
        )
    tip_tree = quarantine.line("rev-parse", f"{tip}^{{tree}}")
    if result.tree == tip_tree:
        raise Refused(
            "there is nothing to apply",
            f"{branch} holds the {'accepted' if part is not None else 'proposed'} content already",
            f"remove the box: cloche abort {paths.name} && cloche rm {paths.name}",
            code="nothing-to-apply",
        )
    if result.tree != tree:
        # Two harmless halves can make a hostile whole: a HEAD from one side, objects and refs from the other.
        merged = run_checks(quarantine, tip_tree, result.tree)
        require(merged, "apply", paths.name)
        rows = tuple(dict.fromkeys((*rows, *(row for row in merged if row.verdict == WARNED))))
    if request.commits:
        rows += _kept(quarantine, snapshot, request.commits, tree)
    made = ApplyPlan(
        branch,
        bool(request.onto),
        old,
        snapshot.base,
        snapshot.id,
        result.mode,
        result.tree,
        result.parents,
        top.message if top else said.merge if result.mode == "merge" else said.work,
        part is not None,
        part.accepted if part is not None else total,
        part.left if part is not None else 0,
        tried.combination(result.tree, request.tried) if part is not None or result.tree != tree else "",
        rows,
        () if top else said.trailers,
        f"{top.author} <{top.author_email}>"
        if top
        else f"{identity['GIT_AUTHOR_NAME']} <{identity['GIT_AUTHOR_EMAIL']}>",
        standing(rows, request.acknowledged),
        tuple(request.commits),
    )
    return Planned(made, result, settings, identity)


def _same(seen: ApplyPlan, now: ApplyPlan, box: str) -> None:
    """``Busy`` unless what was agreed to is what would be done now, naming what moved."""
    words = {
        "branch": "the branch", "old": "the branch's tip", "base": "the base", "snapshot": "the snapshot",
        "tree": "the content", "parents": "the parents", "message": "the message", "author": "the author",
        "accepted": "the decisions", "left": "the decisions", "checks": "what the gate found",
        "commits": "the commits that are kept",
    }  # fmt: skip
    moved = {text for name, text in words.items() if getattr(seen, name) != getattr(now, name)}
    if moved:
        raise Busy(
            f"box {box} was not applied",
            f"since it was shown, these changed: {', '.join(sorted(moved))}",
            f"look at it again: cloche apply {box} --dry-run",
            code="plan-moved",
        )


def _kept(
    quarantine: Git, snapshot: SnapshotInfo, commits: Sequence[BoxCommit], tree: str
) -> tuple[CheckRow, ...]:
    """What keeping the commits brings in that nobody was shown; ``Refused`` if they are not the tree."""
    from backends.gate.commits import intake, unseen

    found = intake.read(quarantine, commits[-1].id, snapshot.base)
    if found[-1].tree != tree or [one.id for one in found] != [one.id for one in commits]:
        raise Refused(
            "the box's commits cannot be kept",
            f"the last one has the tree {found[-1].tree}, and {tree} was reviewed",
            "review it again; if it says the same, look at who changed the box's manifest",
            code="other-commits",
        )
    return unseen.check(quarantine, snapshot.base_tree, found)


def _same_base(quarantine: Git, snapshot: SnapshotInfo) -> None:
    tree = quarantine.line("rev-parse", f"{snapshot.base}^{{tree}}")
    if tree != snapshot.base_tree:
        raise Refused(
            "the proposal cannot be applied",
            f"its base {snapshot.base} has the tree {tree}, the review compared with {snapshot.base_tree}",
            "review it again; if it says the same, look at who changed the box's manifest",
            code="other-base",
        )
