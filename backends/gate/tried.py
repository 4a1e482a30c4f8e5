"""What was tried of a proposal, as the journal of its box tells it, and what that says of a tree. Pure.

A try is journalled by the host (kind "tried") after its command ended, in a box of its own: nothing that ran
in the reviewed box can write such a record at a confined tier.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from backends.snapshots_tried import NOT_RUN, RAN, Trial

KIND = "tried"
MOST = 200  # tries of one proposal that are shown: the latest
MOST_DENIALS = 20  # kinds of refusal that one record names

_MARK = b'"kind":"tried"'  # of a canonical record; in a text its quotes would be escaped


def data_of(trial: Trial) -> dict[str, object]:
    """The data of the journal record; its time is the record's own."""
    value: dict[str, object] = {name: item for name, item in trial._asdict().items() if name != "time"}
    del value["fits"]
    value["argv"] = list(trial.argv)
    value["denials"] = [list(one) for one in trial.denials[:MOST_DENIALS]]
    return value


def trial_of(data: Mapping[str, object], time: float) -> Trial | None:
    """The try that a record tells of; None for one of another shape (a version that wrote more is fine)."""
    argv, denials = data.get("argv"), data.get("denials")
    texts = {name: data.get(name) for name in ("snapshot", "taken", "onto", "tree", "box", "who")}
    flags = {name: data.get(name) for name in ("whole", "kept")}
    counts = {name: data.get(name) for name in ("exit", "denied")}
    wall = data.get("wall")
    if (
        not all(isinstance(text, str) for text in texts.values())
        or not all(isinstance(flag, bool) for flag in flags.values())
        or not all(type(count) is int for count in counts.values())
        or type(wall) not in (int, float)
        or not isinstance(argv, list)
        or not isinstance(denials, list)
    ):
        return None
    rows = tuple(
        (str(one[0]), str(one[1]), one[2])
        for one in denials[:MOST_DENIALS]
        if isinstance(one, list) and len(one) == 3 and type(one[2]) is int
    )
    words = tuple(str(word) for word in argv)
    return Trial(**texts, **flags, **counts, wall=wall, argv=words, denials=rows, time=time)  # type: ignore[arg-type]


def read(journal: Path, snapshot: str) -> tuple[Trial, ...]:
    """What was tried of the proposal ``snapshot``, oldest first; only lines that may tell it are parsed."""
    return tuple(one for one in _all(journal) if one.snapshot == snapshot)[-MOST:]


def _all(journal: Path) -> Iterator[Trial]:
    try:
        file = open(journal, "rb")  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if _MARK not in line or not line.endswith(b"\n"):
                continue
            try:
                value = json.loads(line)
            except ValueError:
                continue  # damaged: whoever verifies the journal says so
            if isinstance(value, dict) and value.get("kind") == KIND and isinstance(value.get("data"), dict):
                found = trial_of(value["data"], float(value.get("time", 0.0)))
                if found is not None:
                    yield found


def latest(tree: str, trials: Iterable[Trial]) -> Trial | None:
    """The last try of exactly ``tree``."""
    return next((one for one in reversed(tuple(trials)) if one.tree == tree), None)


def combination(tree: str, trials: Iterable[Trial]) -> str:
    """``combination not run``, or that exactly ``tree`` ran and with which exit the last time."""
    found = latest(tree, trials)
    return NOT_RUN if found is None else f"{RAN}, exit {found.exit}"
