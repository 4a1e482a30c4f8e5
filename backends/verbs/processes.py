"""Process trees of boxes: one scan of /proc serves them all, and CPU shares are measured between two.

Command lines are redacted here, before anybody shows, logs or prints them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from functools import lru_cache

from backends.kernel import procfs
from backends.snapshots import ProcessId, ProcessRow

SHORTEST = 0.2  # seconds between two scans; over less, whole clock ticks make a share jump between 0 and 100
LONGEST_COMMAND = 4096  # bytes of a command line that are read
SHARED = 0.1  # seconds before a question in which a scan may have begun that answers it


class Meter:
    """Scans of /proc, each with an older one that its CPU shares are measured against."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._older: procfs.Scan | None = None
        self._newer: procfs.Scan | None = None
        self._last: tuple[float, Sight] | None = None  # when the last scan began (monotonic), what it saw

    def scan(self) -> Sight:
        """Look at all processes of the host now. Who asks while somebody else looks, or at the same time in
        effect (``SHARED``), gets what that one saw: a screen of boxes costs one scan."""
        asked = time.monotonic()
        with self._lock:
            if self._last is not None and self._last[0] >= asked - SHARED:
                return self._last[1]
            began = time.monotonic()
            now = procfs.scan()
            if self._newer is None or now.time - self._newer.time >= SHORTEST:
                self._older, self._newer = self._newer, now
            sight = Sight(now, self._older)
            self._last = (began, sight)
            return sight

    def forget(self) -> None:
        """Something was just started or ended: what was seen before it answers no question."""
        with self._lock:
            self._last = None


class Sight:
    """All processes of the host at one moment."""

    def __init__(self, now: procfs.Scan, before: procfs.Scan | None) -> None:
        self._now = now
        self._before = before

    def tree(
        self,
        init: ProcessId | None,
        sessions: Mapping[int, int] | None = None,
        *,
        beside: tuple[ProcessId, ...] = (),
        commands: bool = True,
    ) -> tuple[ProcessRow, ...]:
        """Everything below ``init`` and ``beside`` (:class:`Liveness`), depth first; they are not among it.

        ``sessions`` maps the pid of each session's first process to its number. Without ``commands`` the
        rows carry the process's name instead, which costs nothing more to read.
        """
        if init is None:
            return ()
        rows = tuple(
            row
            for root in (init, *beside)
            for row in procfs.tree(self._now, root, self._before, sessions, commands=False)
        )
        if not commands:
            return rows
        return tuple(row._replace(command=command_line(row.ident.pid, row.name)) for row in rows)

    def load(self, init: ProcessId | None, beside: tuple[ProcessId, ...] = ()) -> procfs.Load:
        """How many processes are below ``init`` and ``beside``, and what they use together."""
        total = procfs.Load(0, 0.0, 0)
        for root in (init, *beside) if init is not None else ():
            more = procfs.load(self._now, root, self._before)
            total = procfs.Load(*(one + other for one, other in zip(total, more, strict=True)))  # type: ignore[arg-type]
        return total


def command_line(pid: int, name: str) -> str:
    """The redacted argv joined by spaces, ``[name]`` without one; raw text, to be escaped when drawn."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            data = file.read(LONGEST_COMMAND)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        data = b""
    return _redacted(data.rstrip(b"\0")) if data.strip(b"\0") else f"[{name}]"


@lru_cache(maxsize=4096)
def _redacted(data: bytes) -> str:
    """A command line as it is shown. Kept, because a fleet's are read twice a second and change seldom."""
    from backends.evidence.redact import redact_argv  # its patterns are compiled when it is loaded

    return " ".join(redact_argv([os.fsdecode(word) for word in data.split(b"\0")]))
