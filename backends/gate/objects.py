"""What a tree object holds and what its blobs say, read through Git in a few bounded commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from backends.errors import ClocheError

if TYPE_CHECKING:
    from backends.trees.git import Git

GITLINK = 0o160000
SYMLINK = 0o120000
FOLDER = 0o040000
BATCH = 32 << 20  # bytes of blobs that are held at once
LIST = ("ls-tree", "-r", "-t", "-z", "--full-tree")


class Entry(NamedTuple):
    """One entry of a tree; modes as in git-fast-import(1)."""

    mode: int
    oid: str


class Listing(NamedTuple):
    """All entries of a tree, folders included, and the paths that it names more than once."""

    entries: dict[bytes, Entry]
    repeated: tuple[bytes, ...]


def listing(git: Git, tree: str) -> Listing:
    """Every path of a tree object, recursively; submodules are entries and are not entered."""
    return parse(git.run(*LIST, tree))


def parse(text: bytes) -> Listing:
    """What :data:`LIST` printed.

    Modes are what Git makes of them (``canon_mode`` of its cache.h): a file is plain or executable, and
    whatever is no file, folder or link reads as a submodule.
    """
    entries: dict[bytes, Entry] = {}
    repeated: list[bytes] = []
    for line in text.split(b"\0"):
        if line:
            facts, _, path = line.partition(b"\t")
            mode, _, oid = facts.split(b" ")
            if path in entries:
                repeated.append(path)
            entries[path] = Entry(int(mode, 8), oid.decode("ascii"))
    return Listing(entries, tuple(repeated))


def sizes(git: Git, oids: Iterable[str]) -> dict[str, int]:
    """The size in bytes of each blob."""
    wanted = "".join(f"{oid}\n" for oid in dict.fromkeys(oids)).encode()
    if not wanted:
        return {}
    out: dict[str, int] = {}
    for line in git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", input=wanted).splitlines():
        oid, size = line.split(b" ", 1)
        if size == b"missing":
            raise ClocheError(
                "the proposal cannot be read",
                f"its object {oid.decode('ascii')} is missing",
                "run git fsck in the source repository, then propose again",
                code="object-missing",
            )
        out[oid.decode("ascii")] = int(size)
    return out


def contents(git: Git, wanted: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    """The blobs of ``wanted`` (id to size), at most ``BATCH`` bytes of them held at a time."""
    batch: list[str] = []
    held = 0
    for oid, size in wanted.items():
        if batch and held + size > BATCH:
            yield from _read(git, batch)
            batch, held = [], 0
        batch.append(oid)
        held += size
    if batch:
        yield from _read(git, batch)


def _read(git: Git, oids: list[str]) -> Iterator[tuple[str, bytes]]:
    text = git.run("cat-file", "--batch=%(objectname) %(objectsize)", input="\n".join(oids).encode() + b"\n")
    at = 0
    while at < len(text):
        end = text.index(b"\n", at)
        oid, size = text[at:end].split(b" ")
        start, at = end + 1, end + 1 + int(size) + 1
        yield oid.decode("ascii"), text[start : at - 1]
