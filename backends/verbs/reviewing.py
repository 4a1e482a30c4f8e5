"""Deciding about a proposal: the desk on which a reviewer works, and what of it is told to everybody.

The journal gets one summary record of kind "decision" for each sitting, not one for each key: who, how much
is accepted, rejected and undecided, and a digest of the decisions. The decisions themselves are in
``review.json`` (:mod:`backends.gate.decisions`), saved at every act.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import NamedTuple

from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import PROPOSED
from backends.boxes.manifest import load as load_manifest
from backends.errors import Refused
from backends.evidence.journal import Journal
from backends.gate import decisions
from backends.gate.apply import Part
from backends.gate.decisions import Compared, Review, Stamp
from backends.gate.decisions_file import Encoder, digest
from backends.gate.patch import (
    PARTS,
    Blocked,
    Choice,
    Counts,
    Patch,
    Selection,
    compose_tree,
    counts,
    hunk_counts,
    interdiff,
    read,
    select,
)
from backends.gate.patch.between import DROPPED
from backends.gate.patch.model import File
from backends.snapshots import (
    BoxRow,
    CheckRow,
    FileChange,
    ReviewedFile,
    ReviewedHunk,
    ReviewProgress,
    ReviewView,
    SnapshotInfo,
    Trial,
)
from backends.trees import diff as diffs
from backends.trees import quarantine
from backends.trees.git import Git
from backends.verbs import authority, proposal
from backends.verbs.stands import stands

_TOLD_AT_ONCE = 100  # warnings in one record


class Desk:
    """One sitting of a reviewer over one snapshot: the patch, what is decided, acts that are kept at once.

    Get one from ``Engine.decisions``; use it as a context, or :meth:`close` it, so that the journal tells of
    the sitting. For one thread at a time. Every act may raise ``Busy`` (code "review-changed") when another
    desk decided meanwhile: nothing is changed then, and :meth:`reload` shows what is there now.
    """

    def __init__(
        self,
        paths: BoxPaths,
        patch: Patch,
        snapshot: SnapshotInfo,
        who: str,
        check: Callable[[str], tuple[CheckRow, ...]],
        *,
        scripted: bool,
    ) -> None:
        self.paths = paths
        self.patch = patch
        self.snapshot = snapshot
        self.files = patch.by_path()
        self._who = who
        self._check = check  # what the gate says of a tree: the snapshot, or a part of it
        self._compared: tuple[Compared | None, tuple[tuple[bytes, str], ...]] | None = None
        self._scripted = scripted
        self._encoder = Encoder(patch)
        self.review: Review
        self._stamp: Stamp
        self.reload()
        self._told = _said(self.review)

    def __enter__(self) -> Desk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def git(self) -> Git:
        """Git on the quarantine, for ``compose_tree`` and ``selected_patch``."""
        return quarantine.git(self.paths)

    def reload(self) -> Review:
        """Read what is kept now, which another desk may have changed."""
        self.review, self._stamp = decisions.load(self.paths, self.patch, self.snapshot)
        return self.review

    def fresh(self) -> Review:
        """The review as it is kept now: read anew only if another desk changed it."""
        return self.review if decisions.stamp_of_kept(self.paths) == self._stamp else self.reload()

    def file(self, path: bytes) -> File:
        """A file of the patch; ``Refused`` (code "no-such-file") when it is not in it."""
        try:
            return self.files[path]
        except KeyError:
            raise Refused(
                "nothing was decided",
                f"{path.decode('utf-8', 'surrogateescape')} is no file of the proposal",
                f"see its files: cloche review {self.paths.name}",
                code="no-such-file",
            ) from None

    def set(self, choices: Iterable[Choice], state: str) -> Review:
        """Accept, reject or undecide things of files; what a file does not have is left out."""
        clipped = [(path, marks.within(self.file(path).all)) for path, marks in choices]
        return self._keep(self.review.decide(clipped, state))

    def undo(self) -> Review:
        """Take the last decision back."""
        return self._keep(self.review.undo())

    def redo(self) -> Review:
        """Take the last undone decision again."""
        return self._keep(self.review.redo())

    def mark(self, path: bytes, reviewed: bool = True) -> Review:
        """Mark a file as read, or take the mark away."""
        return self._keep(self.review.mark(self.file(path), reviewed))

    def comment(self, path: bytes, side: str, line: int, text: str, quote: bytes = b"") -> Review:
        """Say something about a line (``side`` old or new), or with line 0 about the file."""
        file = self.file(path)
        return self._keep(
            self.review.comment(file, side, line, text, self._who, round(time.time(), 3), quote)
        )

    def change(self, act: Callable[[Review], Review]) -> Review:
        """Any other act of :class:`Review`: ``desk.change(lambda review: review.uncomment(3))``."""
        return self._keep(act(self.review))

    def warnings(self) -> tuple[CheckRow, ...]:
        """What the gate warns of: in the snapshot, then in the accepted part where that is another tree."""
        rows = self._check(self.snapshot.id)
        selection = self.selection()
        if self.review.history.now.files and not selection.whole and not selection.blocked:
            tree = compose_tree(self.git, selection)
            if tree not in (self.snapshot.id, self.snapshot.base_tree):
                rows += self._check(tree)
        return tuple({row.key: row for row in rows if row.key}.values())

    def acknowledge(
        self, keys: Iterable[str], *, withdraw: bool = False, also: Iterable[CheckRow] = ()
    ) -> Review:
        """Take warnings upon oneself, by :attr:`backends.snapshots.CheckRow.key`, or let them stand again.

        Journalled at once, with the reviewer's name. ``also`` are the checks of a plan to apply, which can
        warn of more: of what a merge makes, of commits that are kept. ``Refused`` (code "no-such-warning")
        when the gate does not warn of one of them there, in the snapshot or in the part that is accepted.
        """
        wanted = dict.fromkeys(keys)
        known = {row.key: row for row in also if row.key}
        if any(key not in known for key in wanted):
            known |= {row.key: row for row in self.warnings()}
        for key in wanted:
            if key not in known:
                raise Refused(
                    "nothing was acknowledged",
                    f"the gate warns of nothing that has the key {key[:64]}",
                    f"see what it warns of: cloche review {self.paths.name}",
                    code="no-such-warning",
                )
        rows = [known[key] for key in wanted if (key in self.review.acknowledged) == withdraw]
        if not rows:
            return self.review
        if withdraw:
            review = self.review.withdraw(row.key for row in rows)
        else:
            now = round(time.time(), 3)
            review = self.review.acknowledge((row.key for row in rows), self._who, now, self._scripted)
        kind = "withdrawn" if withdraw else "acknowledged"

        def tell() -> None:
            # First: what holds without a record of it would be worse than a record of what does not hold.
            for at in range(0, len(rows), _TOLD_AT_ONCE):
                Journal(self.paths.journal).append(kind, self._told_of(rows[at:][:_TOLD_AT_ONCE]), sync=True)

        self._stamp = decisions.save(self.paths, review, self.patch, self._stamp, tell, self._encoder)
        self.review = review
        return review

    def _told_of(self, rows: list[CheckRow]) -> dict[str, object]:
        return {
            "who": self._who,
            "scripted": self._scripted,
            "snapshot": self.snapshot.id,
            "warnings": [
                {
                    "key": row.key,
                    "check": row.id,
                    "path": None if row.path is None else row.path[:500].decode("utf-8", "surrogateescape"),
                    "reason": row.reason[:500],
                }
                for row in rows
            ],
        }

    def selection(self) -> Selection:
        """What is accepted and can be carried out."""
        return select(self.patch, self.review.history.now)

    def progress(self) -> ReviewProgress:
        """How far the review is, as everybody is shown it."""
        return progress(self.patch, self.review, self._moved())

    def tried(self, tip: str) -> tuple[str, tuple[Trial, ...]]:
        """``ReviewView.combination`` and ``tried`` for what is accepted now; ``tip``: where the branch is."""
        return stands(self.paths, self.snapshot.id, tip, self.selection())

    def close(self) -> None:
        """Journal the sitting when anything is decided otherwise than at its beginning."""
        said = _said(self.review)
        if said == self._told:
            return
        Journal(self.paths.journal).append("decision", self._record(), sync=True)
        self._told = said

    def _record(self) -> dict[str, object]:
        done = progress(self.patch, self.review, ())
        return {
            "who": self._who,
            "scripted": self._scripted,
            "snapshot": self.snapshot.id,
            "accepted": done.accepted,
            "rejected": done.rejected,
            "undecided": done.undecided,
            "files": len(done.files),
            "reviewed": sum(one.reviewed for one in done.files),
            "comments": len(done.comments),
            "blocked": sum(bool(one.blocked) for one in done.files),
            "decisions": done.digest,
        }

    def _keep(self, review: Review) -> Review:
        if review == self.review:
            return review
        self._stamp = decisions.save(self.paths, review, self.patch, self._stamp, encoder=self._encoder)
        self.review = review
        return review

    def _moved(self) -> tuple[tuple[bytes, str], ...]:
        since = self.review.since
        if self._compared is None or self._compared[0] != since:
            now = tuple(file.change for file in self.patch.files)
            self._compared = since, moved(self.git, since, now, self.snapshot.id)
        return self._compared[1]


class _Said(NamedTuple):
    """What a journal record would tell of a review."""

    decided: object
    reviewed: object
    comments: object
    summary: str


def _said(review: Review) -> _Said:
    return _Said(review.history.now, dict(review.reviewed), review.comments, review.summary)


def moved(
    git: Git, since: Compared | None, now: tuple[FileChange, ...], tree: str
) -> tuple[tuple[bytes, str], ...]:
    """What is proposed otherwise than in the snapshot that was reviewed before, by path.

    A file that is no longer proposed because its base has it now, as after applying a part, is not told.
    """
    if since is None:
        return ()
    found = interdiff(diffs.changes(git, since.base_tree, since.id), now)
    if any(one.kind == DROPPED for one in found):
        other = {name for one in diffs.changes(git, since.id, tree) for name in (one.path, one.old_path)}
        found = tuple(one for one in found if one.kind != DROPPED or one.path in other)
    return tuple((one.path, one.kind) for one in found)


def progress(patch: Patch, review: Review, since: tuple[tuple[bytes, str], ...]) -> ReviewProgress:
    """What was decided, counted. ``since`` is what :func:`moved` tells."""
    files = patch.by_path()
    said: dict[bytes, int] = {}
    for comment in review.comments:
        said[comment.path] = said.get(comment.path, 0) + 1
    stopped: dict[bytes, list[str]] = {}
    for one in select(patch, review.history.now).blocked:
        stopped.setdefault(one.path, []).append(_why(one))
    rows = []
    total = Counts(0, 0, 0)
    for file in patch.files:
        found = counts(file, review.history.now.of(file.path))
        total = total.plus(found)
        path = file.path
        decision = review.history.now.of(path)
        rows.append(
            ReviewedFile(
                path,
                *found,
                reviewed=review.is_reviewed(file),
                comments=said.get(path, 0),
                blocked=tuple(stopped.get(path, ())),
                parts=tuple((part, decision.of(file.part(part))) for part in PARTS if part in file.all.parts),
                hunks=tuple(
                    ReviewedHunk(*hunk[:4], *done)
                    for hunk, done in zip(file.hunks, hunk_counts(file, decision), strict=True)
                ),
            )
        )
    return ReviewProgress(
        tuple(rows),
        *total,
        comments=review.comments,
        stale=tuple(one.id for one in review.comments if decisions.stale(one, files)),
        summary=review.summary,
        since=review.since.id if review.since else "",
        moved=since,
        digest=digest(review.history.now, patch),
        acknowledged=tuple(review.acknowledged.values()),
    )


def _why(blocked: Blocked) -> str:
    names = ", ".join(
        f"{need.part} of {need.path.decode('utf-8', 'surrogateescape')}" for need in blocked.needs[:5]
    )
    more = f" and {len(blocked.needs) - 5} more" if len(blocked.needs) > 5 else ""
    return f"{blocked.part}: {blocked.reason}; it needs {names}{more}"


def review(paths: BoxPaths, row: BoxRow) -> ReviewView:
    """The proposal, its evidence and what was decided of it so far."""
    view = proposal.review(paths, row)
    patch = read(view.diff, view.snapshot.base_tree)
    found, _ = decisions.load(paths, patch, view.snapshot)
    since = moved(quarantine.git(paths), found.since, view.diff.changes, view.snapshot.id)
    selection = select(patch, found.history.now)
    said, trials = stands(paths, view.snapshot.id, view.branch_tip, selection)
    return view._replace(progress=progress(patch, found, since), combination=said, tried=trials)


class Accepted(NamedTuple):
    """What of a proposal is to be applied; ``part`` is None for all of it."""

    part: Part | None
    total: int  # lines and parts in all
    acknowledged: frozenset[str]  # keys of warnings


def accepted(paths: BoxPaths, snapshot: SnapshotInfo, *, done: str = "applied") -> Accepted:
    """What was accepted: all where nothing was decided, else what was accepted; what is open is not taken.

    ``Refused`` when decisions were made and nothing is accepted, and when something that is accepted cannot
    be had without something that is not. ``done`` says what was not done then.
    """
    patch = read(diffs.diff(paths, snapshot.base, snapshot.base_tree, snapshot.id), snapshot.base_tree)
    total = sum(file.all.total for file in patch.files)
    found, _ = decisions.load(paths, patch, snapshot)
    now = found.history.now
    held = frozenset(found.acknowledged)
    selection = select(patch, now)
    if not now.files or selection.whole:
        return Accepted(None, total, held)
    if selection.blocked:
        said = "; ".join(
            f"{one.path.decode('utf-8', 'surrogateescape')}: {_why(one)}" for one in selection.blocked[:5]
        )
        raise Refused(
            f"box {paths.name} was not {done}",
            f"what is accepted cannot be had alone: {said}",
            f"accept that as well, or undecide what needs it: cloche review {paths.name}",
            code="blocked-parts",
        )
    git = quarantine.git(paths)
    tree = compose_tree(git, selection)
    if tree == snapshot.base_tree:
        raise Refused(
            f"box {paths.name} was not {done}",
            "the review made decisions and accepts nothing",
            f"accept what you want: cloche accept {paths.name} PATH; all of it: "
            f"cloche accept {paths.name} --all",
            code="nothing-accepted",
        )
    if tree == snapshot.id:
        return Accepted(None, total, held)
    taken = sum(one.takes.total for one in selection.chosen)
    return Accepted(Part(tree, taken, total - taken, digest(now, patch)), total, held)


def desk(paths: BoxPaths, who: str, *, scripted: bool = False, view: ReviewView | None = None) -> Desk:
    """Sit down over the proposal; see ``Engine.decisions``."""
    authority.require_outside("accept")
    if not who.strip():
        raise Refused(
            "nothing was decided", "the name of who decides is empty", "give one: --as NAME", code="no-name"
        )
    manifest = load_manifest(paths)
    if manifest.state != PROPOSED or manifest.snapshot is None:
        raise Refused(
            f"nothing can be decided about box {paths.name}",
            f"it is {manifest.state}, and only a proposal stands still",
            f"cloche status {paths.name}; propose first: cloche propose {paths.name}",
            code="no-proposal",
        )
    snapshot = proposal.info(manifest.snapshot)
    seen: tuple[CheckRow, ...] | None = None
    if view is not None and view.snapshot == snapshot:
        diff, seen = view.diff, view.checks
    else:
        diff = diffs.diff(paths, snapshot.base, snapshot.base_tree, snapshot.id)
    stored = manifest.snapshot

    def check(tree: str) -> tuple[CheckRow, ...]:
        if tree == snapshot.id and seen is not None:
            return seen
        return proposal.checks(paths, stored, "" if tree == snapshot.id else tree)

    return Desk(paths, read(diff, snapshot.base_tree), snapshot, who, check, scripted=scripted)
