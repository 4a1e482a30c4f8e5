"""What the journal says: records, the tally and the sessions, read on from where the last look ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths
from backends.evidence import journal
from backends.evidence.tally import Projection
from backends.snapshots import JournalRecord, NotObserved, SessionRow, Tally

POLL = 0.2  # seconds between two looks of follow()
PATIENCE = 5.0  # seconds for a keeper to write down what it counted


def settle(paths: BoxPaths) -> None:
    """Let a live keeper write down what it counted and holds for a moment.

    One box is asked, and what is read next is shown as complete: a keeper on a busy machine gets its time,
    and only one that hangs is not waited for.
    """
    from backends.verbs import asking

    if liveness.read(paths).kind == "live":
        asking.ask({paths.key: paths}, [("flush", {})], PATIENCE)


def read(paths: BoxPaths) -> Iterator[JournalRecord]:
    """The records so far, oldest first."""
    settle(paths)
    return journal.read(paths.journal)


def not_observed(paths: BoxPaths, live: liveness.Liveness | None = None) -> tuple[NotObserved, ...]:
    """What the last launch could not see, as the keeper wrote it down; empty before the first launch.
    ``live`` is what was just read of the box."""
    found = (live or liveness.read(paths)).facts.get("not_observed", [])
    return tuple(NotObserved(str(kind), str(reason)) for kind, reason in found)


class Digest:
    """Tally and sessions of one journal, kept up to date; an append costs only its own lines.

    Not a second truth: everything comes from the records, read once each.
    """

    def __init__(self, paths: BoxPaths) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._inode = 0
        self._offset = 0
        self._count = 0
        self._projection = Projection()
        self._sessions: dict[int, SessionRow] = {}
        self.latest = 0.0

    def refresh(self) -> Digest:
        """Take in what was appended since."""
        with self._lock:
            try:
                status = self._paths.journal.stat()
            except FileNotFoundError:
                return self
            if status.st_ino != self._inode:
                self._inode, self._offset, self._count = status.st_ino, 0, 0
                self._projection, self._sessions = Projection(), {}
            while self._offset < status.st_size:
                found, after = journal.read_on(self._paths.journal, self._offset, self._count)
                for record in found:
                    self._add(record)
                self._count += len(found)
                if after == self._offset:  # only an unfinished last line is left
                    break
                self._offset = after
        return self

    def _add(self, record: JournalRecord) -> None:
        self._projection.add(record)
        self.latest = record.time
        data = record.data
        number = data.get("session")
        if not isinstance(number, int):
            return
        if record.kind == "session-start":
            argv = data.get("argv")
            words = tuple(str(word) for word in argv) if isinstance(argv, list) else ()
            self._sessions[number] = SessionRow(
                number,
                words,
                bool(data.get("pty")),
                "running",
                journal.moment(record),
                None,
                None,
                None,
                None,
                None,
            )
        elif record.kind == "session-exit" and number in self._sessions:
            self._sessions[number] = self._sessions[number]._replace(
                state="exited",
                ended=journal.moment(record),
                exit=_whole(data.get("exit")),
                cpu=_real(data.get("cpu")),
                peak_rss=_whole(data.get("peak_rss")),
            )

    def tally(self, unseen: tuple[NotObserved, ...]) -> Tally:
        with self._lock:
            return self._projection.tally(unseen)

    def sessions(self, live: bool) -> tuple[SessionRow, ...]:
        """Sessions by number; without a keeper none is running, whatever its journal could still say."""
        with self._lock:
            rows = sorted(self._sessions.values())
        return tuple(row if live or row.state != "running" else row._replace(state="exited") for row in rows)


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _real(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) else None


def tally(paths: BoxPaths) -> Tally:
    """Denials of the box up to this moment, projected from its journal."""
    settle(paths)
    return Digest(paths).refresh().tally(not_observed(paths))


def sessions(paths: BoxPaths) -> tuple[SessionRow, ...]:
    """Every session that the journal knows."""
    return Digest(paths).refresh().sessions(liveness.read(paths).kind == "live")


def follow(paths: BoxPaths, stop: Callable[[], bool] | None = None) -> Iterator[JournalRecord]:
    """Records that are appended from now on. Ends when the box is gone or ``stop`` says so.

    The file is read, not the keeper asked: it needs no keeper, survives its end, and a slow reader holds
    nobody up.
    """
    offset = paths.journal.stat().st_size if paths.journal.exists() else 0
    while not (stop and stop()):
        found, offset = journal.read_on(paths.journal, offset)
        yield from found
        if not found:
            if not paths.root.exists():
                return
            time.sleep(POLL)
