"""Refusals, collapsed without loss: the first of a kind at once, repeats as one record a second.

A record's ``count`` is the number of refusals since the record before of the same key, so the sum over the
journal is exact however often a refusal repeats. Keys are bounded: what comes after is one ``lost`` record
with its count, which the tally shows as "others".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from backends.record import NamedTuple

INTERVAL = 1.0  # seconds between two records of a key that repeats
MAX_KEYS = 1000  # distinct refusals that are remembered at a time
NEW_PER_SECOND = 200  # distinct refusals that get a record of their own in one second
REPEATS_PER_SECOND = 100  # records of repeats in one second; the rest goes on being counted
MAX_OBJECT = 512  # characters of an object


class Refusal(NamedTuple):
    """What was refused, by which rule, and who enforced it: the key of a tally's row."""

    kind: str
    object: str
    rule: str
    lane: str
    enforced_by: str


class _Entry:
    __slots__ = ("command", "count", "first", "last", "pid")

    def __init__(self) -> None:
        self.count = 0
        self.first = 0.0
        self.last = 0.0
        self.pid = 0
        self.command = ""


class Denials:
    """Counts refusals; ``record(kind, data)`` writes to the journal."""

    def __init__(
        self,
        record: Callable[[str, Mapping[str, object]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._record = record
        self._clock = clock
        self._entries: dict[Refusal, _Entry] = {}
        self._others = 0
        self._new = 0

    def add(self, refusal: Refusal, pid: int, command: str, count: int = 1) -> None:
        """Count ``count`` refusals of one kind that just happened."""
        entry = self._entries.get(refusal)
        now = self._clock()
        if entry is not None:
            if not entry.count:
                entry.first = now
            entry.count += count
            entry.last = now
            entry.pid, entry.command = pid, command
            return
        if len(self._entries) >= MAX_KEYS or self._new >= NEW_PER_SECOND:
            self._others += count
            return
        self._new += 1
        self._entries[refusal] = _Entry()
        self._write(refusal, count, now, now, pid, command)

    @property
    def waiting(self) -> int:
        """Refusals that are counted here and not in any record yet."""
        return self._others + sum(entry.count for entry in self._entries.values())

    def flush(self, *, everything: bool = True) -> None:
        """Write the repeats, or every ``INTERVAL`` as many as one interval may write."""
        self._new = 0
        left = len(self._entries) if everything else REPEATS_PER_SECOND
        for refusal, entry in list(self._entries.items()):
            if entry.count:
                if left <= 0:
                    continue
                left -= 1
                self._write(refusal, entry.count, entry.first, entry.last, entry.pid, entry.command)
                entry.count = 0
                # To the end of the line, so that next time the others come first.
                self._entries[refusal] = self._entries.pop(refusal)
            elif len(self._entries) > MAX_KEYS // 2:
                del self._entries[refusal]  # quiet for an interval: makes room, its row stays in the tally
        if self._others:
            self._record("lost", {"what": "denials", "count": self._others})
            self._others = 0

    def _write(self, refusal: Refusal, count: int, first: float, last: float, pid: int, command: str) -> None:
        self._record(
            "denial",
            {
                "kind": refusal.kind,
                "object": refusal.object[:MAX_OBJECT],
                "rule": refusal.rule,
                "lane": refusal.lane,
                "enforced_by": refusal.enforced_by,
                "pid": pid,
                "command": command,
                "count": count,
                "first": round(first, 3),
                "last": round(last, 3),
            },
        )
