"""Apply: carry a reviewed proposal onto the branch that its base came from.

Only tree objects are applied, never the live tree. The order is such that a failure at any point leaves
branch, files and history as they were: check the objects, build the commit in the quarantine, look at the
person's checkout, copy the objects, bring the checkout along, move the branch by compare-and-swap. When the
branch moved meanwhile the checkout is brought back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.errors import Busy, ClocheError, Refused
from backends.evidence.journal import Journal
from backends.evidence.visible import visible
from backends.gate import configuration, merging, worktree
from backends.gate.checks import require, run_checks
from backends.snapshots import ApplyOutcome, CheckRow, SnapshotInfo
from backends.trees import quarantine as quarantines
from backends.trees import source as sources
from backends.trees.git import Git, failure
from backends.trees.values import Source


def apply(
    paths: BoxPaths,
    source: Source,
    snapshot: SnapshotInfo,
    *,
    branch: str,
    who: str,
    scripted: bool = False,
    squash: bool = False,
    purpose: str = "",
    policy_digest: str = "",
    checks: Sequence[CheckRow] = (),
) -> ApplyOutcome:
    """Apply ``snapshot`` on ``branch`` of ``source`` and journal it. The caller holds the box's lock.

    ``branch`` is the full name recorded when the box was made. ``checks`` are the rows that were reviewed;
    every check on the objects is run again here. ``Refused``: a check refuses, no branch to apply on.
    ``Busy``: conflict, branch moved or rewritten, a checkout that is not clean; nothing is changed then.
    """
    quarantine = _quarantine(paths, source)
    tip = _tip(source, branch, paths)
    _same_base(quarantine, snapshot)
    rows = (*checks, *run_checks(quarantine, snapshot.base_tree, snapshot.id))
    require(tuple(dict.fromkeys(rows)), "apply", paths.name)  # what both found is said once
    settings = configuration.read(source)
    identity = configuration.identity(settings)
    message, merge_message = _messages(paths, snapshot, purpose, policy_digest, who if scripted else "")
    result = merging.merge(
        quarantine,
        base=snapshot.base,
        tip=tip,
        tree=snapshot.id,
        message=message,
        merge_message=merge_message,
        squash=squash,
        who=identity,
    )
    tip_tree = quarantine.line("rev-parse", f"{tip}^{{tree}}")
    if result.tree == tip_tree:
        raise Refused(
            "there is nothing to apply",
            f"{branch} holds the proposed content already",
            f"remove the box: cloche abort {paths.name} && cloche rm {paths.name}",
            code="nothing-to-apply",
        )
    if result.tree != snapshot.id:
        # Two harmless halves can make a hostile whole: a HEAD from one side, objects and refs from the other.
        require(run_checks(quarantine, tip_tree, result.tree), "apply", paths.name)
    facts: dict[str, object] = {
        "branch": branch, "old": tip, "new": result.commit, "mode": result.mode, "who": who,
        "scripted": scripted, "snapshot": snapshot.id, "tree": result.tree,
    }  # fmt: skip
    notes = _carry_out(paths, source, branch, tip, result, settings, identity, facts)
    Journal(paths.journal).append("apply", facts, sync=True)
    return ApplyOutcome(branch, tip, result.commit, result.mode, who, notes)


def _quarantine(paths: BoxPaths, source: Source) -> Git:
    return quarantines.git(paths).with_variables(merging.shallow_of(Path(source.common_dir)))


def _tip(source: Source, branch: str, paths: BoxPaths) -> str:
    if not branch.startswith("refs/heads/"):
        raise Refused(
            "the proposal cannot be applied",
            "its base was taken from no branch",
            f"export it and apply the patch where it belongs: cloche export {paths.name} --out DIR",
            code="no-branch",
        )
    if sources.git(source).call("symbolic-ref", "--quiet", branch).status == 0:
        raise Refused(
            "the proposal cannot be applied",
            f"{branch} is a symbolic reference to another branch",
            "make it a branch of its own, or export the proposal",
            code="symbolic-branch",
        )
    tip = sources.tip(source, branch)
    if not tip:
        raise Refused(
            "the proposal cannot be applied",
            f"{branch} is gone from {source.common_dir}",
            f"bring it back, or export the proposal: cloche export {paths.name} --out DIR",
            code="branch-gone",
        )
    return tip


def _same_base(quarantine: Git, snapshot: SnapshotInfo) -> None:
    tree = quarantine.line("rev-parse", f"{snapshot.base}^{{tree}}")
    if tree != snapshot.base_tree:
        raise Refused(
            "the proposal cannot be applied",
            f"its base {snapshot.base} has the tree {tree}, the review compared with {snapshot.base_tree}",
            "review it again; if it says the same, look at who changed the box's manifest",
            code="other-base",
        )


def _messages(
    paths: BoxPaths, snapshot: SnapshotInfo, purpose: str, policy_digest: str, script: str
) -> tuple[str, str]:
    trailers = [f"Cloche-Box: {paths.key}", f"Cloche-Proposal: {snapshot.id}"]
    if policy_digest:
        trailers.append(f"Cloche-Policy: {policy_digest}")
    if script:
        trailers.append(f"Cloche-Applied-By-Script: {visible(script)}")
    subject = visible(" ".join(purpose.split())[:200]) or f"Apply the work of box {paths.name}"
    end = "\n\n" + "\n".join(trailers) + "\n"
    return subject + end, f"Merge the work of box {paths.name}" + end


def _carry_out(
    paths: BoxPaths,
    source: Source,
    branch: str,
    tip: str,
    result: merging.Result,
    settings: Mapping[str, str],
    identity: Mapping[str, str],
    facts: Mapping[str, object],
) -> tuple[str, ...]:
    quarantine = _quarantine(paths, source)
    objects = Path(source.common_dir) / "objects"
    place = worktree.checkout_of(source, branch)
    opened = (
        worktree.opened(place, objects, quarantine.objects, tip, settings, paths.root)
        if place
        else nullcontext()
    )
    with opened as files:
        if files is not None:
            files.require_clean(tip)
            files.move(tip, result.commit, dry_run=True)
        # On disk before anything changes: a crash from here on is seen by a start without an end.
        Journal(paths.journal).append("apply-start", facts, sync=True)
        shared = settings.get("core.sharedrepository", "")
        merging.carry(quarantine, objects, result.commit, (tip,), shared, paths.root)
        if files is not None:
            files.move(tip, result.commit)
        try:
            _swap(place.git_dir if place else Path(source.common_dir), branch, tip, result, paths, identity)
        except BaseException as error:  # an interrupt must not leave the files ahead of the branch either
            if files is not None:
                _bring_back(files, result.commit, tip, branch, error)
            raise
        if files is None:
            return ()
        names = quarantine.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", tip, result.commit)
        return tuple(
            f"changed files are meant to pass the filter {name}; Cloche runs none: do it in your checkout"
            for name in files.filtered(names)
        )


def _bring_back(files: worktree.Files, new: str, old: str, branch: str, error: BaseException) -> None:
    try:
        files.move(new, old)
    except ClocheError as second:
        raise ClocheError(
            f"{branch} was not moved, but your checkout holds the proposal",
            f"{error}; and the files could not be brought back: {second.why}",
            "look at them, then: git restore --staged --worktree --source=HEAD :/",
            code="checkout-left",
        ) from error


def _swap(
    git_dir: Path, branch: str, tip: str, result: merging.Result, paths: BoxPaths, identity: Mapping[str, str]
) -> None:
    git = Git(git_dir, variables=identity)
    args = ("update-ref", "-m", f"cloche apply {paths.name}: {result.mode}", branch, result.commit, tip)
    done = git.call(*args)
    if done.status == 0:
        return
    if b"but expected" in done.stderr or b".lock" in done.stderr:
        raise Busy(
            "the branch moved while the proposal was applied",
            os.fsdecode(done.stderr).strip().removeprefix("fatal: ") + "; nothing was changed",
            "look at it and apply again: git log -3 " + branch.removeprefix("refs/heads/"),
            code="branch-moved",
        )
    raise failure(args, done)
