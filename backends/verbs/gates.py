"""The part of the engine that a reviewer works with: freeze, read, decide, carry out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from backends.boxes.layout import BoxPaths
from backends.verbs.values import Applying, SessionHandle, Streams

if TYPE_CHECKING:
    from backends.snapshots import (
        ApplyOutcome,
        ApplyPlan,
        Diff,
        ExportOutcome,
        Finding,
        ReviewView,
        SnapshotInfo,
        UnapplyOutcome,
    )
    from backends.snapshots_bundle import BundleView
    from backends.snapshots_compare import Comparison
    from backends.snapshots_moved import RebaseOutcome, UnapplyPlan
    from backends.snapshots_request import RequestOutcome
    from backends.trees.values import Source
    from backends.verbs.listing import Lister
    from backends.verbs.reviewing import Desk
    from backends.verbs.trying import TrialOutcome


class Gates(ABC):
    """What :class:`backends.engine.Engine` is by this."""

    cwd: Path

    @abstractmethod
    def find(self, ref: str) -> BoxPaths:
        """Where the box lies on disk."""

    @property
    @abstractmethod
    def place(self) -> Source | None:
        """The source repository that ``cwd`` lies in."""

    @abstractmethod
    def _list(self) -> Lister:
        """What reads rows of boxes."""

    def propose(self, ref: str) -> SnapshotInfo:
        """Freeze what the box holds as its proposal. ``Busy`` while processes run."""
        from backends.verbs import proposal

        return proposal.propose(self.find(ref))

    def review(self, ref: str) -> ReviewView:
        """The proposal beside its evidence, the checks of the gate and what was decided of it so far."""
        from backends.verbs import reviewing

        paths = self.find(ref)
        return reviewing.review(paths, self._list().row(paths))

    def decisions(
        self, ref: str, who: str, *, scripted: bool = False, view: ReviewView | None = None
    ) -> Desk:
        """The proposal's patch and the reviewer's decisions on it, to go on with: kept at every act.

        ``view`` is what ``review`` gave: its diff is taken if the proposal is still the same, not made again.
        ``Refused`` for a caller inside a box and for a box that is not proposed. Close it in the end, so that
        the journal tells of the sitting (kind "decision": who, and how much).
        """
        from backends.verbs import reviewing

        return reviewing.desk(self.find(ref), who, scripted=scripted, view=view)

    def blob(self, ref: str, oid: str) -> bytes:
        """The content of one file of the proposal or of its base, by its object id; for looking at it.

        ``Refused`` for a file of more than :data:`backends.verbs.blobs.MOST` bytes.
        """
        from backends.verbs import blobs

        return blobs.blob(self.find(ref), oid)

    def export(
        self,
        ref: str,
        out: Path,
        force: bool = False,
        series: bool = False,
        *,
        sign: str | None = None,
        prompt: bool = False,
    ) -> ExportOutcome:
        """Write ``patch.diff``, ``report.md`` and ``receipt.json`` of the proposal into ``out``: a folder, or
        where its name ends in ``.tar`` a single file.

        With ``series`` also the box's commits, each as a mail for ``git am``. ``sign`` is the file of the key
        that signs the receipt, "" for none, ``None`` for what the person's configuration says; ``prompt``: a
        passphrase can be asked on the terminal. ``Refused`` when a check of the gate refuses, ``out`` holds
        anything and ``force`` is not given, a commit cannot be such a mail, or the key does not sign.
        """
        from backends.verbs import outcome

        paths, row = self.find(ref), self._list().row(self.find(ref))
        key = outcome.key_of(sign, self.cwd)
        return outcome.export(paths, row, self.cwd / out, force, series=series, sign=key, prompt=prompt)

    def plan_apply(self, ref: str, **how: Unpack[Applying]) -> ApplyPlan:
        """The commit that ``apply`` with the same arguments would make, of the accepted part where there is
        one. Nothing but objects of the quarantine is made. Errors are those of ``apply``, but for a checkout
        that is not clean, which is looked at only then.
        """
        from backends.verbs import applying

        return applying.preview(self.find(ref), **how)

    def apply(
        self, ref: str, *, part: bool = False, seen: ApplyPlan | None = None, **how: Unpack[Applying]
    ) -> ApplyOutcome:
        """Carry the proposed snapshot onto the branch it came from; compare-and-swap on its tip.

        ``as_name`` names a script and is journalled as such; None means that a person confirmed it.
        ``expect`` is the snapshot id that was reviewed: another one is refused. ``Refused`` for a caller
        that runs inside a box, ``Busy`` for a conflict or a dirty tree: nothing is changed then.

        With ``part``, where decisions were made and not all is accepted, the accepted part is applied and the
        box goes on with the rest, idle, on the commit that was made; without, that is ``Refused``. ``onto``
        names a branch to make at the base instead. ``message`` replaces the commit's own, its trailers stay.
        ``seen`` is the plan that was agreed to: ``Busy`` naming what moved when it is another one by now.
        """
        from backends.verbs import applying

        return applying.apply(self.find(ref), part=part, seen=seen, **how)

    def plan_unapply(self, ref: str) -> UnapplyPlan:
        """What ``unapply`` would bring back. Errors are its own, but for a checkout that is not clean, which
        is looked at only then."""
        from backends.verbs import unapplying

        return unapplying.preview(self.find(ref))

    def unapply(
        self, ref: str, *, as_name: str | None = None, seen: UnapplyPlan | None = None
    ) -> UnapplyOutcome:
        """Bring the branch back to where it was before the last apply, as long as it is where that left it.

        The box is proposed again, or after a part idle with its base of before. ``Busy`` when the branch
        moved on or its checkout is not clean: nothing is changed then. ``seen`` is the plan that was agreed
        to: ``Busy`` (code "plan-moved") when it is another one by now.
        """
        from backends.verbs import unapplying

        return unapplying.unapply(self.find(ref), as_name=as_name, seen=seen)

    def rebase(self, ref: str, *, as_name: str | None = None) -> RebaseOutcome:
        """Merge what the recorded branch gained into the box's files, and compare them with its tip from now.

        Where both changed the same the files get conflict marks, to be solved in the box, which is idle; a
        proposal is taken back. The branch and its checkouts stay. ``Refused`` (code "nothing-to-rebase") when
        the branch has not moved, ``Busy`` while processes run and where an ignored file is in the way.
        """
        from backends.verbs import following

        return following.rebase(self.find(ref), as_name=as_name)

    def request_changes(
        self,
        ref: str,
        who: str,
        *,
        summary: str | None = None,
        to_session: int | None = None,
        scripted: bool = False,
    ) -> RequestOutcome:
        """Write what was said of the proposal where the agent in the box reads it; take the proposal back.

        The file (``review.file`` of the profile) has the summary, the comments and the rejected parts; it is
        no part of any proposal. ``summary`` replaces the review's own first. With ``to_session``, a number or
        ``requesting.NEWEST``, a line is typed to that live session; of a box that goes on with a request
        already, this alone is done. ``Refused`` when nothing was said, or the file cannot be written.
        """
        from backends.verbs import requesting

        return requesting.request_changes(
            self.find(ref), who, summary=summary, to_session=to_session, scripted=scripted
        )

    def interdiff(self, ref: str) -> Diff:
        """What the proposal says otherwise than the one that was reviewed before it; ``base`` is that one's
        tree. ``Refused`` (code "no-earlier-review") when none was.
        """
        from backends.verbs import interdiffs

        return interdiffs.interdiff(self.find(ref))

    def verify(self, bundle: Path, signers: str | None = None) -> tuple[Finding, ...]:
        """Check an export again, a folder or a single file: hashes, signature, the chain of its receipt.

        ``signers`` is a file of allowed signers (ssh-keygen(1)): the receipt has to be signed by one of them.
        "" is none, ``None`` what the person's configuration says.
        """
        from backends.verbs import outcome

        return outcome.verify(self.cwd / bundle, outcome.signers_of(signers, self.cwd))

    def review_bundle(self, bundle: Path, signers: str | None = None) -> BundleView:
        """An export as a review, on a host that need not have its box; ``signers`` as for ``verify``.

        Where ``cwd`` lies in a repository with the base (or the base is empty) the patch is applied to it, in
        a throw-away repository, and the gate asked again. ``Refused`` (codes "bundle-unread", "patch-unread",
        "hostile-bundle") for what no export holds; all that merely does not hold is in the findings.
        """
        from backends.verbs import bundles, outcome

        return bundles.review(self.cwd / bundle, self.place, outcome.signers_of(signers, self.cwd))

    def compare(self, refs: Sequence[str]) -> Comparison:
        """Boxes side by side: of each its proposal, or what it holds at this moment, and its evidence.

        ``UsageError`` for fewer than two boxes, more than ``comparing.MOST_BOXES``, or one that is named
        twice. A live box stands still while it is read.
        """
        from backends.verbs import comparing

        found = [self.find(ref) for ref in refs]
        return comparing.compare([(paths, self._list().row(paths)) for paths in found])

    def between(self, one: str, other: str, path: bytes, trees: tuple[str, str]) -> Diff:
        """How a file of box ``one`` differs from that of ``other``, in the ``trees`` that ``compare`` gave.

        ``Refused`` (code "too-large") when the versions have more than ``comparing.MOST_PATCH`` bytes.
        """
        from backends.verbs import comparing

        return comparing.between(self.find(one), self.find(other), path, trees)

    def try_accepted(
        self,
        ref: str,
        argv: Sequence[str],
        *,
        onto_tip: bool = False,
        keep: bool = False,
        as_name: str | None = None,
        streams: Streams = Streams(),  # noqa: B008 (a frozen value)
        on_session: Callable[[SessionHandle], None] | None = None,
        env: Mapping[str, str] | None = None,
        on_request: Callable[[], None] | None = None,
    ) -> TrialOutcome:
        """Run a command on what is accepted of the proposal, all of it where nothing was decided.

        In a fresh box of the same policy, which is removed when the command ended unless ``keep`` is given.
        With ``onto_tip`` that is first merged onto where the branch is now: ``Busy`` when the two conflict.
        How it ended is journalled in the reviewed box (kind "tried") and shown by ``review``. Nothing enters
        the source repository. ``streams``, ``env``, ``on_session`` and ``on_request`` as for ``run``;
        ``as_name`` as for ``apply``. ``Refused`` for a caller inside a box, a box that is not proposed, and
        tier workspace.
        """
        from backends.verbs import trying

        return trying.try_accepted(
            self.find(ref),
            argv,
            onto_tip=onto_tip,
            keep=keep,
            as_name=as_name,
            streams=streams,
            on_session=on_session,
            env=env,
            on_request=on_request,
        )

    def reopen(self, ref: str) -> None:
        """Take a proposal back: proposed becomes idle."""
        from backends.verbs import proposal

        proposal.reopen(self.find(ref))
