"""The evidence beside a proposal: taken down when it is made, read again when it is reviewed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.evidence import journal
from backends.gate.evidence import gathering, runs, witness
from backends.gate.objects import listing
from backends.snapshots import BoxRow, CheckRow, FileChange, SessionRow
from backends.snapshots_evidence import ProposalEvidence, Ran
from backends.trees import quarantine, statcache

PASSED_OVER = frozenset(("lock-file", "large", "binary"))  # checks that say nothing against folding a file


def take_down(paths: BoxPaths, changes: Iterable[FileChange]) -> dict[str, Any]:
    """What can be known only now, while the files are there, as the proposal keeps it: when the changed ones
    were last changed, beside when sessions ran. The caller has just read the tree."""
    try:
        known = statcache.parse((paths.quarantine / quarantine.STAT_CACHE).read_bytes())
    except FileNotFoundError:
        known = {}
    times: dict[bytes, float | None] = {}
    for change in changes:
        value = known.get(change.path)
        times[change.path] = None if value is None else statcache.changed(value)
        if change.old_path is not None and change.status == "R":
            times[change.old_path] = None
    return witness.witness(journal.read(paths.journal), times)


def evidence(
    paths: BoxPaths,
    row: BoxRow,
    snapshot: dict[str, Any],
    sessions: tuple[SessionRow, ...],
    checks: tuple[CheckRow, ...],
) -> ProposalEvidence:
    """All that is known beside the diff of a proposal."""
    git = quarantine.git(paths)
    base, tree = listing(git, snapshot["base_tree"]).entries, listing(git, snapshot["id"]).entries
    changes = [
        gathering.Change(path, base.get(path), tree.get(path))
        for path in sorted(base.keys() | tree.keys())
        if base.get(path) != tree.get(path)
    ]
    examined = gathering.examine(git, changes, base.values(), (snapshot["base_tree"], snapshot["id"]))
    flagged = frozenset(
        one.path
        for one in checks
        if one.path is not None and one.verdict != "pass" and one.id not in PASSED_OVER
    )
    kept = snapshot.get("witness", {})
    last = kept.get("last")
    return ProposalEvidence(
        tuple(_ran(one, last) for one in sessions if one.started >= kept.get("since", 0.0)),
        runs.inner_tests(kept, lambda started, ended: witness.covers(last, started, ended)),
        last,
        kept.get("untimed", 0),
        witness.outside_of(kept),
        kept.get("more", 0),
        None if row.unconfined else row.processes,
        examined.locks,
        examined.secrets,
        examined.unsearched,
        gathering.bulk_among(git, changes, base.get(b".gitattributes"), flagged),
        examined.examiner,
        kept.get("more_runs", 0),
        tuple(kept.get("unseen", ())),
    )


def _ran(one: SessionRow, last: float | None) -> Ran:
    from backends.testruns import is_test

    seconds = None if one.ended is None else max(0.0, one.ended - one.started)
    covers = witness.covers(last, one.started, one.ended)
    return Ran(one.id, one.argv, is_test(one.argv), one.exit, seconds, covers)
