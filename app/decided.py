"""What the review screen shows of a review: marks on lines, counts of files, comments as notes. Pure.

After an act only the files that it changed are looked at, so an act on one hunk costs the same in a change of
ten thousand files. Made beside the UI loop, painted on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from backends.gate.decisions import Review, stale
from backends.gate.patch import (
    CONTENT,
    EXISTS,
    MODE,
    NAME,
    NO_DECISION,
    PARTS,
    UNDECIDED,
    Blocked,
    Counts,
    FileDecision,
    Marks,
    Need,
    counts,
)
from backends.gate.patch.model import File
from backends.snapshots import ReviewComment
from widgets import units
from widgets.file_list import FileDone
from widgets.ink import Line, line
from widgets.notes import Note
from widgets.selection import FILE, LineMarks, Selection
from widgets.visible import runs, visible

NONE = Counts(0, 0, 0)


class Change(NamedTuple):
    """What is another since the review that was painted before."""

    review: Review
    files: tuple[tuple[bytes, LineMarks, FileDone], ...]  # those of which anything else is decided or said
    counted: Counts  # to be added to the total
    reviewed: set[bytes]
    notes: Mapping[bytes, Sequence[Note]] | None  # None: as before


def changes(files: Mapping[bytes, File], before: Review | None, after: Review) -> Change:
    """What to paint when ``after`` follows ``before`` (None: nothing is painted yet)."""
    was: Mapping[bytes, FileDecision] = before.history.now.files if before is not None else {}
    now = after.history.now.files
    decided = [path for path in {**was, **now} if was.get(path) is not now.get(path)]
    comments = before is None or before.comments is not after.comments
    said: dict[bytes, int] = {}
    for one in after.comments:
        said[one.path] = said.get(one.path, 0) + 1
    touched = dict.fromkeys(path for path in decided if path in files)
    if comments:
        told = before.comments if before is not None else ()
        touched |= dict.fromkeys(one.path for one in (*told, *after.comments) if one.path in files)
    if before is None:
        touched = dict.fromkeys(files)
    rows: list[tuple[bytes, LineMarks, FileDone]] = []
    total = NONE
    for path in touched:
        file = files[path]
        decision = now.get(path, NO_DECISION)
        found = counts(file, decision)
        old = counts(file, was.get(path, NO_DECISION)) if before is not None else NONE
        total = Counts(*(mine + here - there for mine, here, there in zip(total, found, old, strict=True)))
        rows.append((path, line_marks(file, decision), FileDone(*found, comments=said.get(path, 0))))
    reviewed = {path for path, key in after.reviewed.items() if path in files and files[path].key == key}
    notes = notes_of(files, after.comments) if comments else None
    return Change(after, tuple(rows), total, reviewed, notes)


def line_marks(file: File, decision: FileDecision) -> LineMarks:
    """A decision as the diff paints it."""
    states = {part: decision.of(Marks(frozenset({part}))) for part in PARTS if part in file.all.parts}
    accepted, rejected = decision
    return LineMarks(
        accepted.old,
        accepted.new,
        rejected.old,
        rejected.new,
        {part: "" if state == UNDECIDED else state for part, state in states.items()},
        one=not file.by_line,
    )


def meant(file: File, selection: Selection) -> Marks:
    """What of a file a selection stands for; any row of a file that is one thing means all of it, but for the
    row of its mode."""
    named = file.all.parts & frozenset(selection.parts)
    if selection.unit == FILE or not (file.by_line or named == {MODE}):
        return file.all
    if selection.whole:
        return Marks(named or file.all.parts)
    return Marks(frozenset(), selection.old, selection.new).within(file.all)


def one_state(choices: Iterable[tuple[FileDecision, Marks]]) -> str:
    """The one state of several things of files, "" when they differ."""
    found = {decision.of(marks) for decision, marks in choices}
    return found.pop() if len(found) == 1 else ""


# ------------------------------------------------------------ comments


def head(comment: ReviewComment, old: bool) -> Line:
    """Who said it and when; of one whose file has changed since also where it stood."""
    who = runs(comment.who[:80] or "somebody", "strong")
    when = (f" · {units.when(comment.time)}", "quiet")
    if not old:
        return line(*who, when)
    return line(
        ("the file has changed since ", "look"), *who, when, (f" · {place(comment)}: ", "quiet"),
        *runs(comment.quote[:200].strip(), "quiet"),
    )  # fmt: skip


def place(comment: ReviewComment) -> str:
    """The line that a comment is about, in words."""
    if not comment.line:
        return "file"
    return f"line {comment.line}" if comment.side == "new" else f"removed line {comment.line}"


def notes_of(files: Mapping[bytes, File], comments: Sequence[ReviewComment]) -> dict[bytes, list[Note]]:
    """Comments as notes in the diff; those of a file that changed since stand above it."""
    found: dict[bytes, list[Note]] = {}
    for one in comments:
        old = stale(one, files)
        number = 0 if old else one.line
        found.setdefault(one.path, []).append(Note(one.side, number, head(one, old), one.text))
    return found


def comments_at(
    comments: Sequence[ReviewComment], files: Mapping[bytes, File], path: bytes, side: str, number: int
) -> list[ReviewComment]:
    """The comments on one line (0: on the file) that still hold, the oldest first."""
    return [
        one
        for one in comments
        if one.path == path
        and one.line == number
        and (one.side == side or not number)
        and not stale(one, files)
    ]


# ------------------------------------------------------------ what is blocked


def blocked_notes(blocked: Sequence[Blocked], files: Mapping[bytes, File]) -> dict[bytes, list[Note]]:
    """Why what was accepted cannot be carried out, as notes above the file."""
    found: dict[bytes, list[Note]] = {}
    for one in blocked:
        needs = ", ".join(_need(need, files) for need in one.needs[:5])
        more = f" and {len(one.needs) - 5} more" if len(one.needs) > 5 else ""
        part = _part(one.part, files.get(one.path))
        said = line((f"⊘ {part}: accepted, but cannot be applied: ", "look strong"), *runs(one.reason))
        text = f"accept {needs}{more}, or open this again"
        found.setdefault(one.path, []).append(Note("new", 0, said, text, "quiet"))
    return found


def _part(part: str, file: File | None) -> str:
    """What a part is, in words."""
    if part == EXISTS:
        return "that the file goes" if file is not None and file.change.status == "D" else "the new file"
    return {NAME: "the new name", MODE: "the mode", CONTENT: "the content"}.get(part, "some of its lines")


def _need(need: Need, files: Mapping[bytes, File]) -> str:
    """What is missing, in words."""
    file = files.get(need.path)
    gone = file is not None and file.change.status == "D"
    words = {EXISTS: "goes" if gone else "is made", NAME: "moves"}
    name = visible(need.path)
    return f"that {name} {words[need.part]}" if need.part in words else f"all lines of {name}"
