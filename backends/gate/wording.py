"""The messages of the commits that apply makes, with the trailers that lead back to the box. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from backends.errors import Refused
from backends.evidence.visible import hidden, name_of, visible
from backends.snapshots import NOT_RUN

LIMIT = 64 << 10
"""Bytes of a message that a person gives (UTF-8)."""

_TRAILER = re.compile(r"[A-Za-z0-9-]+: \S")
OWN = re.compile(r"^\s*(cloche-[a-z0-9-]*)\s*:", re.IGNORECASE | re.MULTILINE)
JOINING = "\n\t\u200c\u200d\ufe0e\ufe0f"  # lines; what scripts and pictures are joined and chosen with


class Facts(NamedTuple):
    """What a commit tells of where its content came from."""

    box: str  # its name
    key: str
    snapshot: str
    purpose: str = ""
    policy: str = ""  # digest
    script: str = ""  # who applied, where that is a script
    part: tuple[int, int] | None = None  # accepted and all, where a part is taken
    combination: str = NOT_RUN  # whether that part was ever run as such


class Messages(NamedTuple):
    """Of the commit that holds the work, and of the merge that brings it in where there is one."""

    work: str
    merge: str
    trailers: tuple[str, ...] = ()  # with which both end


def messages(facts: Facts, given: str = "") -> Messages:
    """Both messages. ``given`` is the person's own for the commit that the branch comes to.

    ``Refused`` for a given one that is empty or beyond ``LIMIT``, that holds a trailer of the gate's own, or
    characters that a terminal obeys or an eye cannot see: what an agent wrote may have been handed over as it
    was, and every ``git log`` shows it from then on.
    """
    trailers = [f"Cloche-Box: {facts.key}", f"Cloche-Snapshot: {facts.snapshot}"]
    if facts.policy:
        trailers.append(f"Cloche-Policy: {facts.policy}")
    if facts.part is not None:
        accepted, everything = facts.part
        trailers.append(f"Cloche-Partial: {accepted} of {everything} lines and parts; {facts.combination}")
    if facts.script:
        trailers.append(f"Cloche-Applied-By-Script: {visible(facts.script)}")
    what = "part of the work" if facts.part is not None else "the work"
    subject = visible(" ".join(facts.purpose.split())[:200]) or f"Apply {what} of box {facts.box}"
    end = "\n\n" + "\n".join(trailers) + "\n"
    if not given:
        return Messages(subject + end, f"Merge {what} of box {facts.box}" + end, tuple(trailers))
    own = _ended(_checked(given), trailers)
    return Messages(own, own, tuple(trailers))


def _checked(given: str) -> str:
    given = given.replace("\r\n", "\n")
    forged = OWN.search(given)
    unseen = hidden(given, keep=JOINING)
    size = len(given.encode("utf-8", "surrogateescape"))
    why = ""
    if not given.strip():
        why = "it is empty"
    elif "\0" in given:
        why = "it holds a NUL, which no commit can"
    elif size > LIMIT:
        why = f"it has {size} bytes, and {LIMIT} are taken"
    elif forged:
        why = f"it has a line {forged[1]}: only the gate writes such"
    elif unseen:
        why = f"it holds {name_of(unseen[0])}"
    elif not given.isascii() and any("\udc80" <= char <= "\udcff" for char in given):
        why = "it holds bytes that are no UTF-8"
    if why:
        raise Refused(
            "the message cannot be used", why, "give another: --message TEXT, or none", code="bad-message"
        )
    return given.strip("\n").rstrip()


def _ended(text: str, trailers: list[str]) -> str:
    """The trailers as a paragraph, or in the one that the person ended with (git-interpret-trailers(1))."""
    subject, _, rest = text.partition("\n\n")
    last = rest.rpartition("\n\n")[2].splitlines()
    joined = last and subject and all(_TRAILER.match(line) for line in last)
    return text + ("\n" if joined else "\n\n") + "\n".join(trailers) + "\n"
