"""Process trees of boxes: one scan of /proc serves them all (proc_pid_stat(5)).

Every process of a box descends from its init, at every tier, so a box is init's subtree. Identity is pid and
start time. Command lines are redacted here, before anybody shows, logs or prints them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from backends.evidence.redact import redact_argv
from backends.snapshots import ProcessId, ProcessRow

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
LONGEST_COMMAND = 4096  # bytes of a command line that are read
SHORTEST = 0.2  # seconds; over less, whole clock ticks make a share jump between 0 and 100
DEEPEST = 4096  # a parent chain longer than this is a scan torn by a reused pid


class Raw(NamedTuple):
    """One process as the kernel lists it."""

    ident: ProcessId
    parent: int
    state: str
    ticks: int  # user and system time
    rss: int
    name: str


class Scan(NamedTuple):
    """All processes of the host at one moment."""

    when: float  # monotonic
    uptime: float  # seconds after boot, the clock of start times
    processes: Mapping[int, Raw]
    children: Mapping[int, tuple[int, ...]]


def scan() -> Scan:
    """Read every ``/proc/<pid>/stat``; zombies are left out, they hold nothing and cannot act."""
    processes: dict[int, Raw] = {}
    children: dict[int, list[int]] = {}
    when = time.monotonic()
    with os.scandir("/proc") as entries:
        pids = [entry.name for entry in entries if entry.name.isdecimal()]
    for word in pids:
        try:
            with open(f"/proc/{word}/stat", "rb", buffering=0) as file:
                data = file.read(4096)
        except (FileNotFoundError, ProcessLookupError):
            continue
        opening, closing = data.find(b"("), data.rfind(b")")
        fields = data[closing + 2 :].split()
        if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1:
            continue
        pid, parent = int(word), int(fields[1])
        processes[pid] = Raw(
            ProcessId(pid, int(fields[19])),
            parent,
            fields[0].decode(),
            int(fields[11]) + int(fields[12]),
            int(fields[21]) * PAGE,
            os.fsdecode(data[opening + 1 : closing]),
        )
        children.setdefault(parent, []).append(pid)
    return Scan(
        when,
        time.clock_gettime(time.CLOCK_BOOTTIME),
        processes,
        {parent: tuple(sorted(pids)) for parent, pids in children.items()},
    )


def below(found: Scan, init: ProcessId | None) -> list[tuple[Raw, int]]:
    """What descends from ``init`` with its depth, depth first; init itself is the box, not in it."""
    root = found.processes.get(init.pid) if init else None
    if root is None or root.ident != init:
        return []
    rows: list[tuple[Raw, int]] = []
    queue = [(pid, 0) for pid in reversed(found.children.get(root.ident.pid, ()))]
    seen = {root.ident.pid}
    while queue:
        pid, depth = queue.pop()
        if pid in seen or depth > DEEPEST:
            continue
        seen.add(pid)
        rows.append((found.processes[pid], depth))
        queue += [(child, depth + 1) for child in reversed(found.children.get(pid, ()))]
    return rows


def command_line(pid: int, name: str) -> str:
    """The redacted argv joined by spaces, ``[name]`` without one; raw text, to be escaped when drawn."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            data = file.read(LONGEST_COMMAND)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        data = b""
    words = [os.fsdecode(word) for word in data.rstrip(b"\0").split(b"\0")] if data else []
    return " ".join(redact_argv(words)) if words else f"[{name}]"


class Meter:
    """Turns scans into rows; remembers the last CPU time of each process to tell its share since."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[ProcessId, tuple[float, int, float]] = {}  # when, ticks, share

    def shares(self, found: Scan, rows: list[tuple[Raw, int]]) -> dict[ProcessId, float]:
        """Percent of one core for each process since it was last seen here; 0.0 at first sight."""
        shares: dict[ProcessId, float] = {}
        with self._lock:
            for raw, _ in rows:
                when, ticks, share = self._last.get(raw.ident, (found.when, raw.ticks, 0.0))
                passed = found.when - when
                if passed >= SHORTEST:
                    share = 100.0 * (raw.ticks - ticks) / TICKS / passed
                if passed >= SHORTEST or raw.ident not in self._last:
                    self._last[raw.ident] = (found.when, raw.ticks, share)
                shares[raw.ident] = share
            if len(self._last) > 20_000:
                self._last = {
                    ident: seen
                    for ident, seen in self._last.items()
                    if (known := found.processes.get(ident.pid)) and known.ident == ident
                }
        return shares

    def rows(
        self, found: Scan, init: ProcessId | None, sessions: Mapping[ProcessId, int]
    ) -> tuple[ProcessRow, ...]:
        """The tree of one box. ``sessions`` maps each session's first process to its number."""
        tree = below(found, init)
        shares = self.shares(found, tree)
        numbers: dict[int, int | None] = {}
        result: list[ProcessRow] = []
        for raw, depth in tree:
            number = sessions.get(raw.ident, numbers.get(raw.parent))
            numbers[raw.ident.pid] = number
            parent = found.processes.get(raw.parent) if depth else None
            result.append(
                ProcessRow(
                    raw.ident,
                    parent.ident if parent else None,
                    depth,
                    raw.state,
                    round(shares[raw.ident], 1),
                    raw.rss,
                    max(0.0, found.uptime - raw.ident.start / TICKS),
                    raw.name,
                    command_line(raw.ident.pid, raw.name),
                    number,
                )
            )
        return tuple(result)
