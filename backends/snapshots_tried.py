"""What was tried of a proposal, what of a tree is ignored, and boxes side by side: frozen values."""

from __future__ import annotations

from backends.record import NamedTuple

NOT_RUN = "combination not run"
"""Said of what would be applied: whatever ran in the box had something else beside it."""

RAN = "combination ran"
"""Said instead where exactly that tree was tried; its exit follows."""


class Trial(NamedTuple):
    """One command that was run on what a reviewer accepted, in a fresh box. Texts are raw."""

    snapshot: str  # the proposal
    taken: str  # tree of what was accepted of it
    whole: bool  # that was all of it
    onto: str  # the commit that it was merged onto, "" where it lay on its base
    tree: str  # what the fresh box held
    argv: tuple[str, ...]  # redacted
    exit: int  # code, 128 + signal, 124 on the wall limit
    wall: float  # seconds
    denied: int
    denials: tuple[tuple[str, str, int], ...]  # kind, object and how often: the most frequent
    box: str  # name of the fresh box
    kept: bool  # it was not removed afterwards
    who: str
    time: float
    fits: bool = False  # what is accepted now, and the branch where it was merged, are what was tried


class Ignored(NamedTuple):
    """What lay in a frozen tree and is no part of the proposal, because ignore rules name it."""

    total: int  # files, and folders as one each
    names: tuple[bytes, ...]  # the first of them; a folder ends in a slash
