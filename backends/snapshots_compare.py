"""Boxes side by side: frozen values."""

from __future__ import annotations

from typing import NamedTuple

from backends.snapshots import BoxRow, DiffStat
from backends.snapshots_tried import Trial


class SuiteRun(NamedTuple):
    """One session of a box that looks like a run of tests, or the last run of a command line inside."""

    argv: tuple[str, ...]  # redacted
    exit: int | None  # None: it runs, or its end was not seen
    seconds: float | None
    inside: bool = False  # a process of the box started it, not a person


class ComparedBox(NamedTuple):
    """One box as a column."""

    row: BoxRow
    tree: str  # what it holds: its proposal, or where there is none what lay there at this moment
    frozen: bool  # a proposal
    base: str
    stat: DiffStat
    size: int  # bytes of the files that it added or changed, as they are in it
    sessions: int
    seconds: float  # that its sessions ran, in all
    tests: tuple[SuiteRun, ...]  # oldest first
    denied: int
    tried: tuple[Trial, ...]  # of its proposal


class Version(NamedTuple):
    """What one box made of a file."""

    number: int  # versions of one file that have the same number are the same to the byte, from 1
    status: str  # A, M, D, R, T as in git-diff-tree(1)
    mode: int
    oid: str
    added: int | None  # None: binary, or the other name of a rename
    deleted: int | None


class ComparedFile(NamedTuple):
    """One file as a row."""

    path: bytes
    versions: tuple[Version | None, ...]  # box by box; None: as in the box's base

    @property
    def numbers(self) -> int:
        """How many different versions the boxes made."""
        return len({version.number for version in self.versions if version is not None})


class Comparison(NamedTuple):
    """Boxes beside each other, in the order they were named."""

    boxes: tuple[ComparedBox, ...]
    files: tuple[ComparedFile, ...]  # that any box changed, by path
    more: int  # files beyond those that are listed
    one_base: bool  # all began at the same commit; else an unchanged file need not be the same
