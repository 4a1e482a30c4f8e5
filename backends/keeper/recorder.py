"""What the keeper writes to the journal, in batches, and what it reads back from it.

Reading back serves three: the running tally, the numbering of sessions across launches, and clients that
subscribed. All see the same records in the same order, also those that other processes wrote.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Mapping

from backends.errors import ClocheError
from backends.evidence.journal import Journal
from backends.evidence.tally import Projection
from backends.keeper.log import Log
from backends.keeper.loop import Loop, Timer
from backends.values import JournalRecord

BATCH = 0.05  # seconds that a record may wait for others
MAX_WAITING = 20_000  # records held while the journal cannot be written
_RETRY = 1.0
_BLOCK = 1 << 18
_MARKS = (b'"kind":"denial"', b'"kind":"lost"', b'"kind":"session-start"')

Item = tuple[str, Mapping[str, object]]
Subscriber = Callable[[JournalRecord], None]


class Recorder:
    """The one writer of this keeper's records. ``collect`` is asked for more records before each batch."""

    def __init__(self, loop: Loop, journal: Journal, log: Log) -> None:
        self._loop = loop
        self._journal = journal
        self._log = log
        self._waiting: deque[Item] = deque()
        self._lost: dict[str, int] = {}
        self._timer: Timer | None = None
        self._offset = 0
        self.projection = Projection()
        self.last_session = 0
        self.subscribers: list[Subscriber] = []

    @property
    def denied_waiting(self) -> int:
        """Refusals in records that wait for the next batch."""
        counts = (data.get("count", 1) for kind, data in self._waiting if kind == "denial")
        return sum(count for count in counts if isinstance(count, int))

    def note(self, kind: str, data: Mapping[str, object]) -> None:
        """Write a record with the next batch."""
        if len(self._waiting) >= MAX_WAITING:
            what = "denials" if kind == "denial" else kind
            count = data.get("count", 1)
            self._lost[what] = self._lost.get(what, 0) + (count if isinstance(count, int) else 1)
        else:
            self._waiting.append((kind, data))
        if self._timer is None:
            self._timer = self._loop.later(BATCH, self.flush)

    def flush(self, *, sync: bool = False) -> None:
        """Write what waits. A journal that cannot be written keeps it waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for what, count in self._lost.items():
            self._waiting.append(("lost", {"what": what, "count": count}))
        self._lost.clear()
        if not self._waiting:
            return
        try:
            self._journal.append_many(self._waiting, sync=sync)
        except (OSError, ClocheError) as error:
            self._log.failure("journal", error)
            self._timer = self._loop.later(_RETRY, self.flush)
            return
        self._waiting.clear()
        self.read_back()

    def read_back(self) -> None:
        """Take in every complete line that was added to the journal since the last call."""
        try:
            fd = os.open(self._journal.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        try:
            rest = b""
            while block := os.pread(fd, _BLOCK, self._offset + len(rest)):
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    self._offset += len(line) + 1
                    self._take(line)
        finally:
            os.close(fd)

    def _take(self, line: bytes) -> None:
        # Most lines concern nobody here, and reading JSON costs more than all else that is done with them.
        if not self.subscribers and not any(mark in line for mark in _MARKS):
            return
        try:
            value = json.loads(line)
            record = JournalRecord(
                value["seq"], value["time"], value["kind"], value["data"], value.get("hash", "")
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            self._log.note("a line of the journal is not a record")
            return
        if not isinstance(record.data, dict):
            return
        self.projection.add(record)
        if record.kind == "session-start":
            number = record.data.get("session")
            if isinstance(number, int):
                self.last_session = max(self.last_session, number)
        for subscriber in list(self.subscribers):
            subscriber(record)
