"""The frozen values that the engine shows to anybody: front ends, widgets, JSON.

Named tuples rather than dataclasses, because this module is on the path of every command and the import of
``dataclasses`` costs a third of a short command's time. Times are seconds since the epoch, sizes are bytes,
texts that came out of a box are raw (``surrogateescape``): whoever draws them escapes them.
"""

from __future__ import annotations

from backends.record import NamedTuple
from backends.snapshots_evidence import ProposalEvidence
from backends.snapshots_tried import NOT_RUN, RAN, Ignored, Trial
from backends.values import Claim, DenialRow, Enforcement, JournalRecord, NotObserved, ProcessId, Tally

__all__ = [
    "NOT_RUN",
    "RAN",
    "Claim",
    "DenialRow",
    "Enforcement",
    "Ignored",
    "JournalRecord",
    "NotObserved",
    "ProcessId",
    "Tally",
    "Trial",
]


class ProcessRow(NamedTuple):
    """One process of a box's tree, rows in depth-first order of the tree."""

    ident: ProcessId
    parent: ProcessId | None
    depth: int
    state: str  # the letter of proc_pid_stat(5) field 3
    cpu: float  # percent of one core since the scan before; 0.0 in a first scan
    rss: int
    age: float  # seconds
    name: str
    command: str  # argv joined by spaces, or [name] for a process without
    session: int | None


class DiffStat(NamedTuple):
    files: int
    added: int
    deleted: int


class FileChange(NamedTuple):
    """One file of a diff between two tree objects. Paths are bytes: names need not be UTF-8."""

    path: bytes
    old_path: bytes | None  # set for renames
    status: str  # A, M, D, R, T as in git-diff-tree(1)
    old_mode: int
    new_mode: int
    old_oid: str
    new_oid: str
    added: int | None  # None: binary
    deleted: int | None


class Diff(NamedTuple):
    """Changes between a base and a tree, with the patch text as git prints it (bytes, ``--binary``)."""

    base: str  # commit id
    tree: str  # tree id
    changes: tuple[FileChange, ...]
    patch: bytes
    skipped: tuple[tuple[bytes, str], ...]  # what was not read, or is a repository to a Git there; the reason


class SessionRow(NamedTuple):
    """One command that was started in a box."""

    id: int
    argv: tuple[str, ...]  # redacted
    pty: bool
    state: str  # running, exited
    started: float
    ended: float | None
    exit: int | None  # exit code, 128 + signal, 124 on the wall limit
    cpu: float | None  # seconds of user and system time
    peak_rss: int | None
    process: ProcessId | None


class CheckRow(NamedTuple):
    """One check of the gate. ``refuse`` cannot be overridden, ``warn`` wants to be acknowledged."""

    id: str
    verdict: str  # pass, warn, refuse
    reason: str
    path: bytes | None
    key: str = ""  # of a warning: names check, path, reason and the content that it is about


class Acknowledgement(NamedTuple):
    """A warning that somebody has seen and takes upon themselves."""

    key: str  # of the :class:`CheckRow`
    who: str
    time: float
    scripted: bool  # a script did it, not a person


class SnapshotInfo(NamedTuple):
    """A frozen state of a box: a tree object in its quarantine, and the base it is compared with."""

    id: str  # tree id
    base: str
    base_tree: str
    created: float
    stat: DiffStat


class BoxRow(NamedTuple):
    """A box in a list: cheap to make, no question asked of a slow keeper beyond its time limit."""

    key: str  # <repository key>/<name>, unique on this host
    name: str
    repository: str  # path of the source repository, "" for a detached box
    tier: str
    profile: str
    state: str  # created, running, idle, proposed, applied, aborted
    live: str  # "live", "slow" (keeper did not answer in time), "lost" (keeper died), "" (costs only disk)
    base: str
    base_ref: str  # branch that the base was taken from, "" when detached
    drift: int | None  # commits that the branch gained since; None when it cannot be told
    created: float
    purpose: str
    expires: float | None
    needs: str  # why this box needs a person, "" when it does not
    processes: int
    cpu: float
    rss: int
    denied: int
    stat: DiffStat | None
    last_line: str
    unconfined: bool
    caveat: str = ""  # less is promised than the tier says: one word, a colon, the sentence

    @property
    def marked_tier(self) -> str:
        """The tier with the one word of what is promised less, where something is."""
        word = "unconfined" if self.unconfined else self.caveat.partition(":")[0]
        return f"{self.tier} ({word})" if word else self.tier


class BoxView(NamedTuple):
    """All that a pane or the box screen shows of one box at one moment."""

    row: BoxRow
    processes: tuple[ProcessRow, ...]
    tally: Tally
    sessions: tuple[SessionRow, ...]
    output: bytes  # the tail of what the sessions printed, raw


