"""What the matrix is written in: its columns, and rows of sentences."""

from __future__ import annotations

from backends.record import NamedTuple

COLUMNS: tuple[tuple[str, str], ...] = (
    ("filesystem", "file system"),
    ("network", "network"),
    ("kernel", "kernel"),
    ("privilege", "host privilege"),
    ("portability", "portability"),
    ("start", "measured start"),
    ("observability", "observability"),
)
MEASURED = "start"  # has no words of its own: a number of this host, or none
READ = "2026-11-29"  # when the sources below were read, from stored copies of the pages


class Cell(NamedTuple):
    column: str
    short: str
    text: str
    claims: tuple[str, ...] = ()  # ids of init's proofs, without the tier's name
    deleted_by: tuple[str, ...] = ()  # ids of backends.policy.escapes.DELETIONS
    probed: tuple[str, ...] = ()  # ids of claims that a probe tries beyond init's; no launch of a box does


class Row(NamedTuple):
    id: str
    name: str
    kind: str  # tier, technology, explained
    cells: tuple[Cell, ...]
    sources: tuple[str, ...] = ()
