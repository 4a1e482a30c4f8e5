"""What a box changed: live, frozen as its proposal, and beside its evidence for review."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import ABORTED, APPLIED, IDLE, PROPOSED, require
from backends.boxes.manifest import Manifest, load
from backends.errors import Busy, NoSuchBox, Refused
from backends.snapshots import BoxRow, CheckRow, Diff, DiffStat, Ignored, ReviewView, SnapshotInfo
from backends.trees import diff as diffs
from backends.trees import quarantine
from backends.trees import snapshot as snapshots
from backends.trees.values import Limits, Source, TreeSnapshot
from backends.verbs import passage, records

FREEZE_LIMIT = 10.0  # seconds that a keeper may take to stop a box for the reader, however busy the host
EXACT = Limits()
# Findings that matter before anything is taken: a Git that a person starts there obeys what the box wrote.
REPOSITORIES = ("nested-repository", "embedded-repository")
GLANCE = Limits(settle=0.1)  # trusts the change time of what was written a moment ago


def source_of(paths: BoxPaths, manifest: Manifest) -> Source | None:
    """The source repository of a box, None for a detached box; ``Refused`` when it is gone."""
    if manifest.detached:
        return None
    if not Path(manifest.git_dir).is_dir():
        raise Refused(
            f"the source repository of box {paths.name} is gone",
            f"{manifest.git_dir} is not there",
            f"doctor finds where it is now, and has the box follow: cloche doctor {paths.key}",
            code="source-gone",
        )
    return Source(manifest.repository, manifest.git_dir, manifest.git_dir)


@contextmanager
def frozen(paths: BoxPaths) -> Iterator[None]:
    """Keep the processes of a live box stopped meanwhile; ``Busy`` when its keeper does not answer.

    The reader is safe without (rules S1, S2); frozen, it sees one state and not a mixture. The keeper thaws
    the box when the connection ends, so a crash here leaves nothing stopped.
    """
    if liveness.read(paths).kind != "live":
        yield
        return
    from backends.keeper import client

    with ExitStack() as stack:
        try:
            stack.enter_context(client.connect(paths, timeout=FREEZE_LIMIT)).call("freeze")
        except (NoSuchBox, Busy) as error:
            if not passage.went(paths, error):
                raise
        yield


def _snapshot(paths: BoxPaths, manifest: Manifest, limits: Limits = EXACT) -> TreeSnapshot:
    return snapshots.snapshot(
        paths,
        manifest.base_tree,
        lower=manifest.under,
        limits=limits,
        confine=manifest.tier != "workspace",
        apart=feedback_name(paths),
    )


def feedback_name(paths: BoxPaths) -> str:
    """The file at the top of the tree that has a reviewer's requests, as the box's policy names it."""
    from backends.policy import canonical
    from backends.policy.model import ReviewPolicy

    try:
        return canonical.decode(paths.policy.read_bytes()).review.file
    except Refused:
        # A box with such a policy starts no more, but what it holds can still be proposed and carried out.
        return ReviewPolicy().file


def live_diff(paths: BoxPaths, *, still: bool = True) -> Diff:
    """What the box changed so far; of a proposed, applied or aborted box, what was proposed.

    Without ``still`` the box's processes run on while it is read, and a file that is written through a shared
    mapping may show late: good for a pane that is read again and again, not for a decision.
    """
    manifest = load(paths)
    if manifest.snapshot and manifest.state in (PROPOSED, APPLIED, ABORTED):
        return _frozen_diff(paths, manifest.snapshot)
    if still:
        with frozen(paths):
            taken = _snapshot(paths, manifest)
    else:
        taken = _snapshot(paths, manifest, GLANCE)
    told = ((one.path, one.text) for one in taken.findings if one.kind in REPOSITORIES)
    return diffs.diff(paths, manifest.base, manifest.base_tree, taken.tree, (*taken.skipped, *told))


def _frozen_diff(paths: BoxPaths, snapshot: dict[str, Any]) -> Diff:
    skipped = tuple((_bytes(path), str(why)) for path, why in snapshot.get("skipped", []))
    skipped += tuple(
        (_bytes(path), str(why)) for kind, path, why in snapshot.get("findings", []) if kind in REPOSITORIES
    )
    return diffs.diff(paths, snapshot["base"], snapshot["base_tree"], snapshot["id"], skipped)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def info(snapshot: dict[str, Any]) -> SnapshotInfo:
    """The manifest's snapshot as the value that everybody is shown."""
    return SnapshotInfo(
        snapshot["id"],
        snapshot["base"],
        snapshot["base_tree"],
        snapshot["created"],
        DiffStat(*snapshot["stat"]),
    )


