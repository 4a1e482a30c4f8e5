"""The header of a bundle (gitformat-bundle(5)), which came out of a box. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from backends.gate.commits.values import Unfit

LONGEST = 64 << 10  # bytes of a header
_OID = rb"(?:[0-9a-f]{40}|[0-9a-f]{64})"
_PREREQUISITE = re.compile(rb"-(" + _OID + rb")(?: [^\n]*)?")
_HEAD = re.compile(rb"(" + _OID + rb") HEAD")


class Bundle(NamedTuple):
    """One history that ends at ``head``, without what its reader is to have: ``known``."""

    head: str
    known: tuple[str, ...]
    pack: memoryview


def parse(data: bytes, hash_name: str) -> Bundle:
    """Read a bundle's header. ``Unfit`` unless it names HEAD, no other reference, and ``hash_name`` objects.

    ``hash_name``: sha1 or sha256. The pack is looked at no further than its signature.
    """
    end = data.find(b"\n\n", 0, LONGEST)
    if end < 0:
        raise Unfit("what the box's Git printed is no bundle")
    first, *lines = data[:end].split(b"\n")
    said = "sha1"
    if first == b"# v3 git bundle":
        while lines and lines[0].startswith(b"@"):
            capability = lines.pop(0)
            if not capability.startswith(b"@object-format="):
                raise Unfit(f"its bundle asks for {_quoted(capability)}")
            said = capability.partition(b"=")[2].decode("ascii", "backslashreplace")
    elif first != b"# v2 git bundle":
        raise Unfit("what the box's Git printed is no bundle")
    if said != hash_name:
        raise Unfit(f"its objects are named by {said[:20]}, the repository's by {hash_name}")
    known: list[str] = []
    heads: list[str] = []
    for line in lines:
        if (match := _PREREQUISITE.fullmatch(line)) and not heads:
            known.append(match[1].decode("ascii"))
        elif match := _HEAD.fullmatch(line):
            heads.append(match[1].decode("ascii"))
        else:
            raise Unfit(f"its bundle carries more than HEAD: {_quoted(line)}")
    width = 40 if hash_name == "sha1" else 64
    if len(heads) != 1 or any(len(oid) != width for oid in (*heads, *known)):
        raise Unfit("its bundle does not name HEAD once")
    pack = memoryview(data)[end + 2 :]
    if bytes(pack[:4]) != b"PACK":
        raise Unfit("its bundle holds no pack")
    return Bundle(heads[0], tuple(known), pack)


def _quoted(text: bytes) -> str:
    return text[:100].decode("utf-8", "backslashreplace")
