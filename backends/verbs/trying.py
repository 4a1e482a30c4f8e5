"""Trying what was accepted: a command run on exactly that, or on it merged onto today's tip, in a fresh box.

What ran in the reviewed box had the whole proposal beside it. Here the accepted part is made a tree, as an
apply would make it, a commit of it in the quarantine, and a box of its own at that commit, under the same
policy. How the command ended is journalled in the reviewed box (kind "tried").
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import PROPOSED
from backends.boxes.manifest import Manifest, load
from backends.errors import Busy, ClocheError, NoSuchBox, Refused, UsageError
from backends.evidence.journal import Journal
from backends.evidence.redact import redact_argv
from backends.gate import merging, moving, tried
from backends.snapshots import SnapshotInfo
from backends.snapshots_tried import Trial
from backends.trees import quarantine
from backends.trees import source as sources
from backends.trees.git import Git
from backends.trees.values import Source
from backends.verbs import authority, passage, proposal, records, sessions, trial_box
from backends.verbs.values import RunResult, SessionHandle, Streams

TAIL = 16 << 10
"""Bytes of the last output that are handed back."""

_WHO = {
    "GIT_AUTHOR_NAME": "cloche", "GIT_AUTHOR_EMAIL": "cloche@invalid", "GIT_COMMITTER_NAME": "cloche",
    "GIT_COMMITTER_EMAIL": "cloche@invalid",
}  # fmt: skip


class TrialOutcome(NamedTuple):
    """How a try ended."""

    trial: Trial
    result: RunResult
    tail: bytes  # the last that it printed, raw


class _Subject(NamedTuple):
    """What is tried, made of objects of the quarantine."""

    manifest: Manifest
    snapshot: SnapshotInfo
    taken: str
    whole: bool
    onto: str
    base: trial_box.Beginning


def try_accepted(
    paths: BoxPaths,
    argv: Sequence[str],
    *,
    onto_tip: bool,
    keep: bool,
    as_name: str | None,
    streams: Streams,
    on_session: Callable[[SessionHandle], None] | None,
    env: Mapping[str, str] | None,
    on_request: Callable[[], None] | None = None,
) -> TrialOutcome:
    """Run ``argv`` on what is accepted; see ``Engine.try_accepted``."""
    authority.require_outside("try")
    if not argv:
        raise UsageError(
            "nothing was tried", "no command is given", f"cloche try {paths.name} -- CMD...", code="usage"
        )
    if as_name is not None and not as_name.strip():
        raise Refused(
            "nothing was tried", "the name of the script is empty", "give one: --as NAME", code="no-name"
        )
    with passage.holding(paths, "try") as held:
        subject = _subject(paths, held.manifest, onto_tip)
    words = tuple(redact_argv(argv))
    purpose = f"try of {paths.name}: {' '.join(words)}"[:200]
    with trial_box.fresh(paths, subject.manifest, subject.base, purpose, keep=keep) as box:
        result = sessions.run(box, argv, env, streams, on_session, "", on_request)
        tail = _tail(box)
        records.settle(box)
        seen = records.Digest(box).refresh().tally(records.not_observed(box))
        found = Trial(
            subject.snapshot.id,
            subject.taken,
            subject.whole,
            subject.onto,
            subject.base.tree,
            words,
            result.exit,
            round(result.wall, 3),
            seen.total,
            tuple((row.kind, row.object, row.count) for row in seen.rows[: tried.MOST_DENIALS]),
            box.name,
            keep,
            as_name if as_name is not None else passage.person(),
            0.0,
            True,
        )
        written = _journal(paths, subject.manifest, found, scripted=as_name is not None)
    return TrialOutcome(found._replace(time=written), result, tail)


def _tail(box: BoxPaths) -> bytes:
    try:
        return sessions.output(box, None, TAIL)
    except (Busy, NoSuchBox):
        return b""  # its keeper has just gone; how the command ended is known all the same


def _journal(paths: BoxPaths, before: Manifest, found: Trial, *, scripted: bool) -> float:
    """Let the outcome join the evidence of the box, if that is still the same box."""
    now = load(paths)
    if now.created != before.created:
        raise NoSuchBox(
            f"what was tried of box {paths.name} is evidence of nothing",
            "another box has its name now",
            "cloche ls",
            code="no-such-box",
        )
    data = {**tried.data_of(found), "scripted": scripted}
    return Journal(paths.journal).append(tried.KIND, data, sync=True).time


def _subject(paths: BoxPaths, manifest: Manifest, onto_tip: bool) -> _Subject:
    from backends.verbs import reviewing

    if manifest.state != PROPOSED or manifest.snapshot is None:
        raise Refused(
            f"nothing of box {paths.name} can be tried",
            f"it is {manifest.state}, and only a proposal stands still",
            f"propose first: cloche propose {paths.name}",
            code="no-proposal",
        )
    snapshot = proposal.info(manifest.snapshot)
    accepted = reviewing.accepted(paths, snapshot, done="tried")
    tree = accepted.part.tree if accepted.part is not None else snapshot.id
    place = proposal.source_of(paths, manifest)
    git = moving.quarantine_of(paths, place) if place is not None else quarantine.git(paths)
    cut = trial_box.shallow_of(paths, place)
    if place is None and cut:
        git = git.with_variables({"GIT_SHALLOW_FILE": os.fspath(paths.origin / "shallow")})
    tip = _tip(paths, manifest, place) if onto_tip else snapshot.base
    commit, made = _commit(git, paths, snapshot, tree, tip)
    onto = tip if onto_tip else ""
    beginning = trial_box.Beginning(commit, made, cut)
    return _Subject(manifest, snapshot, tree, accepted.part is None, onto, beginning)


def _tip(paths: BoxPaths, manifest: Manifest, place: Source | None) -> str:
    tip = sources.tip(place, manifest.base_ref) if place is not None else ""
    if not tip:
        branch = manifest.base_ref.removeprefix("refs/heads/")
        raise Refused(
            f"box {paths.name} cannot be tried on a branch's tip",
            f"the branch {branch} is gone" if branch else "it came from no branch",
            f"try it on its base: cloche try {paths.name} -- CMD",
            code="no-branch",
        )
    return tip


def _commit(git: Git, paths: BoxPaths, snapshot: SnapshotInfo, tree: str, tip: str) -> tuple[str, str]:
    """The commit and its tree; the same for the same content, so that its pack is found again."""
    then = f"@{int(snapshot.created)} +0000"
    try:
        made = merging.merge(
            git,
            base=snapshot.base,
            tip=tip,
            tree=tree,
            message=f"What is tried of box {paths.name}\n",
            merge_message=f"What is tried of box {paths.name}, merged\n",
            squash=False,
            who={**_WHO, "GIT_AUTHOR_DATE": then, "GIT_COMMITTER_DATE": then},
            when=snapshot.created,
        )
    except ClocheError as error:
        if error.code in ("conflict", "branch-rewritten"):
            raise Busy(
                f"box {paths.name} cannot be tried on the branch's tip",
                error.why,
                f"try it on its base: cloche try {paths.name} -- CMD",
                code=error.code,
            ) from error
        raise
    return made.commit, made.tree