class BoxStatus(NamedTuple):
    """What a box actually received, value by value."""

    row: BoxRow
    policy_digest: str
    launch_host: str
    tree_provider: str
    enforcement: tuple[Enforcement, ...]
    claims: tuple[Claim, ...]
    answers: tuple[tuple[str, str], ...]  # the five questions and what holds for this box
    snapshot: SnapshotInfo | None
    tree_reason: str = ""  # why this provider, as it was decided when the box was made


class ReviewComment(NamedTuple):
    """What a reviewer said about a line, or with line 0 about a file."""

    id: int
    path: bytes
    key: str  # of the file's change at that time; another one now: the file has changed since
    side: str  # old: a line of the base, new: one of the snapshot
    line: int
    quote: str  # the line itself, cut; raw
    text: str
    who: str
    time: float


class ReviewedHunk(NamedTuple):
    """How far the review of one hunk is; its range on both sides as in the patch."""

    old: int
    old_count: int
    new: int
    new_count: int
    accepted: int
    rejected: int
    undecided: int


class ReviewedFile(NamedTuple):
    """How far the review of one file is. Parts (its mode, its name, that it exists) count like lines."""

    path: bytes
    accepted: int
    rejected: int
    undecided: int
    reviewed: bool  # marked as read, as it is now
    comments: int
    blocked: tuple[str, ...]  # why something that was accepted cannot be carried out
    parts: tuple[tuple[str, str], ...]  # exists, name, mode, content: accepted, rejected or undecided
    hunks: tuple[ReviewedHunk, ...]  # empty for a file that is decided as a whole


class ReviewProgress(NamedTuple):
    """What was decided of a proposal so far."""

    files: tuple[ReviewedFile, ...]  # in the order of the diff
    accepted: int
    rejected: int
    undecided: int
    comments: tuple[ReviewComment, ...]
    stale: tuple[int, ...]  # ids of the comments whose file has changed since
    summary: str
    since: str  # the snapshot that was last reviewed before this one, "" for the first
    moved: tuple[tuple[bytes, str], ...]  # since then: path, and added, dropped, changed or rebased
    digest: str  # names what was decided
    acknowledged: tuple[Acknowledgement, ...] = ()  # by time; of earlier contents as well


class BoxCommit(NamedTuple):
    """A commit that was made in the box. Who made it is what the box says, and nothing vouches for it."""

    id: str
    tree: str
    parents: tuple[str, ...]
    subject: str
    message: str  # whole
    author: str
    author_email: str
    authored: float
    committer: str
    committer_email: str
    committed: float
    encoding: str  # of the message where that is not UTF-8, else ""


CLAIMED = "claimed by the box"
"""Said of the people that commits of a box name: nothing vouches for them."""


class BoxCommits(NamedTuple):
    """The commits of a proposal, as far as they could be taken in and checked."""

    head: str  # the last one, "" where none was taken in
    rows: tuple[BoxCommit, ...]  # oldest first
    keepable: bool  # they can be applied as they are (``keep_commits``)
    why: str  # why not, "" when they can; may quote the box


class ReviewView(NamedTuple):
    """What the gate screen shows for one proposed snapshot."""

    row: BoxRow
    snapshot: SnapshotInfo
    policy_digest: str
    diff: Diff
    checks: tuple[CheckRow, ...]
    tally: Tally
    sessions: tuple[SessionRow, ...]
    branch: str
    branch_tip: str  # "" when the branch is gone
    progress: ReviewProgress | None = None  # None where nobody asked for it, as in an export
    ignored: Ignored = Ignored(0, ())
    tried: tuple[Trial, ...] = ()  # of this proposal, oldest first
    combination: str = "whole"  # ran or not-run: of an accepted part, whether exactly it was tried
    commits: BoxCommits | None = None  # that were made in the box; None for none
    evidence: ProposalEvidence | None = None  # None where nobody asked for it


class ExportOutcome(NamedTuple):
    """What ``export`` wrote."""

    out: str  # the folder, absolute
    files: tuple[str, ...]  # names in it
    snapshot: SnapshotInfo
    warnings: tuple[CheckRow, ...] = ()  # of mails, for what no review showed


class ApplyOutcome(NamedTuple):
    """What ``apply`` did to the parent branch; ``old`` and ``new`` are its tip before and after."""

    branch: str
    old: str
    new: str
    mode: str  # fast-forward, merge, squash
    who: str
    notes: tuple[str, ...] = ()  # what the person should still do, such as running a filter
    tree: str = ""  # of the commit ``new``
    partial: bool = False  # the accepted part alone; the rest is in the box, which is idle again
    accepted: int = 0  # lines and parts of the proposal that the commit takes
    left: int = 0  # and those that it does not
    combination: str = (
        ""  # of a part or a merge: NOT_RUN, or RAN with the exit of what was tried on this tree
    )
    commits: tuple[str, ...] = ()  # ids of the box's commits that were kept, oldest first


