"""Receipts: what ran and what was refused, drawn from the journal and tied to it by count and head. Pure.

A receipt says how far the journal reached when it was written (rule S19), so that a later reader can tell
whether the journal beside it is the same one and whole.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from backends.evidence.journal import Anchor
from backends.snapshots import (
    CLAIMED,
    NOT_RUN,
    RAN,
    BoxCommits,
    CheckRow,
    JournalRecord,
    ReviewProgress,
    ReviewView,
    SessionRow,
    Tally,
)

VERSION = 1
MAX_PROGRAMS = 400  # distinct command lines with a row of their own
MAX_DESTINATIONS = 1000  # the same of destinations
MAX_LAUNCHES = 100  # the latest ones


class ProgramRow(NamedTuple):
    """One program with one argument list, started ``times`` times."""

    path: str
    argv: tuple[str, ...]  # redacted
    times: int
    first: float


class TrafficRow(NamedTuple):
    """What the relay carried to one destination. ``name`` is what the connections said, "" for none."""

    name: str
    address: str  # "" for the destinations without a row
    port: int
    connections: int
    failed: int  # that the destination did not take
    sent: int  # bytes from the box
    received: int


class Span(NamedTuple):
    """The part of the journal that one session lies in, by record numbers; ``last`` is 0 while it runs."""

    first: int
    last: int
    head: str  # hash of the last record, "" while it runs


class Activity(NamedTuple):
    """What a box's processes did as far as the journal saw it."""

    programs: tuple[ProgramRow, ...]  # by first start
    executed: int  # all starts, those of programs without a row included
    others: int  # starts of programs without a row
    lost: tuple[tuple[str, int], ...]  # what could not be written down, by name, with its number
    spans: Mapping[int, Span]  # by session
    generations: tuple[Mapping[str, object], ...] = ()  # changes of the policy that a person accepted
    traffic: tuple[TrafficRow, ...] = ()  # of a box with a list of destinations
    applied: tuple[Mapping[str, object], ...] = ()  # what was applied and undone so far, by time
    requests: tuple[Mapping[str, object], ...] = ()  # changes that reviewers requested, by time
    # The latest launches by time: host, and what was found inside (runtime, kernel, image and its digest).
    launches: tuple[Mapping[str, object], ...] = ()


def activity(records: Iterable[JournalRecord], limit: int = MAX_PROGRAMS) -> Activity:
    """The activity that a journal shows."""
    programs: dict[tuple[str, tuple[str, ...]], ProgramRow] = {}
    lost: dict[str, int] = {}
    spans: dict[int, Span] = {}
    generations: list[Mapping[str, object]] = []
    traffic: dict[tuple[str, str, int], TrafficRow] = {}
    applied: list[Mapping[str, object]] = []
    requests: list[Mapping[str, object]] = []
    launches: deque[Mapping[str, object]] = deque(maxlen=MAX_LAUNCHES)
    executed = others = 0
    for record in records:
        data = record.data
        if record.kind == "exec":
            executed += 1
            argv = data.get("argv")
            words = tuple(map(str, argv)) if isinstance(argv, list) else ()
            key = (str(data.get("path", "")), words)
            known = programs.get(key)
            if known is not None:
                programs[key] = known._replace(times=known.times + 1)
            elif len(programs) < limit:
                programs[key] = ProgramRow(*key, 1, record.time)
            else:
                others += 1
        elif record.kind == "traffic":
            _carried(traffic, data)
        elif record.kind == "policy":
            generations.append({**data, "time": record.time})
        elif record.kind in ("apply", "unapply"):
            applied.append({**data, "act": record.kind, "time": record.time})
        elif record.kind == "launch":
            launches.append(
                {"time": record.time, "host": data.get("host", {}), "facts": data.get("facts", {})}
            )
        elif record.kind == "request":
            requests.append({**data, "time": record.time})
        elif record.kind in ("lost", "torn", "damaged", "unreadable"):
            count = data.get("count", 1)
            what = str(data.get("what", "")) if record.kind == "lost" else f"journal lines ({record.kind})"
            lost[what] = lost.get(what, 0) + (count if type(count) is int else 1)
        elif record.kind in ("session-start", "session-exit"):
            number = data.get("session")
            if record.kind == "session-start" and type(number) is int:
                spans[number] = Span(record.seq, 0, "")
            elif type(number) is int and number in spans:
                spans[number] = spans[number]._replace(last=record.seq, head=record.hash)
    rows = tuple(programs.values())
    sums = tuple(traffic.values())
    done = tuple(generations), sums, tuple(applied), tuple(requests), tuple(launches)
    return Activity(rows, executed, others, tuple(sorted(lost.items())), spans, *done)


def _carried(traffic: dict[tuple[str, str, int], TrafficRow], data: Mapping[str, object]) -> None:
    key = (str(data.get("name", "")), str(data.get("address", "")), _number(data, "port"))
    if key not in traffic and len(traffic) >= MAX_DESTINATIONS:
        key = ("", "", 0)
    row = traffic.get(key) or TrafficRow(*key, 0, 0, 0, 0)
    traffic[key] = row._replace(
        **{name: getattr(row, name) + _number(data, name) for name in TrafficRow._fields[3:]}
    )


def _number(data: Mapping[str, object], name: str) -> int:
    value = data.get(name)
    return value if type(value) is int and value >= 0 else 0


