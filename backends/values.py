"""The frozen values that keepers, tiers and the journal share; :mod:`backends.snapshots` has all others.

Apart, because each class costs a tenth of a millisecond of every command and of every start of a box.
"""

from __future__ import annotations

from collections.abc import Mapping

from backends.record import NamedTuple


class ProcessId(NamedTuple):
    """A process by identity: a pid alone may be reused, pid and start time together are not."""

    pid: int  # as the host sees it
    start: int  # clock ticks after boot, field 22 of proc_pid_stat(5)


class DenialRow(NamedTuple):
    """Refusals of one kind on one object, collapsed: ``count`` of them between ``first`` and ``last``."""

    kind: str  # fs-read, fs-write, exec, net, dns, socket, syscall, limit, gate
    object: str
    rule: str
    lane: str  # kernel, keeper, proxy, gate, box
    enforced_by: str
    pid: int  # of the latest, host's view; 0 when not known
    command: str  # of the latest
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of a row
    first: float
    last: float


class NotObserved(NamedTuple):
    """A kind of denial that this box's tier cannot see, and why; never shown as zero."""

    kind: str
    reason: str


class Tally(NamedTuple):
    """A projection of the journal: the same numbers on screen, in reports and in JSON."""

    rows: tuple[DenialRow, ...]
    total: int
    others: int  # refusals counted without a row of their own, after the table was full
    not_observed: tuple[NotObserved, ...]
    lost: tuple[tuple[str, int], ...] = ()  # opens, execs and the like that happened and were not seen


class Enforcement(NamedTuple):
    """What became of one requested value. ``enforced`` and ``missing`` are words to show, "" when none."""

    key: str
    requested: str
    enforced: str
    missing: str
    mechanism: str
    proof: str


class Claim(NamedTuple):
    """One sentence that a tier promises, with the action that was run for it."""

    id: str
    text: str
    result: str  # proved, failed, not run
    evidence: str
    duration: float  # seconds


class JournalRecord(NamedTuple):
    seq: int
    time: float
    kind: str
    data: Mapping[str, object]
    hash: str
