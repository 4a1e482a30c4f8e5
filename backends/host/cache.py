"""The answer of the last probe, kept until something changes that it depends on, and when each claim held.

One file below the state folder, which no box is shown. At tier ``workspace`` a program runs as you and could
write it; nothing is decided by it that a launch does not prove again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backends.boxes.layout import state_dir
from backends.host.conditions import Conditions
from backends.record import NamedTuple
from backends.snapshots_host import Fact, Proof

SCHEMA = "cloche.host/1"
_LARGEST = 4 << 20  # bytes of the file that are read


class Passed(NamedTuple):
    """When a claim last held, and under which conditions."""

    time: float
    conditions: Conditions


class Kept(NamedTuple):
    """What the file holds. ``proofs`` are empty when no answer is kept."""

    conditions: Conditions
    time: float
    duration: float
    facts: tuple[Fact, ...]
    proofs: tuple[Proof, ...]
    passed: Mapping[str, Passed]


NOTHING = Kept((), 0.0, 0.0, (), (), {})


def path() -> Path:
    """Where the answer is kept."""
    return state_dir() / "host.json"


def load() -> Kept:
    """What was kept; :data:`NOTHING` where there is no file, or none of this form."""
    try:
        fd = os.open(path(), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return NOTHING
    try:
        with open(fd, "rb") as file:
            return parse(file.read(_LARGEST))
    except OSError:
        return NOTHING  # a folder, say


def parse(data: bytes) -> Kept:
    """What the bytes of the file say; :data:`NOTHING` for another version's, or damaged ones."""
    try:
        return _read(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return NOTHING


def _read(value: Any) -> Kept:
    if value["schema"] != SCHEMA:
        return NOTHING
    under = {digest: _conditions(rows) for digest, rows in value["under"].items()}
    passed = {
        str(ident): Passed(float(when), under[digest]) for ident, (when, digest) in value["passed"].items()
    }
    proofs = tuple(_proof(row) for row in value["proofs"])
    facts = tuple(Fact(*map(str, row)) for row in value["facts"])
    return Kept(
        _conditions(value["conditions"]),
        float(value["time"]),
        float(value["duration"]),
        facts,
        proofs,
        passed,
    )


def _conditions(rows: Any) -> Conditions:
    return tuple((str(name), str(found)) for name, found in rows)


def _proof(row: Any) -> Proof:
    ident, text, result, evidence, duration, tier, without, when, cause, remedy, passed, changed = row
    if result not in ("proved", "failed", "not run"):
        raise ValueError(f"no result: {result}")
    return Proof(
        str(ident),
        str(text),
        str(result),
        str(evidence),
        float(duration),
        str(tier),
        str(without),
        float(when),
        str(cause),
        str(remedy),
        float(passed),
        tuple(map(str, changed)),
    )


def encode(kept: Kept) -> bytes:
    """The bytes of the file; :func:`parse` reads them."""
    under: dict[str, Conditions] = {}
    passed = {}
    for ident, one in kept.passed.items():
        digest = next((known for known, rows in under.items() if rows == one.conditions), str(len(under)))
        under[digest] = one.conditions
        passed[ident] = (one.time, digest)
    value = {
        "schema": SCHEMA,
        "conditions": kept.conditions,
        "time": kept.time,
        "duration": kept.duration,
        "facts": kept.facts,
        "proofs": kept.proofs,
        "under": under,
        "passed": passed,
    }
    return json.dumps(value).encode("ascii")


def save(kept: Kept) -> None:
    """Keep it. ``OSError`` when it cannot be written."""
    replace(path(), encode(kept))


def replace(place: Path, data: bytes) -> None:
    """Give ``place`` a new content at once; of several writers the last one's stays, whole."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(prefix=f".{place.stem}-", dir=place.parent)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        Path(name).rename(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
