"""The values that this room hands out. Paths are bytes relative to the tree: names need not be UTF-8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.record import NamedTuple

if TYPE_CHECKING:
    from backends.snapshots import DiffStat


class Source(NamedTuple):
    """A source repository on disk, found without starting Git."""

    work_tree: str  # "" for a bare repository
    git_dir: str  # of this worktree
    common_dir: str  # of the repository


class Base(NamedTuple):
    """The pinned start of a box."""

    commit: str
    tree: str
    ref: str  # refs/heads/... that the revision named, "" when it named no branch


class Finding(NamedTuple):
    """Something in a box that a person must know before accepting its result."""

    kind: str  # nested-repository, embedded-repository, git-config, hook, ...
    path: bytes
    text: str


class Limits(NamedTuple):
    """How much of a tree is read before the snapshot is refused, naming the path."""

    file_size: int = 100 << 20  # bytes of one file
    total_size: int = 2 << 30  # bytes read in one snapshot; files known to be unchanged are not read
    entries: int = 500_000  # files, links and folders seen
    depth: int = 128  # folders below the root
    seconds: float = 60.0
    # A file is trusted to be unchanged when its change time lies this many seconds before the moment it was
    # read. Writes through a shared mapping move the change time only at the first store after write-back, at
    # most 35 s apart with the kernel's defaults (vm.dirty_expire_centisecs + vm.dirty_writeback_centisecs).
    settle: float = 60.0


class TreeSnapshot(NamedTuple):
    """A tree object in the quarantine, and what could or should not be carried into it."""

    tree: str
    stat: DiffStat  # against the base
    skipped: tuple[tuple[bytes, str], ...]  # paths left out, with the reason
    findings: tuple[Finding, ...]
    ignored: int  # files and folders left out because ignore rules name them
    unlisted: int  # skipped paths and findings beyond the number that is kept
    read: int  # bytes read, for figures
    confined: str  # what bound the process that read the tree
    ignored_names: tuple[bytes, ...] = ()  # the first of what is ignored; a folder ends in a slash
