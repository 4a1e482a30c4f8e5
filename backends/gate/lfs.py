"""Pointers of Git LFS (its specification, docs/spec.md): what stands for a file that lies elsewhere. Pure.

Cloche carries the pointer, byte for byte, and fetches nothing: a reviewer sees which content it names, which
is not what was reviewed, and whoever checks it out with LFS gets that content from the server.
"""

from __future__ import annotations

import re

LARGEST = 1024  # bytes; longer files are no pointers
# git-lfs and what it was called before; extension lines may stand before the id.
_POINTER = re.compile(
    rb"version https?://(?:git-lfs|hawser)\.github\.com/spec/v[0-9]{1,3}\n"
    rb"(?:[a-z0-9.-]+ [^\n]*\n)*?"
    rb"oid sha256:(?P<oid>[0-9a-f]{64})\n"
    rb"size (?P<size>[0-9]{1,18})\n?"
)


def said(old: bytes | None, new: bytes | None) -> str:
    """What a reviewer is told of a changed file, "" where neither side is a pointer."""
    before, after = _pointer(old), _pointer(new)
    if after is not None:
        oid, size = after
        return (
            f"names a file of Git LFS, {size} bytes, sha256 {oid}: the pointer is carried, its content is "
            "neither here nor reviewed"
        )
    if before is not None and new is not None:
        return "was a pointer of Git LFS and holds its own content now"
    return ""


def _pointer(blob: bytes | None) -> tuple[str, int] | None:
    if blob is None or len(blob) > LARGEST:
        return None
    match = _POINTER.fullmatch(blob)
    return (match["oid"].decode("ascii"), int(match["size"])) if match else None