def propose(paths: BoxPaths) -> SnapshotInfo:
    """Freeze what the box holds; see ``Engine.propose``."""
    from backends.verbs import commits, evidence

    gathered = commits.gather(paths)  # before the files are read: what its Git did then counts as well
    with passage.holding(paths, "propose", end_idle=True) as held:
        require(paths.name, held.manifest.state, "propose")
        taken = _snapshot(paths, held.manifest)
        snapshot = {
            "id": taken.tree,
            "base": held.manifest.base,
            "base_tree": held.manifest.base_tree,
            "created": time.time(),
            "stat": list(taken.stat),
            "skipped": [[_text(path), why] for path, why in taken.skipped],
            "findings": [[one.kind, _text(one.path), one.text] for one in taken.findings],
            "unlisted": taken.unlisted,
            "witness": evidence.take_down(
                paths, diffs.changes(quarantine.git(paths), held.manifest.base_tree, taken.tree)
            ),
            "commits": commits.take(paths, held.manifest, gathered, taken.tree),
            "ignored": [taken.ignored, [_text(path) for path in taken.ignored_names]],
        }
        held.record("proposal", {"snapshot": snapshot, "ignored": taken.ignored, "reader": taken.confined})
        held.move(PROPOSED, "proposed", snapshot=snapshot, request=None)
        anchor(paths, held.manifest)
        return info(snapshot)


def anchor(paths: BoxPaths, manifest: Manifest) -> None:
    """Keep the journal's count and head in the source repository too, out of the box's reach (rule S19)."""
    if manifest.detached or manifest.journal is None:
        return
    from backends.trees import source as sources

    place = source_of(paths, manifest)
    assert place is not None
    text = json.dumps(manifest.journal, sort_keys=True).encode() + b"\n"
    sources.set_anchor(place, paths.name, text, sources.anchor(place, paths.name))


def snapshot_of(paths: BoxPaths, manifest: Manifest, act: str) -> dict[str, Any]:
    """The proposal; ``Refused`` naming the way to one when there is none."""
    if manifest.snapshot is None or manifest.state not in (PROPOSED, APPLIED):
        require(paths.name, manifest.state, "export")
        raise Refused(
            f"cannot {act} box {paths.name}",
            "it has no proposal",
            f"cloche propose {paths.name}",
            code="no-proposal",
        )
    return manifest.snapshot


def checks(paths: BoxPaths, snapshot: dict[str, Any], tree: str = "") -> tuple[CheckRow, ...]:
    """What the gate says of a proposal, from its objects and from what its reader met.

    ``tree`` is what is taken of it, where that is a part. What the reader met counts for a part as well.
    """
    from backends.gate.checks import run_checks

    return run_checks(
        quarantine.git(paths),
        snapshot["base_tree"],
        tree or snapshot["id"],
        skipped=[(_bytes(path), why) for path, why in snapshot.get("skipped", [])],
        findings=[(kind, _bytes(path), text) for kind, path, text in snapshot.get("findings", [])],
        unlisted=snapshot.get("unlisted", 0),
        whole=snapshot["id"],
    )


def review(paths: BoxPaths, row: BoxRow) -> ReviewView:
    """All that the gate screen, the report and the receipt show of one proposal."""
    from backends.trees import source as sources
    from backends.verbs import commits, evidence

    manifest = load(paths)
    snapshot = snapshot_of(paths, manifest, "review")
    records.settle(paths)
    digest = records.Digest(paths).refresh()
    tip = ""
    if not manifest.detached and Path(manifest.git_dir).is_dir():
        place = source_of(paths, manifest)
        assert place is not None
        tip = sources.tip(place, manifest.base_ref)
    said = checks(paths, snapshot)
    sessions = digest.sessions(live=False)
    return ReviewView(
        row,
        info(snapshot),
        manifest.policy_digest,
        _frozen_diff(paths, snapshot),
        said,
        digest.tally(records.not_observed(paths)),
        sessions,
        manifest.base_ref,
        tip,
        ignored=_ignored(snapshot),
        commits=commits.shown(paths, manifest, snapshot),
        evidence=evidence.evidence(paths, row, snapshot, sessions, said),
    )


def _ignored(snapshot: dict[str, Any]) -> Ignored:
    total, names = snapshot.get("ignored", (0, ()))
    return Ignored(total, tuple(_bytes(name) for name in names))


def reopen(paths: BoxPaths) -> None:
    """Take the proposal back; what the box holds stays as it is."""
    with passage.holding(paths, "reopen") as held:
        require(paths.name, held.manifest.state, "reopen")
        held.move(IDLE, "reopened", snapshot=None)
