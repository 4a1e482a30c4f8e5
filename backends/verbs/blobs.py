"""Content of single files of a proposal, read from the quarantine: never from the box's tree."""

from __future__ import annotations

import re

from backends.boxes.layout import BoxPaths
from backends.errors import Refused
from backends.trees import quarantine

MOST = 32 << 20
"""Bytes of a file that are read for looking at it."""

_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def blob(paths: BoxPaths, oid: str, most: int = MOST) -> bytes:
    """The bytes of one blob of the base or the snapshot. ``Refused`` when it has more than ``most``, or when
    ``oid`` names no blob here."""
    from backends.gate import objects

    git = quarantine.git(paths)
    if _OID.fullmatch(oid) is None:
        raise Refused("the file cannot be read", f"{oid[:80]!r} is no object id", "choose a file of the diff")
    size = objects.sizes(git, [oid])[oid]
    if size > most:
        raise Refused(
            "the file is too large to be read here",
            f"it has {size:,} bytes, more than {most:,}",
            "export the result and look at it with a program of your own",
        )
    return git.run("cat-file", "blob", oid)
