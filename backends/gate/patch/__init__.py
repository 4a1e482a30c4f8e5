"""The patch of a proposal as a pure model on bytes: decide on parts of it, compose exactly those.

From a diff of two trees to what may be applied::

    patch = read(diff, snapshot.base_tree)              # Patch: files, hunks, blocks of lines
    file = patch.file(b"src/a.py")                      # File: .all, .hunk(n), .new_lines(3, 9), .part(MODE)
    history = History()                                 # Decisions with undo and redo, all values
    history = history.set([(file.path, file.hunk(0))], ACCEPTED)
    history = history.set([(file.path, file.new_lines(7, 7))], REJECTED)
    counts(file, history.now.of(file.path))             # accepted, rejected, undecided
    selection = select(patch, history.now)              # what can be carried out; .blocked says what cannot
    compose(base_blob, snapshot_blob, selection.chosen[0])   # bytes of one file
    compose_tree(quarantine, selection)                 # a tree object of the quarantine
    selected_patch(quarantine, selection)               # a patch that `git apply` takes on the base

A screen does not keep decisions itself::

    view = engine.review(ref)                           # .progress: what is decided, for lists and headers
    desk = engine.decisions(ref, who, view=view)        # backends.verbs.reviewing.Desk: saved at every act
    desk.set([(path, marks_of(desk.file(path), "@2"))], ACCEPTED); desk.undo(); desk.redo()
    desk.mark(path); desk.comment(path, "new", 7, "why?"); desk.change(lambda review: review.uncomment(1))
    hunk_counts(file, desk.review.history.now.of(path)) # for one file, cheap; desk.progress() counts all
    compose_tree(desk.git, desk.selection())            # check this tree again before it is applied
    desk.close()                                        # one journal record for the sitting

A line is named by its side and number: old lines are removed, new ones added, as ``PatchIndex.old`` and
``.new`` of the viewer count them, and hunk ``n`` of a file is the viewer's ``n``-th of it. Beside its lines a
file has parts (:data:`EXISTS`, :data:`NAME`, :data:`MODE`, :data:`CONTENT`), which are decided alike. What is
undecided is not taken. Rules: :mod:`.selecting` (what needs what), :mod:`.composing` (order of lines, line
ends). Kept on disk by :mod:`backends.gate.decisions`.
"""

from __future__ import annotations

from backends.gate.patch.between import Moved, interdiff
from backends.gate.patch.choosing import (
    ACCEPTED,
    NO_DECISION,
    REJECTED,
    STATES,
    UNDECIDED,
    Choice,
    Counts,
    Decisions,
    FileDecision,
    History,
    counts,
    everything,
    hunk_counts,
)
from backends.gate.patch.composing import compose
from backends.gate.patch.marks import CONTENT, EXISTS, MODE, NAME, NOTHING, PARTS, Marks
from backends.gate.patch.model import Block, File, Hunk, Hunks, Patch
from backends.gate.patch.reading import read
from backends.gate.patch.selecting import Blocked, Chosen, Need, Selection, dependencies, select
from backends.gate.patch.text import patch_text, wanted
from backends.gate.patch.trees import compose_tree, selected_patch
from backends.gate.patch.wording import marks_of

__all__ = [
    "ACCEPTED",
    "CONTENT",
    "EXISTS",
    "MODE",
    "NAME",
    "NOTHING",
    "NO_DECISION",
    "PARTS",
    "REJECTED",
    "STATES",
    "UNDECIDED",
    "Block",
    "Blocked",
    "Choice",
    "Chosen",
    "Counts",
    "Decisions",
    "File",
    "FileDecision",
    "History",
    "Hunk",
    "Hunks",
    "Marks",
    "Moved",
    "Need",
    "Patch",
    "Selection",
    "compose",
    "compose_tree",
    "counts",
    "dependencies",
    "everything",
    "hunk_counts",
    "interdiff",
    "marks_of",
    "patch_text",
    "read",
    "select",
    "selected_patch",
    "wanted",
]
