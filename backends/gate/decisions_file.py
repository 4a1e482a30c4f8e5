"""``review.json``: a review as JSON and back. Strict: what was not written here is no review. Pure.

Paths are text with surrogateescape, masks of lines are ranges (``3-7,12``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from backends.digest import sha256
from backends.gate.decisions import (
    COMMENT_LIMIT,
    MOST_ACKNOWLEDGED,
    MOST_COMMENTS,
    NEW,
    OLD,
    QUOTE_LIMIT,
    SUMMARY_LIMIT,
    Compared,
    Review,
)
from backends.gate.patch import NOTHING, PARTS, Decisions, FileDecision, History, Marks, Patch
from backends.gate.patch.choosing import STEPS, Step
from backends.gate.patch.marks import MOST_LINES, from_text, to_text
from backends.gate.patch.model import File
from backends.snapshots import Acknowledgement, ReviewComment

VERSION = 1
HISTORY_LIMIT = 1 << 20  # characters, about, of the steps that are kept on disk
_SMALL = 1 << 1000
_KEYS = {
    "stamp", "version", "snapshot", "since", "patch", "files", "past", "future", "reviewed", "comments",
    "summary", "acknowledged",
}  # fmt: skip
_STAMP = re.compile(rb'\{"stamp":"([0-9a-f]{16})",')
_DIGITS = frozenset("0123456789abcdef")


def encode(review: Review, patch: Patch, stamp: str = "0" * 16) -> bytes:
    """The review as it is kept; ``stamp`` names this writing of it (16 hexadecimal digits)."""
    return Encoder(patch).encode(review, stamp)


class Encoder:
    """Writes one review again and again: what is the same as before is not made into text anew, so an act on
    one file costs little in a change of ten thousand."""

    def __init__(self, patch: Patch) -> None:
        self._keys = {file.path: file.key for file in patch.files}
        self._patch = _name(patch)
        self._files: dict[bytes, tuple[FileDecision, str]] = {}
        self._steps: dict[int, tuple[Step, str, int]] = {}

    def encode(self, review: Review, stamp: str) -> bytes:
        """As the function of this name."""
        now, past, future = review.history
        rest = {
            "version": VERSION,
            "snapshot": list(review.snapshot),
            "since": list(review.since) if review.since else None,
            "patch": self._patch,
            "reviewed": {_text(path): key for path, key in review.reviewed.items()},
            "comments": [[*one[:1], _text(one.path), *one[2:]] for one in review.comments],
            "summary": review.summary,
            "acknowledged": [list(one) for one in review.acknowledged.values()],
        }
        steps = [self._written(past), self._written(future)]
        kept = {id(step) for step in (*past, *future)}
        self._steps = {name: one for name, one in self._steps.items() if name in kept}
        files = ",".join(self._decided(now))
        head = f'{{"stamp":"{stamp}","files":{{{files}}},"past":[{steps[0]}],"future":[{steps[1]}],'
        return (head + _json(rest)[1:] + "\n").encode("ascii")

    def _decided(self, decisions: Decisions) -> Iterator[str]:
        known = self._files
        for path, decision in decisions.files.items():
            one = known.get(path)
            if one is None or one[0] is not decision:
                if path not in self._keys:
                    continue
                text = f'{_quoted(_text(path))}:["{self._keys[path]}",{_decision_text(decision)[1:]}'
                one = known[path] = (decision, text)
            yield one[1]

    def _written(self, steps: tuple[Step, ...]) -> str:
        """The newest steps that there is room for, the oldest of them first."""
        found: list[str] = []
        left = HISTORY_LIMIT
        for step in reversed(steps):
            one = self._steps.get(id(step))
            if one is None or one[0] is not step:
                one = self._steps[id(step)] = (step, *_step(step))
            left -= one[2]
            if left < 0:
                break
            found.append(one[1])
        return ",".join(reversed(found))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _step(step: Step) -> tuple[str, int]:
    """A step as text, and the characters that it takes."""
    rows = []
    size = 0
    for path, lost, gained in step.changes:
        row = f"[{_quoted(_text(path))},{_decision_text(lost)},{_decision_text(gained)}]"
        size += len(row)
        rows.append(row)
    return f"[{','.join(rows)}]" if size <= HISTORY_LIMIT else "", size


def stamp_of(data: bytes) -> str:
    """The stamp that a file begins with, "" when it has none."""
    match = _STAMP.match(data)
    return match[1].decode("ascii") if match else ""


def digest(decisions: Decisions, patch: Patch) -> str:
    """A name for what was decided: SHA-256 of the snapshot's tree and the decisions, whatever their order."""
    value = [patch.tree, _files(decisions, patch.by_path())]
    return sha256(json.dumps(value, ensure_ascii=True, sort_keys=True).encode("ascii")).hexdigest()


