"""Test runs that processes of a box started themselves, and how they ended, out of a journal. Pure.

A run is one process, by the number that the keeper gave it; what one executes after the other has one end.
The first process of a session is the session's own run and is told there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from backends.evidence.journal import moment
from backends.snapshots import JournalRecord
from backends.snapshots_evidence import InnerEnd, InnerRun, InnerTest
from backends.testruns import interprets, is_test

MOST_TESTS = 20  # different command lines
MOST_ENDS = 12  # different ends of one
_WORDS, _WORD = 20, 100  # of a command line that are kept, and characters of each
_WHY = 200  # characters of a reason

BEFORE = "no end was recorded before this was frozen"
KEEPER = "the box's keeper ended before it did"
EARLIER = "the version of Cloche that ran the box recorded none"
OTHER = "these ended in more ways than are listed"

Words = tuple[str, ...]
End = tuple[int | None, str, str]  # exit as a shell tells it, name of the signal, why neither is known


class _Run:
    """A run that has not ended so far."""

    __slots__ = ("own", "started", "words")

    def __init__(self, words: Words, started: float, own: bool) -> None:
        self.words = words
        self.started = started
        self.own = own


class _Group:
    """All runs of one command line."""

    __slots__ = ("ends", "last", "times")

    def __init__(self) -> None:
        self.times = 0
        self.ends: dict[End, int] = {}
        self.last: tuple[float, float | None, End, Words] | None = None


class Runs:
    """``add`` every record of the journal in order, then ask for what is to be kept."""

    def __init__(self) -> None:
        self._live: dict[int, _Run] = {}
        self._due: dict[int, Words] = {}  # sessions whose own first exec was not seen yet
        self._init = 0
        self._groups: dict[Words, _Group] = {}
        self._more = 0
        self._lost = 0
        self._unseen: dict[str, None] = {}

    def add(self, record: JournalRecord) -> None:
        data, kind = record.data, record.kind
        if kind == "exec":
            self._executed(record, data)
        elif kind == "test-end":
            self._ended(record, data)
        elif kind == "session-start" and is_test(words_of(data)):
            self._due[_whole(data, "session")] = words_of(data)
        elif kind == "session-exit":
            self._due.pop(_whole(data, "session"), None)
        elif kind in ("launch", "keeper-lost"):
            self._launched(data)
        elif kind == "lost" and data.get("what") in ("exec", "execs"):
            self._lost += _whole(data, "count")
        elif kind == "base":
            self._groups, self._more, self._lost, self._unseen = {}, 0, 0, {}

    def kept(self) -> dict[str, Any]:
        """As JSON values, for a proposal."""
        for run in self._live.values():
            self._count(run, None, (None, "", BEFORE), ())
        self._live.clear()
        unseen = list(self._unseen)
        if self._lost:
            unseen.append(f"{self._lost} programs were started that could not be looked at")
        return {
            "runs": [
                [_short(words), one.times, [[*end, times] for end, times in one.ends.items()], _last(one)]
                for words, one in self._groups.items()
            ],
            "more_runs": self._more,
            "unseen": unseen,
        }

    def _launched(self, data: Mapping[str, object]) -> None:
        for run in self._live.values():
            self._count(run, None, (None, "", KEEPER), ())
        self._live.clear()
        self._due.clear()
        init, rows = data.get("init"), data.get("not_observed")
        if isinstance(init, list) and init and type(init[0]) is int:
            self._init = init[0]
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, list) and len(row) == 2 and row[0] == "execs":
                self._unseen[str(row[1])[:_WHY]] = None

    def _executed(self, record: JournalRecord, data: Mapping[str, object]) -> None:
        words = words_of(data)
        number = data.get("test")
        if number is None and not is_test(words):
            return
        run = self._live.get(number) if type(number) is int else None
        if run is not None:
            if not interprets(words, run.words):
                run.words = words
            return
        run = _Run(words, moment(record), self._is_own(words, data))
        if type(number) is int:
            self._live[number] = run
        else:
            self._count(run, None, (None, "", EARLIER if number is None else str(number)[:_WHY]), ())

    def _is_own(self, words: Words, data: Mapping[str, object]) -> bool:
        parent = data.get("parent", self._init)
        session = next((n for n, due in self._due.items() if due == words), None)
        if session is None or (self._init and parent != self._init):
            return False
        del self._due[session]
        return True

    def _ended(self, record: JournalRecord, data: Mapping[str, object]) -> None:
        run = self._live.pop(_whole(data, "test"), None)
        if run is not None:
            self._count(run, moment(record), _end(data), words_of(data, "ran"))

    def _count(self, run: _Run, ended: float | None, end: End, ran: Words) -> None:
        if run.own:
            return
        group = self._groups.get(run.words)
        if group is None:
            if len(self._groups) >= MOST_TESTS:
                self._more += 1
                return
            group = self._groups[run.words] = _Group()
        group.times += 1
        if end not in group.ends and len(group.ends) >= MOST_ENDS:
            group.ends[None, "", OTHER] = group.ends.get((None, "", OTHER), 0) + 1
        else:
            group.ends[end] = group.ends.get(end, 0) + 1
        if group.last is None or run.started >= group.last[0]:
            group.last = (run.started, ended, end, ran)


def inner_tests(kept: Mapping[str, Any], covers: Any) -> tuple[InnerTest, ...]:
    """The runs that were kept. ``covers(started, ended)`` says how one lies to the last change."""
    if "runs" not in kept:  # frozen before ends were recorded
        return tuple(
            InnerTest(tuple(words), times, (InnerEnd(None, "", EARLIER, times),))
            for words, times in kept.get("tests", [])
        )
    return tuple(
        InnerTest(tuple(words), times, tuple(InnerEnd(*end) for end in ends), _inner(last, covers))
        for words, times, ends, last in kept["runs"]
    )


class LastRun(NamedTuple):
    """The run of one command line that began last."""

    started: float
    argv: Words
    exit: int | None
    seconds: float | None


def last_runs(kept: Mapping[str, Any]) -> tuple[LastRun, ...]:
    """That of each command line that was kept, oldest first."""
    found = []
    for words, _, _, (started, ended, code, *_) in kept.get("runs", ()):
        seconds = None if ended is None else max(0.0, ended - started)
        found.append(LastRun(started, tuple(words), code, seconds))
    return tuple(sorted(found, key=lambda one: one.started))


def words_of(data: Mapping[str, object], key: str = "argv") -> Words:
    """The command line that a record holds."""
    argv = data.get(key)
    return tuple(map(str, argv)) if isinstance(argv, list) else ()


def _inner(last: Sequence[Any], covers: Any) -> InnerRun:
    started, ended, code, name, why, ran = last
    seconds = None if ended is None else round(max(0.0, ended - started), 3)
    return InnerRun(code, name, why, seconds, covers(started, ended), tuple(ran))


def _last(group: _Group) -> list[Any]:
    assert group.last is not None
    started, ended, end, ran = group.last
    return [started, ended, *end, _short(ran)]


def _short(words: Words) -> list[str]:
    return [word[:_WORD] for word in words[:_WORDS]]


def _end(data: Mapping[str, object]) -> End:
    status = data.get("status")
    if type(status) is not int or not 0 <= status <= 0xFFFF:
        return None, "", str(data.get("why", ""))[:_WHY]
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status), "", ""
    number = os.WTERMSIG(status)
    try:
        return 128 + number, signal.Signals(number).name, ""
    except ValueError:  # a real-time signal
        return 128 + number, f"signal {number}", ""


def _whole(data: Mapping[str, object], key: str) -> int:
    value = data.get(key)
    return value if type(value) is int else 0