class ApplyPlan(NamedTuple):
    """The commit that ``apply`` would make now."""

    branch: str
    new_branch: bool  # the branch does not exist yet
    old: str  # the branch's tip, "" for a new one
    base: str
    snapshot: str
    mode: str  # fast-forward, merge, squash
    tree: str
    parents: tuple[str, ...]
    message: str
    partial: bool
    accepted: int
    left: int
    combination: str
    checks: tuple[CheckRow, ...]  # of exactly what would be taken
    trailers: tuple[str, ...] = ()  # the last lines of ``message``, which the gate writes
    author: str = ""  # NAME <EMAIL>, who commits as well
    standing: tuple[CheckRow, ...] = ()  # warnings among the checks that nobody acknowledged: apply refuses
    commits: tuple[BoxCommit, ...] = ()  # of the box, that are kept as they are, oldest first


class UnapplyOutcome(NamedTuple):
    """What ``unapply`` did: the branch is at ``new`` again, or gone ("") where apply had made it."""

    branch: str
    old: str
    new: str
    state: str  # of the box


class Finding(NamedTuple):
    """One row of a check that a person asked for (doctor, verify, policy check).

    The last three are of doctor alone: ``fix`` names a safe repair that ``--fix`` makes.
    """

    id: str
    verdict: str  # the severity: ok, note (worth knowing), warn, fail (a claim does not hold)
    text: str
    evidence: str
    remedy: str  # "" when nothing is to be done; of doctor a command where there is one
    why: str = ""  # why it matters
    fix: str = ""  # "": none is offered
    subject: str = ""  # "host", or the key of a box


class RemovalOutcome(NamedTuple):
    """What became of one box that ``rm`` or ``gc`` was asked to remove; ``error`` is None when it is gone."""

    box: str
    removed: bool
    detail: str
    error: dict[str, str | int] | None


class Proposal(NamedTuple):
    """One change of a person's own ``cloche.toml``, exactly as narrow as the refusal that it answers.

    Nothing is written by making one: a person accepts it (``cloche allow``, or a key of the workbench).
    """

    key: str  # key of the profile: "net.egress", "fs.read", "limits.pids"
    value: str  # the element that a list gains, or the value that the key takes, as the profile spells it
    file: str  # the cloche.toml that would change (of a detached box: your config.toml), absolute
    diff: str  # unified diff of that file, "--- /dev/null" when it would be made; "" when it says so already
    live: bool  # the running box can take it without a restart


class Explanation(NamedTuple):
    """Why something was refused, and what would allow it. Either ``proposal`` or ``why_not`` is given."""

    kind: str  # as in DenialRow
    object: str  # raw, as it came out of the box
    rule: str  # the rule that the refusal named
    where: str  # file:line of the value that refused it, or the default's name
    reason: str  # one sentence for a person
    proposal: Proposal | None
    why_not: str  # why no change of the profile is proposed, "" when one is


class EgressRow(NamedTuple):
    """One rule of a supervised box's egress list, or one name of it, with what went through it so far."""

    rule: str  # as the profile spells it
    name: str  # the name that is pinned, "" for a rule of addresses
    addresses: tuple[str, ...]  # what the name is pinned to, or the network of the rule
    port: int
    connections: int  # that the relay dialled
    sent: int  # bytes from the box to the destination
    received: int  # bytes from the destination to the box
    refused: int  # connections to these addresses that the relay refused (another name, no name)
    state: str  # pinned, open (a rule of addresses), unresolved, refused: with the reason after a colon


class Repinned(NamedTuple):
    """What looking the names of a running box up again came to."""

    names: int  # that were looked up
    changed: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]  # name, addresses before, addresses now
    kept: tuple[tuple[str, str], ...]  # names that stand for what they did, with the reason: no answer


class GrantUse(NamedTuple):
    """One entry of a list of the policy, beside what the box was seen to do with it."""

    key: str
    entry: str
    used: bool | None  # None: nobody looked
    places: tuple[
        str, ...
    ]  # what was used of it, as narrow as a profile can say it; the entry itself or below


class LimitUse(NamedTuple):
    """How near a limit the box came, in words, "" where nobody measured."""

    key: str
    granted: str
    peak: str


class Learned(NamedTuple):
    """What a box used against what it was granted, and the narrowest profile that holds the former."""

    profile: str  # TOML
    grants: tuple[GrantUse, ...]
    peaks: tuple[LimitUse, ...]
    not_observed: tuple[str, ...]