def _name(patch: Patch) -> str:
    """Another Git may divide the same change into other blocks: what can be undone is of one division."""
    return sha256("".join(file.key for file in patch.files).encode("ascii")).hexdigest()[:32]


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _files(decisions: Decisions, files: dict[bytes, File]) -> dict[str, Any]:
    return {
        _text(path): [files[path].key, *_decision(decision)]
        for path, decision in decisions.files.items()
        if path in files
    }


def _decision(decision: FileDecision) -> list[list[str]]:
    """Of the many small files of a large change most are decided alike: those are written once."""
    accepted, rejected = decision
    small = max(accepted.old, accepted.new, rejected.old, rejected.new) < _SMALL
    return _small_decision(decision) if small else [_written(accepted), _written(rejected)]


@lru_cache(maxsize=1024)
def _small_decision(decision: FileDecision) -> list[list[str]]:
    return [_written(decision.accepted), _written(decision.rejected)]


def _decision_text(decision: FileDecision) -> str:
    """The same as JSON."""
    accepted, rejected = decision
    small = max(accepted.old, accepted.new, rejected.old, rejected.new) < _SMALL
    return _small_decision_text(decision) if small else _json([_written(accepted), _written(rejected)])


@lru_cache(maxsize=1024)
def _small_decision_text(decision: FileDecision) -> str:
    return _json(_small_decision(decision))


def _written(marks: Marks) -> list[str]:
    if marks == NOTHING:
        return ["", "", ""]
    return [" ".join(sorted(marks.parts)) if marks.parts else "", to_text(marks.old), to_text(marks.new)]


# ------------------------------------------------------------------------------------------------- reading


def parse(data: bytes, patch: Patch, snapshot: Compared) -> Review:
    """The review in ``data`` as one of ``snapshot``, whose model is ``patch``; ``ValueError`` for any other
    text. Of another snapshot's review only what still holds is kept."""
    value = json.loads(data.decode("ascii"), object_pairs_hook=_object, parse_constant=_number)
    if (
        not isinstance(value, dict)
        or set(value) | {"acknowledged"} != _KEYS  # written before warnings could be acknowledged
        or value["version"] != VERSION
        or not stamp_of(data)
    ):
        raise ValueError(f"it is no review of version {VERSION}")
    files = patch.by_path()
    kept = _compared(value["snapshot"])
    since = None if value["since"] is None else _compared(value["since"])
    decided: dict[bytes, FileDecision] = {}
    for path, row in _pairs(value["files"]):
        key, *decision = _list(row, 3)
        file = files.get(path)
        if file is None or file.key != _key(key):
            continue
        decided[path] = _read_decision(decision, file)
    history = History(Decisions(decided))
    past, future = value["past"], value["future"]
    if kept == snapshot and _key(value["patch"]) == _name(patch):
        history = history._replace(past=_read_steps(past, files), future=_read_steps(future, files))
    comments = tuple(_comment(row) for row in _list(value["comments"], most=MOST_COMMENTS))
    if len({one.id for one in comments}) != len(comments):
        raise ValueError("two comments have one number")
    marks = {path: _key(key) for path, key in _pairs(value["reviewed"])}
    held = [_acknowledged(row) for row in _list(value.get("acknowledged", []), most=MOST_ACKNOWLEDGED)]
    if len({one.key for one in held}) != len(held):
        raise ValueError("a warning is acknowledged twice")
    review = Review(
        snapshot,
        since,
        history,
        {path: key for path, key in marks.items() if path in files and files[path].key == key},
        comments,
        _string(value["summary"], SUMMARY_LIMIT),
        {one.key: one for one in held},
    )
    if kept == snapshot:
        return review
    said = bool(value["files"] or marks or comments or review.summary or held)
    return review._replace(since=kept if said else since)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _pairs(value: Any) -> list[tuple[bytes, Any]]:
    if not isinstance(value, dict):
        raise ValueError("an object is missing")
    return [(_path(text), one) for text, one in value.items()]


