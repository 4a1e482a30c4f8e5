"""When the proposed files were last changed, beside when sessions of the box ran. Pure.

A file's change time (ctime, inode(7)) is set by the kernel to its clock at every change of content, mode,
name or owner, and no call sets it to anything else; modification times can be set to anything and are not
looked at. So a change time outside of every session proves that something else than a recorded session
touched the file last, or that the host's clock was set. It proves no more: a change during a session can have
come from outside just then, and one from outside disappears behind a later one. What was removed has no time.
At tier ``workspace`` a process of the box can reach everything, the journal included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from backends.evidence.journal import moment
from backends.gate.evidence.runs import Runs
from backends.snapshots import JournalRecord
from backends.snapshots_evidence import Outside

SLACK = 0.1  # seconds: the clock for files ticks in up to 10 ms, records of old keepers waited for 50 ms
MOST_OUTSIDE = 200
MOST_BYTES = 16 << 10  # of their paths: a manifest and a journal's record hold them

Spans = list[tuple[float, float]]


def witness(records: Iterable[JournalRecord], changed: Mapping[bytes, float | None]) -> dict[str, Any]:
    """What a proposal keeps of it, as JSON values. ``changed``: paths with the change time of the file that
    is there now, ``None`` where there is none."""
    sessions: dict[int, tuple[float, float]] = {}
    alive: Spans = []
    runs = Runs()
    since = 0.0
    for record in records:
        runs.add(record)
        data, number = record.data, record.data.get("session")
        if record.kind == "session-start" and type(number) is int:
            sessions[number] = (moment(record), float("inf"))
        elif record.kind == "session-exit" and type(number) is int and number in sessions:
            sessions[number] = (sessions[number][0], moment(record))
        elif record.kind == "transition" and data.get("to") == "running":
            alive.append((record.time, float("inf")))
        elif record.kind == "transition" and data.get("from") == "running" and alive:
            alive[-1] = (alive[-1][0], record.time)
            sessions = {n: (a, min(b, record.time)) for n, (a, b) in sessions.items()}
        elif record.kind == "base":
            since = record.time
    times = {path: when for path, when in changed.items() if when is not None}
    spans = list(sessions.values())
    found = [
        Outside(path, when, _within(alive, when))
        for path, when in sorted(times.items())
        if not _within(spans, when)
    ]
    outside: list[Outside] = []
    left = MOST_BYTES
    for one in found[:MOST_OUTSIDE]:
        left -= len(one.path)
        if left < 0:
            break
        outside.append(one)
    return {
        "since": since,
        "last": max(times.values(), default=None),
        "untimed": len(changed) - len(times),
        "outside": [
            [one.path.decode("utf-8", "surrogateescape"), round(one.time, 3), one.alive] for one in outside
        ],
        "more": len(found) - len(outside),
        **runs.kept(),
    }


def outside_of(kept: Mapping[str, Any]) -> tuple[Outside, ...]:
    """The files that :func:`witness` found, from what was kept."""
    return tuple(
        Outside(path.encode("utf-8", "surrogateescape"), when, alive)
        for path, when, alive in kept.get("outside", [])
    )


def covers(last: float | None, started: float, ended: float | None) -> str:
    """How a session lies to the last change: after it, during it, before it; "" where that is not known."""
    if last is None:
        return ""
    if started >= last:
        return "after"
    if ended is None:
        return ""
    return "before" if ended < last - SLACK else "during"


def _within(spans: Spans, when: float) -> bool:
    return any(start - SLACK <= when <= end + SLACK for start, end in spans)
