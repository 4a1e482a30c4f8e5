"""The frozen values of the evidence beside a proposal, for front ends, widgets, JSON.

Times are seconds since the epoch, texts that came out of a box are raw (``surrogateescape``).
"""

from __future__ import annotations

from backends.record import NamedTuple


class Ran(NamedTuple):
    """One session since the base."""

    session: int
    argv: tuple[str, ...]  # redacted
    test: bool  # its command line is that of a test run; what it really did is not known by that
    exit: int | None
    seconds: float | None  # None: its end was not seen
    covers: str  # after, during, before: when it ran, by the last change of what is proposed; "" unknown


class InnerEnd(NamedTuple):
    """A way in which runs of one command ended, and how many did."""

    exit: int | None  # as a shell tells it, 128 + the signal; None: not known
    signal: str  # SIGKILL and the like, "" without
    why: str  # why it is not known
    times: int


class InnerRun(NamedTuple):
    """The run of one command that began last."""

    exit: int | None
    signal: str
    why: str
    seconds: float | None
    covers: str  # as of Ran
    ran: tuple[str, ...] = ()  # another program that the process ran in the end, whose end it is


class InnerTest(NamedTuple):
    """A test command that processes of the box started themselves."""

    argv: tuple[str, ...]  # redacted
    times: int  # processes
    ends: tuple[InnerEnd, ...] = ()
    last: InnerRun | None = None


class Outside(NamedTuple):
    """A file whose last change lies outside of every recorded session."""

    path: bytes
    time: float
    alive: bool  # processes of the box lived then: one that outlived its session can have done it


class Dependency(NamedTuple):
    """One package of a lock file that is otherwise than in the base."""

    name: str
    change: str  # added, removed, changed, rewritten: the same version from elsewhere or with another hash
    old: str  # versions, joined by commas
    new: str


class LockFile(NamedTuple):
    """What a lock file that changed brings and drops."""

    path: bytes
    added: int
    removed: int
    changed: int
    rewritten: int
    rows: tuple[Dependency, ...]  # the first ones
    note: str  # why it could not be read, "" when it was


class Secret(NamedTuple):
    """Something in an added line that looks like a secret. The secret itself is nowhere."""

    path: bytes
    line: int  # in the proposal, from 1
    kind: str
    shown: str  # its beginning and its length
    named: bool  # a known form or name; False: only as random as a secret would be


class Bulk(NamedTuple):
    """A changed file that nobody wrote by hand, as its name, the base's attributes or its own text says."""

    path: bytes
    kind: str  # generated, vendored
    rule: str  # what says so


class ProposalEvidence(NamedTuple):
    """What is known about how a proposal came to be and what it brings."""

    ran: tuple[Ran, ...]
    inner: tuple[InnerTest, ...]
    last_change: float | None  # of a changed file, by its change time; None: not known
    untimed: int  # changes without a time: what was removed, links
    outside: tuple[Outside, ...]  # the first ones
    more_outside: int  # beyond those
    alive: int | None  # processes of the box now; None: this tier cannot tell
    locks: tuple[LockFile, ...]
    secrets: tuple[Secret, ...]
    unsearched: tuple[tuple[bytes, str], ...]  # files that were not searched for secrets, with the reason
    bulk: tuple[Bulk, ...]
    examiner: str = ""  # what bound the process that read lock files and searched; "" when none was needed
    more_inner: int = 0  # runs of test commands beyond those of ``inner``
    unseen: tuple[str, ...] = ()  # why processes of the box can have run tests that are not known