def _list(value: Any, size: int | None = None, most: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (size is not None and len(value) != size):
        raise ValueError("a list of another size was expected")
    if most is not None and len(value) > most:
        raise ValueError(f"a list has more than {most} entries")
    return value


def _string(value: Any, limit: int) -> str:
    if not isinstance(value, str) or len(value.encode("utf-8", "surrogatepass")) > limit:
        raise ValueError("a text is missing or too long")
    return value


def _path(value: Any) -> bytes:
    path = _string(value, 3 << 13).encode("utf-8", "surrogateescape")
    if not path:
        raise ValueError("a path is empty")
    return path


def _key(value: Any, digits: tuple[int, ...] = (32,)) -> str:
    if not isinstance(value, str) or len(value) not in digits or not set(value) <= _DIGITS:
        raise ValueError("an identity is no hexadecimal number of the right size")
    return value


def _compared(value: Any) -> Compared:
    return Compared(*(_key(one, (40, 64)) for one in _list(value, 3)))


def _read_decision(value: list[Any], file: File) -> FileDecision:
    accepted, rejected = (_marks(one, file) for one in _list(value, 2))
    if not accepted.within(rejected).empty:
        raise ValueError("something is both accepted and rejected")
    return FileDecision(accepted, rejected)


def _marks(value: Any, file: File) -> Marks:
    parts, old, new = _list(value, 3)
    if not all(isinstance(text, str) for text in (parts, old, new)):
        raise ValueError("lines that were decided are no text")
    names = frozenset(parts.split(" ") if parts else ())
    if not names <= set(PARTS):
        raise ValueError("a part has an unknown name")
    highest = [max(0, mask.bit_length() - 1) for mask in (file.all.old, file.all.new)]
    marks = Marks(names, from_text(old, highest[0]), from_text(new, highest[1]))
    if not marks.minus(file.all).empty:
        raise ValueError("something was decided that cannot be decided")
    return marks


def _read_steps(value: Any, files: dict[bytes, File]) -> tuple[Step, ...]:
    return tuple(_read_step(step, files) for step in _list(value, most=STEPS))


def _read_step(value: Any, files: dict[bytes, File]) -> Step:
    changes = []
    for row in _list(value):
        text, lost, gained = _list(row, 3)
        path = _path(text)
        if path not in files:
            raise ValueError("a step is about a file that is not in the patch")
        file = files[path]
        changes.append((path, _read_decision(lost, file), _read_decision(gained, file)))
    return Step(tuple(changes))


def _acknowledged(value: Any) -> Acknowledgement:
    key, who, when, scripted = _list(value, 4)
    if type(when) not in (int, float) or not 0 <= when < 1e12 or type(scripted) is not bool:
        raise ValueError("who acknowledged a warning, or when, is none")
    return Acknowledgement(_key(key), _string(who, 1024), float(when), scripted)


def _comment(value: Any) -> ReviewComment:
    number, path, key, side, line, quote, text, who, when = _list(value, len(ReviewComment._fields))
    if not all(type(one) is int and 0 <= one <= MOST_LINES for one in (number, line)):
        raise ValueError("a comment's number or line is none")
    if side not in (OLD, NEW) or type(when) not in (int, float) or not 0 <= when < 1e12:
        raise ValueError("a comment's side or time is none")
    return ReviewComment(
        number,
        _path(path),
        _key(key),
        side,
        line,
        _string(quote, 3 * QUOTE_LIMIT),
        _string(text, COMMENT_LIMIT),
        _string(who, 1024),
        float(when),
    )
