"""The isolation matrix as commands and screens know it: rows, cells, proofs, and what deletes a cell."""

from __future__ import annotations

from backends.record import NamedTuple
from backends.values import Claim


class MatrixDeletion(NamedTuple):
    """A configuration that makes a cell false. ``key``, ``value``, ``where``: only where a policy has it."""

    id: str
    text: str
    key: str
    value: str
    where: str  # file and line, "" if unknown


class MatrixCell(NamedTuple):
    column: str
    short: str  # a few words; never without the sentence where there is room
    text: str
    claims: tuple[Claim, ...]  # what a tier's cell rests on, as far as it can be proved
    result: str  # proved, failed, not run; "" for a cell that no claim is about
    deleted_by: tuple[MatrixDeletion, ...]  # of a box: what its policy has; else what would delete it


class MatrixRow(NamedTuple):
    id: str
    name: str
    kind: str  # tier, technology, explained
    cells: tuple[MatrixCell, ...]  # in the order of the columns
    state: str  # what this host says of a tier: proved, failed, "not in this version"; "" for other rows
    evidence: str  # of the state: the proof, or why it was refused
    sources: tuple[str, ...]  # addresses; empty for our own tiers: docs/tiers.md has them
    read: str  # day on which the sources were read, ISO 8601


class Said(NamedTuple):
    """One statement about a project with the page that makes it; no page: unverified."""

    text: str
    source: str

    @property
    def verified(self) -> bool:
        return bool(self.source)


class Project(NamedTuple):
    """A product that runs agents, and the row of the matrix that its sandbox is, as its own pages say."""

    name: str
    sandbox: Said
    snapshot: Said
    rows: tuple[str, ...]  # ids of rows, the default first
    remark: Said
    read: str  # day on which the sources were read, ISO 8601
    doubt: str = ""  # about the row


class Matrix(NamedTuple):
    columns: tuple[tuple[str, str], ...]  # id and heading
    rows: tuple[MatrixRow, ...]
    box: str  # key of the box that it is about, "" for the host's
    tried: float  # when the proofs were run, seconds since the epoch; 0.0: they were not
    cached: bool  # they are those of an earlier run, under the same conditions
    injected: tuple[str, ...] = ()  # failures that were asked for: such proofs are not this host's
