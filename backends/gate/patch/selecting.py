"""What decisions come to together: the selection that can be carried out, and what stands in its way.

A decision says what a reviewer wants of one thing; some things cannot be had without others:

- a line of a new file, or that it is executable, makes the file, unless that it is made was rejected;
- a deleted file goes when all its lines are accepted, unless that it goes was rejected; without all of its
  lines it stays with those that are left;
- a path that lies in a folder which the base has as a file (or the other way round) needs the old name free:
  what stands there must go, or move, by an accepted decision.

Nothing is accepted on behalf of the reviewer where something would be lost by it: what lacks its condition is
left out and told as :class:`Blocked`. A new name, a mode and lines of one renamed file do not need each
other: lines that are accepted without the name are changed at the old one.
"""

from __future__ import annotations

from typing import NamedTuple

from backends.gate.names import parents
from backends.gate.patch.choosing import Decisions, FileDecision
from backends.gate.patch.marks import EXISTS, MODE, NAME, NOTHING, Marks
from backends.gate.patch.model import File, Patch

LINES = "lines"
"""Stands in for the part in :class:`Blocked` where accepted lines are meant."""


class Need(NamedTuple):
    """One thing that another one cannot be had without."""

    path: bytes
    part: str


class Blocked(NamedTuple):
    """Something that was accepted and cannot be carried out without what ``needs`` names."""

    path: bytes
    part: str
    reason: str
    needs: tuple[Need, ...]


class Chosen(NamedTuple):
    """What is taken of one file. ``takes.parts`` holds ``EXISTS`` only where the file is made, or goes."""

    file: File
    takes: Marks

    @property
    def whole(self) -> bool:
        return self.takes == self.file.all

    @property
    def partial(self) -> bool:
        """Its content is neither the base's nor the snapshot's."""
        mine = (self.takes.old, self.takes.new)
        return mine != (0, 0) and mine != (self.file.all.old, self.file.all.new)


class Selection(NamedTuple):
    """What is taken of a patch: one entry for each file of which anything is, in the patch's order."""

    patch: Patch
    chosen: tuple[Chosen, ...]
    blocked: tuple[Blocked, ...]

    @property
    def whole(self) -> bool:
        """Everything of the patch is taken."""
        return len(self.chosen) == len(self.patch.files) and all(one.whole for one in self.chosen)


def select(patch: Patch, decisions: Decisions) -> Selection:
    """The largest selection that ``decisions`` allow; undecided and rejected count alike as not taken."""
    taken: dict[bytes, Marks] = {}
    blocked: list[Blocked] = []
    moving: set[bytes] = set()  # files whose old or new name is a matter of this selection
    for file in patch.files:
        takes, stopped = _alone(file, decisions.of(file.path))
        taken[file.path] = takes
        blocked += stopped
        if takes.parts & {EXISTS, NAME}:
            moving.add(file.path)
    needs = dependencies(patch)
    while stuck := [path for path in moving if any(need.path not in moving for need in needs.get(path, ()))]:
        moving.difference_update(stuck)
    for path, wanted in needs.items():
        lost = taken[path].parts & {EXISTS, NAME}
        if lost and path not in moving:
            missing = tuple(need for need in wanted if need.path not in moving)
            blocked.append(Blocked(path, min(lost), "another file stands at this path or above it", missing))
            left = taken[path].minus(Marks(frozenset(lost)))
            # What is not made has no lines; a renamed file keeps them at its old name.
            taken[path] = left if NAME in lost else NOTHING
    chosen = (Chosen(file, taken[file.path]) for file in patch.files)
    return Selection(patch, tuple(one for one in chosen if not one.takes.empty), tuple(blocked))


def _alone(file: File, decision: FileDecision) -> tuple[Marks, list[Blocked]]:
    """What is taken of a file as far as the file itself decides it."""
    takes = decision.accepted.within(file.all)
    refused = EXISTS in decision.rejected.parts
    exists = Marks(frozenset({EXISTS}))
    if file.change.status == "A":
        if takes.empty:
            return NOTHING, []
        if refused:
            part = LINES if takes.lines else MODE
            return NOTHING, [Blocked(file.path, part, "the file was rejected", (Need(file.path, EXISTS),))]
        return takes.union(exists), []
    if file.change.status == "D" and file.by_line:
        if takes.old == file.all.old:
            return takes if refused else takes.union(exists), []
        if EXISTS in takes.parts:
            need = (Need(file.path, LINES),)
            return takes.minus(exists), [Blocked(file.path, EXISTS, "not all of its lines may go", need)]
    return takes, []


def dependencies(patch: Patch) -> dict[bytes, tuple[Need, ...]]:
    """For each file whose new name needs room: what must go or move first."""
    came: dict[bytes, File] = {}
    gone: dict[bytes, File] = {}
    for file in patch.files:
        if file.change.status in ("A", "R"):
            came[file.path] = file
        if file.change.status in ("D", "R"):
            gone[file.base_path] = file
    found: dict[bytes, dict[Need, None]] = {}
    for path, file in came.items():
        for folder in parents(path):
            if folder in gone:
                _need(found, file, gone[folder])
    for path, file in gone.items():
        for folder in parents(path):
            if folder in came:
                _need(found, came[folder], file)
    return {path: tuple(needs) for path, needs in found.items()}


def _need(found: dict[bytes, dict[Need, None]], file: File, other: File) -> None:
    if file is not other:  # a file that moves into a folder of its own old name makes room for itself
        part = NAME if other.change.status == "R" else EXISTS
        found.setdefault(file.path, {})[Need(other.path, part)] = None