def export_receipt(
    review: ReviewView,
    done: Activity,
    anchor: Anchor,
    policy: Mapping[str, object],
    artefacts: Mapping[str, Mapping[str, object]],
    now: float,
) -> dict[str, object]:
    """The value of an export's ``receipt.json``; ``artefacts`` maps file names to ``sha256`` and ``size``."""
    row, snapshot = review.row, review.snapshot
    return {
        "version": VERSION,
        "kind": "export",
        "created": now,
        "box": {
            "key": row.key, "name": row.name, "tier": row.tier, "profile": row.profile,
            "purpose": row.purpose, "created": row.created, "confined": not row.unconfined,
            "caveat": row.caveat,
        },
        "repository": row.repository,
        "base": {"commit": snapshot.base, "tree": snapshot.base_tree, "ref": row.base_ref},
        "snapshot": {"id": snapshot.id, "created": snapshot.created, "stat": snapshot.stat._asdict()},
        "policy": {
            "digest": review.policy_digest, "resolved": dict(policy),
            "generations": [dict(generation) for generation in done.generations],
        },
        "applied": [dict(one) for one in done.applied],
        "requests": [dict(one) for one in done.requests],
        "launches": [dict(one) for one in done.launches],
        "decided": decided(review),
        "review": None if review.progress is None else reviewed(review.progress),
        "commits": commits_value(review.commits),
        "tried": [one._asdict() for one in review.tried],
        "journal": anchor._asdict(),
        "artefacts": {name: dict(facts) for name, facts in artefacts.items()},
        "changes": [
            {"path": os.fsdecode(c.path), "status": c.status, "mode": f"{c.new_mode:06o}", "oid": c.new_oid}
            for c in review.diff.changes
        ],
        "left_out": [{"path": os.fsdecode(path), "why": why} for path, why in review.diff.skipped],
        "ignored": _plain(review.ignored),
        "checks": [check_value(check) for check in review.checks],
        "acknowledged": [one._asdict() for one in (review.progress.acknowledged if review.progress else ())],
        "evidence": None if review.evidence is None else _plain(review.evidence),
        "tally": tally_value(review.tally),
        "sessions": [session_value(session, done.spans.get(session.id)) for session in review.sessions],
        "activity": {
            "executed": done.executed, "others": done.others, "lost": dict(done.lost),
            "programs": [program._asdict() for program in done.programs],
            "traffic": [row._asdict() for row in done.traffic],
        },
    }  # fmt: skip


def decided(review: ReviewView) -> dict[str, object] | None:
    """What was decided about the proposal, ``None`` for nothing; what it means for an apply."""
    progress = review.progress
    if progress is None or not progress.accepted + progress.rejected:
        return None
    left = progress.rejected + progress.undecided
    return {
        "accepted": progress.accepted, "rejected": progress.rejected, "undecided": progress.undecided,
        "digest": progress.digest, "combination": _combination(review) if progress.accepted and left else "",
    }  # fmt: skip


def reviewed(progress: ReviewProgress) -> dict[str, object]:
    """How far the review was file by file, and what the reviewer said: everybody who gets it reads that."""
    return {
        "files": [
            {
                "path": os.fsdecode(one.path), "accepted": one.accepted, "rejected": one.rejected,
                "undecided": one.undecided, "reviewed": one.reviewed, "blocked": list(one.blocked),
            }
            for one in progress.files
        ],
        "comments": _plain(progress.comments), "stale": list(progress.stale), "summary": progress.summary,
        "since": progress.since, "moved": _plain(progress.moved),
    }  # fmt: skip


def _combination(review: ReviewView) -> str:
    last = next((one for one in reversed(review.tried) if one.fits and one.tree == one.taken), None)
    return NOT_RUN if last is None else f"{RAN}, exit {last.exit}"


def commits_value(found: BoxCommits | None) -> dict[str, object] | None:
    """The commits that were made in the box, ``None`` for none; who made them is what the box says."""
    if found is None:
        return None
    return {
        "head": found.head, "keepable": found.keepable, "why": found.why, "identity": CLAIMED,
        "rows": [row._asdict() for row in found.rows],
    }  # fmt: skip


def check_value(check: CheckRow) -> dict[str, object]:
    """A row of the gate as JSON values."""
    path = None if check.path is None else os.fsdecode(check.path)
    return {
        "id": check.id, "verdict": check.verdict, "reason": check.reason, "path": path, "key": check.key
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """A frozen value as JSON values: objects by field names, paths as text."""
    if hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    if isinstance(value, bytes):
        return os.fsdecode(value)
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def tally_value(tally: Tally) -> dict[str, object]:
    """A tally as JSON values, as ``cloche denials --json`` prints it."""
    return {
        "rows": [row._asdict() for row in tally.rows],
        "total": tally.total,
        "others": tally.others,
        "not_observed": [missing._asdict() for missing in tally.not_observed],
        "lost": dict(tally.lost),
    }


def session_value(session: SessionRow, span: Span | None) -> dict[str, object]:
    """One run's record: what was started, how it ended, and where in the journal that stands."""
    value = session._asdict()
    del value["process"]  # gone when anybody reads this
    value["journal"] = span._asdict() if span else None
    return value


def to_bytes(receipt: Mapping[str, object]) -> bytes:
    """A receipt as it is written: one JSON text, sorted keys, ASCII."""
    return json.dumps(receipt, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False).encode() + b"\n"
