"""What is known of a box's commits, and the bounds within which they are taken."""

from __future__ import annotations

from typing import NamedTuple

MOST_COMMITS = 500  # of one proposal: each one's whole tree is looked at
MOST_BYTES = 128 << 20  # of a bundle
MOST_OBJECTS = 500_000
LARGEST_OBJECT = 100 << 20  # bytes; as of one file in a snapshot (backends.trees.values.Limits)
MOST_UNPACKED = 2 << 30  # bytes of all objects together
LARGEST_COMMIT = 256 << 10  # bytes of one commit object
MOST_SAID = (
    4 << 20
)  # bytes of all commit objects: their messages are shown, and escaped take six times as much
MOST_ENTRIES = 20_000_000  # paths looked at, over all commits
MOST_LISTED = 128 << 20  # bytes of the list of one tree's paths: few objects can name very many
MOST_LINKED = 32 << 20  # bytes of the targets of one tree's links
MOST_SECONDS = 120.0  # for the trees of all commits


class Unfit(Exception):
    """Why a box's commits are not taken as they are: one sentence, which may quote the box unescaped.

    No error of the verb: a proposal goes on without them, as one commit.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Identity(NamedTuple):
    """Who a commit says made it, as bytes; nothing vouches for it."""

    name: bytes
    email: bytes
    seconds: int
    zone: bytes  # +hhmm

    def line(self) -> bytes:
        """As a header of a commit has it."""
        return b"%s <%s> %d %s" % (self.name, self.email, self.seconds, self.zone)


class Commit(NamedTuple):
    """One commit object that passed :func:`backends.gate.commits.parse.parse`."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Identity
    committer: Identity
    encoding: str  # "" for UTF-8
    message: bytes

    @property
    def subject(self) -> bytes:
        """The first line of the message."""
        return self.message.lstrip(b"\n").split(b"\n", 1)[0]
