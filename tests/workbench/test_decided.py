"""What is painted of a review: brought up to date act by act it is what one would paint anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.decided import Change, blocked_notes, changes, comments_at, line_marks, meant, one_state
from backends.gate.decisions import Compared, Review
from backends.gate.patch import (
    ACCEPTED,
    REJECTED,
    STATES,
    UNDECIDED,
    Counts,
    FileDecision,
    Marks,
    read,
    select,
)
from tests.workbench import frozen
from tests.workbench.deciding import MOVED
from widgets import selection as units
from widgets.file_list import FileDone
from widgets.ink import plain
from widgets.notes import Note
from widgets.patch import HUNK, META, index_patch
from widgets.selection import LineMarks
from widgets.shown import one_column, two_columns

DIFFS = (frozen.DIFF, MOVED)
PATCHES = [read(diff, "ab" * 20) for diff in DIFFS]
EMPTY = Review(Compared("9c1d" * 10, "3f2a9c1d" + "0" * 32, "ab" * 20))


class Painted:
    """What a screen has of a review."""

    def __init__(self) -> None:
        self.marks: dict[bytes, LineMarks] = {}
        self.done: dict[bytes, FileDone] = {}
        self.total = Counts(0, 0, 0)
        self.notes: Mapping[bytes, Sequence[Note]] = {}
        self.reviewed: set[bytes] = set()

    def take(self, change: Change) -> None:
        for path, marks, done in change.files:
            self.marks[path], self.done[path] = marks, done
        self.total = self.total.plus(change.counted)
        self.reviewed = change.reviewed
        if change.notes is not None:
            self.notes = change.notes


@given(st.sampled_from(PATCHES), st.data())
def test_act_by_act_comes_to_the_same_as_all_at_once(patch: Any, data: Any) -> None:
    files = patch.by_path()
    review, before = EMPTY, None
    painted = Painted()
    for _ in range(data.draw(st.integers(0, 8))):
        painted.take(changes(files, before, review))
        before = review
        act = data.draw(st.sampled_from(["decide", "undo", "redo", "comment", "uncomment", "mark"]))
        file = data.draw(st.sampled_from(patch.files))
        if act == "decide":
            part = file.hunk(0) if len(file.hunks) and data.draw(st.booleans()) else file.all
            review = review.decide([(file.path, part.within(file.all))], data.draw(st.sampled_from(STATES)))
        elif act == "undo":
            review = review.undo()
        elif act == "redo":
            review = review.redo()
        elif act == "mark":
            review = review.mark(file, data.draw(st.booleans()))
        elif act == "comment":
            review = review.comment(file, "new", data.draw(st.integers(0, 3)), "x", "ann", 1.0)
        elif review.comments:
            review = review.uncomment(review.comments[0].id)
    painted.take(changes(files, before, review))
    anew = Painted()
    anew.take(changes(files, None, review))
    assert vars(painted) == vars(anew)
    assert set(anew.done) == set(files)
    assert sum(anew.total) == sum(file.all.total for file in patch.files)


def test_a_hunk_of_the_viewer_is_the_hunk_of_the_model_in_both_layouts() -> None:
    for diff, patch in zip(DIFFS, PATCHES, strict=True):
        index = index_patch(diff.patch, tuple(change.path for change in diff.changes))
        for rows, file in zip(index.files, patch.files, strict=True):
            for shown in (
                one_column(index, rows.first, rows.last),
                two_columns(index, rows.first, rows.last),
            ):
                number = -1
                for row in range(rows.first, rows.last):
                    place = shown.place_of(row)
                    number += index.kinds[row] == HUNK
                    if number >= 0 and file.by_line:
                        chosen = units.select(index, shown, units.HUNK, place)
                        assert meant(file, chosen) == file.hunk(number)
                    whole = units.select(index, shown, units.FILE, place)
                    assert meant(file, whole) == file.all
                    if index.kinds[row] == META:
                        meta = units.select(index, shown, units.LINE, place)
                        assert meant(file, meta).parts <= file.all.parts
                        assert not meant(file, meta).lines


def test_a_file_that_is_one_thing_is_meant_by_any_of_its_rows() -> None:
    file = PATCHES[1].by_path()[b"logo.png"]
    line = units.Selection(units.LINE, file.path, 0, 0, (), 1 << 1, 1 << 1, False)
    assert meant(file, line) == Marks(frozenset({"content"}))
    assert line_marks(file, FileDecision(rejected=file.all)).of_parts(("content",)) == "rejected"


def test_one_state_is_that_of_all_or_none() -> None:
    file = PATCHES[0].files[0]
    decision = FileDecision().set(file.hunk(0), ACCEPTED)
    assert one_state([(decision, file.hunk(0))]) == ACCEPTED
    assert one_state([(decision, file.hunk(1))]) == UNDECIDED
    assert one_state([(decision, file.all)]) == ""
    assert one_state([(decision, file.hunk(0)), (decision.set(file.hunk(1), REJECTED), file.hunk(1))]) == ""


def test_comments_of_a_line_are_its_own_and_none_that_are_stale() -> None:
    patch = PATCHES[0]
    files = patch.by_path()
    file = patch.files[0]
    review = EMPTY
    for side, number in (("new", 116), ("old", 116), ("new", 116), ("new", 0)):
        review = review.comment(file, side, number, "x", "ann", 1.0)
    assert [one.id for one in comments_at(review.comments, files, file.path, "new", 116)] == [1, 3]
    assert [one.id for one in comments_at(review.comments, files, file.path, "old", 0)] == [4]
    changed = {file.path: file._replace(key="0" * 32)}
    assert comments_at(review.comments, changed, file.path, "new", 116) == []


def test_what_is_blocked_says_what_it_waits_for() -> None:
    patch = PATCHES[1]
    files = patch.by_path()
    decisions = EMPTY.decide([(b"a/b", files[b"a/b"].all)], ACCEPTED).history.now
    (note,) = blocked_notes(select(patch, decisions).blocked, files)[b"a/b"]
    assert plain(note.head).startswith("⊘ the new file: accepted, but cannot be applied: another file stands")
    assert note.text == "accept that a goes, or open this again"
    some = EMPTY.decide([(b"a/b", Marks(frozenset(), 0, 2))], ACCEPTED)
    some = some.decide([(b"a/b", Marks(frozenset({"exists"})))], REJECTED)
    (note,) = blocked_notes(select(patch, some.history.now).blocked, files)[b"a/b"]
    assert plain(note.head).startswith("⊘ some of its lines")
    assert note.text == "accept that a/b is made, or open this again"
