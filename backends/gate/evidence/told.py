"""The evidence beside a proposal in words, for the report and the command line. Pure.

Titles and leads are this program's own; lines hold names and arguments out of a box, raw.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from backends.snapshots_evidence import InnerTest, LockFile, ProposalEvidence, Ran

MOST_LINES = 200


class Section(NamedTuple):
    """One part of the evidence; ``lines`` are raw and may be empty."""

    title: str
    lead: str
    lines: tuple[str, ...]
    more: int = 0  # lines that were left out


def sections(found: ProposalEvidence) -> tuple[Section, ...]:
    """All parts that have something to say, tests first."""
    parts = (_tests(found), _outside(found), _dependencies(found), _secrets(found), _bulk(found))
    return tuple(_bounded(part) for part in parts if part is not None)


def _bounded(part: Section) -> Section:
    over = max(0, len(part.lines) - MOST_LINES)
    return part._replace(lines=part.lines[:MOST_LINES], more=part.more + over)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def many(count: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def tests_lead(found: ProposalEvidence) -> str:
    """What is known of test runs since the base, and whether one covers what is proposed."""
    said = [_sessions_lead(found)]
    if found.inner:
        runs = sum(one.times for one in found.inner) + found.more_inner
        good = sum(end.times for one in found.inner for end in one.ends if end.exit == 0)
        said.append(f"Processes of the box started {runs} themselves, {good} with exit 0.")
        last = [one.last for one in found.inner if one.last is not None and one.last.covers == "after"]
        if last:
            count = sum(one.exit == 0 for one in last)
            said.append(
                f"Of {many(len(last), 'command line')} a run began after the last change, and the last of "
                f"it ended with exit 0 for {count}."
            )
    if found.unseen:
        said.append("There can have been others that are not known.")
    return " ".join(said)


def _sessions_lead(found: ProposalEvidence) -> str:
    tests = [one for one in found.ran if one.test]
    if not tests:
        return "No session of the box was a test run by its command line."
    good = [one for one in tests if one.exit == 0]
    lead = f"{many(len(tests), 'test run')} by their command line, {len(good)} with exit 0."
    after = [one for one in tests if one.covers == "after"]
    if found.last_change is None:
        return lead + " When the files were last changed is not known."
    if not after:
        return lead + " None began after the last change of the proposed files."
    last = after[-1]
    end = "has no end" if last.exit is None else f"ended with exit {last.exit}"
    return lead + f" The last that began after the last change {end}."


def end_words(exit: int | None, signal: str, why: str) -> str:
    """How a run inside ended, or why that is not known."""
    if exit is None:
        return f"end not recorded: {why}"
    return signal or f"exit {exit}"


def inner_words(one: InnerTest) -> str:
    """How the runs of one command ended, and how the last of them lies to the last change."""
    if not one.ends:
        return "ends not recorded"
    counts = ", ".join(
        end_words(*end[:3]) if one.times == 1 else f"{end.times} {end_words(*end[:3])}" for end in one.ends
    )
    last = one.last
    if last is None:
        return counts
    said = [] if len(one.ends) == 1 else [f"the last: {end_words(last.exit, last.signal, last.why)}"]
    said += [f"{last.seconds:.1f} s"] if last.seconds is not None else []
    said += [f"{last.covers} the last change"] if last.covers else []
    said += [f"of what it executed in the end: {' '.join(last.ran)}"] if last.ran else []
    joined = ", ".join(said)
    return f"{counts}{'; ' if len(one.ends) > 1 else ', '}{joined}" if joined else counts


def session_line(one: Ran) -> str:
    """A session, how it ended, and how it lies to the last change."""
    end = "its end was not seen" if one.exit is None else f"exit {one.exit}"
    took = "" if one.seconds is None else f", {one.seconds:.1f} s"
    when = f", {one.covers} the last change" if one.covers else ""
    return f"{one.session:>4}  {' '.join(one.argv)}  ({end}{took}{when})"


def _tests(found: ProposalEvidence) -> Section:
    lines = [session_line(one) for one in found.ran if one.test]
    lines += [f"{one.times:>4} x  {' '.join(one.argv)}  (inside: {inner_words(one)})" for one in found.inner]
    lines += [f"not known: {why}" for why in found.unseen]
    return Section("Tests", tests_lead(found), tuple(lines), found.more_inner)


def outside_lead(found: ProposalEvidence) -> str:
    """What the files that changed outside of every session prove."""
    count = len(found.outside) + found.more_outside
    return (
        f"{many(count, 'file')} last changed while no recorded session ran, by the kernel's change time, "
        "which a box cannot set: by something else, or the host's clock was set. A change during a session "
        "is not told apart from the session's own."
    )


def _outside(found: ProposalEvidence) -> Section | None:
    if not found.outside:
        return None
    lines = [
        f"{_text(one.path)}  {_date(one.time)}"
        + ("  processes of the box lived then" if one.alive else "  nothing of the box lived then")
        for one in found.outside
    ]
    return Section("Changed by no recorded session", outside_lead(found), tuple(lines), found.more_outside)


def lock_line(lock: LockFile) -> str:
    """What one lock file brings and drops, counted."""
    if lock.note and not lock.rows:
        return lock.note
    counts = (("added", lock.added), ("removed", lock.removed), ("changed", lock.changed),
              ("with its version kept and another source or hash", lock.rewritten))  # fmt: skip
    said = ", ".join(f"{count} {word}" for word, count in counts if count) or "no package is otherwise"
    return f"{said}{f'; {lock.note}' if lock.note else ''}"


def dependency_line(name: str, change: str, old: str, new: str) -> str:
    """One package of a lock file."""
    versions = {"added": new, "removed": old}.get(change, f"{old} -> {new}" if old != new else new)
    return f"{change:<9} {name} {versions}"


def _dependencies(found: ProposalEvidence) -> Section | None:
    if not found.locks:
        return None
    lines: list[str] = []
    more = 0
    for lock in found.locks:
        lines.append(f"{_text(lock.path)}: {lock_line(lock)}")
        lines += [f"  {dependency_line(*row)}" for row in lock.rows]
        more += lock.added + lock.removed + lock.changed + lock.rewritten - len(lock.rows)
    return Section(
        "Dependencies", f"{many(len(found.locks), 'lock file')} changed.", tuple(lines), max(0, more)
    )


def _secrets(found: ProposalEvidence) -> Section | None:
    if not found.secrets and not found.unsearched:
        return None
    lines = [
        f"{_text(one.path)}:{one.line}  {one.kind}  {one.shown}"
        + ("" if one.named else "  only by its randomness")
        for one in found.secrets
    ]
    lines += [f"{_text(path) or 'the rest'}: not searched: {why}" for path, why in found.unsearched]
    lead = f"{many(len(found.secrets), 'place')} in added lines; nothing was tried on any service."
    return Section("What looks like a secret", lead, tuple(lines))


def _bulk(found: ProposalEvidence) -> Section | None:
    if not found.bulk:
        return None
    lines = tuple(f"{one.kind:<9} {_text(one.path)}  ({one.rule})" for one in found.bulk)
    lead = f"{many(len(found.bulk), 'file')} that nobody wrote by hand, by what is said behind each."
    return Section("Generated or vendored", lead, lines)


def _date(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(when))
