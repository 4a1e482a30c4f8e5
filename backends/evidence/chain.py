"""One record of a journal: its canonical text, its hash, its link to the record before. Pure.

A record is ``{"seq", "time", "kind", "data", "prev", "hash"}``; ``hash`` is the SHA-256 of the canonical JSON
of the record without ``hash``, ``prev`` the hash of the record before (64 zeros for the first), ``seq``
counts from 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from backends.digest import sha256
from backends.values import JournalRecord

GENESIS = "0" * 64
_FIELDS = frozenset({"seq", "time", "kind", "data", "prev", "hash"})


def canonical(value: object) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces, ASCII (lone surrogates as ``\\udcXX``).

    Raises ValueError for NaN and infinities, TypeError for what JSON cannot hold.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode()


def digest(text: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return sha256(text).hexdigest()


def link(
    seq: int, previous: str, when: float, kind: str, data: Mapping[str, object]
) -> tuple[JournalRecord, bytes]:
    """The record number ``seq`` that follows the hash ``previous``, and its line."""
    body: dict[str, object] = {
        "seq": seq, "time": round(when, 6), "kind": kind, "data": dict(data), "prev": previous,
    }  # fmt: skip
    body["hash"] = digest(canonical(body))
    return record_of(body), canonical(body) + b"\n"


def parse(line: bytes) -> dict[str, object] | str:
    """The record of a finished line, or the words for what is wrong with it (links are not looked at)."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "is not JSON"
    if not isinstance(value, dict) or value.keys() != _FIELDS:
        return "is not a journal record"
    seq, when = value["seq"], value["time"]
    if (
        type(seq) is not int
        or type(when) not in (int, float)
        or not isinstance(value["kind"], str)
        or not isinstance(value["data"], dict)
        or not isinstance(value["prev"], str)
    ):
        return "has a field of the wrong type"
    try:
        text = canonical(value) + b"\n"
    except ValueError:
        return "holds a number that JSON does not know"
    if text != line:
        return "is not in canonical form"
    given = value.pop("hash")
    if digest(canonical(value)) != given:
        return "was changed: its hash does not fit"
    value["hash"] = given
    return value


def record_of(body: Mapping[str, object]) -> JournalRecord:
    """The value of a parsed record."""
    seq, when, data = body["seq"], body["time"], body["data"]
    assert isinstance(seq, int) and isinstance(when, (int, float)) and isinstance(data, dict)
    return JournalRecord(seq, float(when), str(body["kind"]), data, str(body["hash"]))
