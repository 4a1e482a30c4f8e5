"""What a request for changes came to: a frozen value like those of :mod:`backends.snapshots`."""

from __future__ import annotations

from typing import NamedTuple


class RequestOutcome(NamedTuple):
    """Changes were requested of a box, or a standing request was typed to a session of it."""

    box: str  # key
    snapshot: str  # the proposal that was read
    file: str  # at the top of the tree inside
    digest: str  # SHA-256 of what was written into it
    comments: int
    rejected: int  # parts of the change that are quoted as rejected
    state: str  # of the box now
    session: int | None  # the session that it was typed to
    untyped: str = ""  # why it was not, where that was asked for
