"""Decisions as a value: what was accepted and what rejected of each file; everything else is undecided.

Decisions on different things do not touch each other, so their order does not matter. What follows from them
together, such as a file that must go before a folder takes its name, is told by
:mod:`backends.gate.patch.selecting` and never written back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from backends.gate.patch.marks import NOTHING, Marks, bits
from backends.gate.patch.model import File, Patch

ACCEPTED = "accepted"
REJECTED = "rejected"
UNDECIDED = "undecided"
STATES = (ACCEPTED, REJECTED, UNDECIDED)

STEPS = 200
"""Steps that can be undone."""

Choice = tuple[bytes, Marks]
"""What a decision is about: the path of a file and things of it, such as ``(file.path, file.hunk(0))``."""


class FileDecision(NamedTuple):
    """What was decided of one file; the two never share anything."""

    accepted: Marks = NOTHING
    rejected: Marks = NOTHING

    def set(self, marks: Marks, state: str) -> FileDecision:
        """The same with ``marks`` accepted, rejected or undecided, whatever they were before."""
        accepted, rejected = self.accepted.minus(marks), self.rejected.minus(marks)
        if state == ACCEPTED:
            accepted = accepted.union(marks)
        elif state == REJECTED:
            rejected = rejected.union(marks)
        elif state != UNDECIDED:
            raise ValueError(f"{state!r} is no decision")
        return FileDecision(accepted, rejected)

    def minus(self, other: FileDecision) -> FileDecision:
        """What was decided here and not there."""
        return FileDecision(self.accepted.minus(other.accepted), self.rejected.minus(other.rejected))

    def plus(self, other: FileDecision) -> FileDecision:
        """Both; where they contradict each other, the other."""
        accepted = self.accepted.minus(other.rejected).union(other.accepted)
        return FileDecision(accepted, self.rejected.union(other.rejected).minus(accepted))

    def of(self, marks: Marks) -> str:
        """The one state that all of ``marks`` have, "" when they differ (or are none)."""
        found = {
            state
            for state, having in (
                (ACCEPTED, self.accepted.within(marks)),
                (REJECTED, self.rejected.within(marks)),
                (UNDECIDED, marks.minus(self.accepted).minus(self.rejected)),
            )
            if not having.empty
        }
        return found.pop() if len(found) == 1 else ""


NO_DECISION = FileDecision()


class Decisions(NamedTuple):
    """What was decided of each file, by path; a file without an entry is undecided."""

    files: Mapping[bytes, FileDecision] = {}

    def of(self, path: bytes) -> FileDecision:
        """What was decided of one file."""
        return self.files.get(path, NO_DECISION)

    def set(self, choices: Iterable[Choice], state: str) -> Decisions:
        """The same with all that ``choices`` name put into ``state``."""
        files = dict(self.files)
        for path, marks in choices:
            made = files.get(path, NO_DECISION).set(marks, state)
            if made == NO_DECISION:
                files.pop(path, None)
            else:
                files[path] = made
        return Decisions(files)


class Counts(NamedTuple):
    """How many things of a file, or of a patch, are in which state. Parts count like lines."""

    accepted: int
    rejected: int
    undecided: int

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def counts(file: File, decision: FileDecision) -> Counts:
    """How much of one file is decided."""
    accepted, rejected = (marks.within(file.all).total for marks in decision)
    return Counts(accepted, rejected, file.all.total - accepted - rejected)


def hunk_counts(file: File, decision: FileDecision) -> list[Counts]:
    """How much of each hunk of a file is decided, in one pass over the file."""
    accepted, rejected = (_bits(file, marks) for marks in decision)
    found = []
    for hunk in file.hunks:
        total = yes = no = 0
        for block in hunk.blocks:
            total += block.old_count + block.new_count
            for side, first, count in ((0, block.old, block.old_count), (1, block.new, block.new_count)):
                yes += accepted[side].count("1", first, first + count)
                no += rejected[side].count("1", first, first + count)
        found.append(Counts(yes, no, total - yes - no))
    return found


def _bits(file: File, marks: Marks) -> tuple[str, str]:
    return bits(marks.old, file.all.old.bit_length()), bits(marks.new, file.all.new.bit_length())


def everything(patch: Patch) -> tuple[Choice, ...]:
    """All that can be decided."""
    return tuple((file.path, file.all) for file in patch.files)


class Step(NamedTuple):
    """One act of the reviewer: for each file that it changed what it took away and what it added."""

    changes: tuple[tuple[bytes, FileDecision, FileDecision], ...]


class History(NamedTuple):
    """Decisions with what can be undone and redone; a new act ends what could be redone."""

    now: Decisions = Decisions()
    past: tuple[Step, ...] = ()
    future: tuple[Step, ...] = ()  # the next to be redone is the last

    def set(self, choices: Iterable[Choice], state: str) -> History:
        """Decide; what changes nothing is no step."""
        wanted = list(choices)
        made = self.now.set(wanted, state)
        changes = []
        for path in dict.fromkeys(path for path, _ in wanted):
            before, after = self.now.of(path), made.of(path)
            if before != after:
                changes.append((path, before.minus(after), after.minus(before)))
        if not changes:
            return self
        return History(made, (*self.past, Step(tuple(changes)))[-STEPS:], ())

    def undo(self) -> History:
        """Take the last step back; without one, the same."""
        if not self.past:
            return self
        step = self.past[-1]
        back = ((path, added, removed) for path, removed, added in step.changes)
        return History(_with(self.now, back), self.past[:-1], (*self.future, step))

    def redo(self) -> History:
        """Take the last undone step again; without one, the same."""
        if not self.future:
            return self
        step = self.future[-1]
        return History(_with(self.now, step.changes), (*self.past, step), self.future[:-1])


def _with(decisions: Decisions, changes: Iterable[tuple[bytes, FileDecision, FileDecision]]) -> Decisions:
    """The decisions after each file lost the one and gained the other."""
    files = dict(decisions.files)
    for path, removed, added in changes:
        made = files.get(path, NO_DECISION).minus(removed).plus(added)
        if made == NO_DECISION:
            files.pop(path, None)
        else:
            files[path] = made
    return Decisions(files)
