"""Bundles as a hostile box could write them: packs of any objects, under any header, made without Git."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from backends.gate.commits.intake import Place, take
from backends.gate.commits.values import Commit
from backends.trees import packs
from backends.trees.git import Git
from backends.trees.values import Base
from tests.gate.world import World

KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
REF_DELTA = 7
PEOPLE = b"author A <a@x> 1700000000 +0100\ncommitter C <c@x> 1700000000 +0000\n"


class Made(NamedTuple):
    """An object that was made, or a delta to one that the pack may not hold."""

    kind: str
    data: bytes
    base: str = ""

    @property
    def id(self) -> str:
        return hashlib.sha1(b"%s %d\0" % (self.kind.encode(), len(self.data)) + self.data).hexdigest()

    def packed(self) -> bytes:
        number = REF_DELTA if self.base else KINDS[self.kind]
        return _head(number, len(self.data)) + bytes.fromhex(self.base) + zlib.compress(self.data)


def _head(number: int, size: int) -> bytes:
    out = bytearray()
    byte, size = (number << 4) | (size & 15), size >> 4
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    return bytes(out + bytes([byte]))


def pack(objects: Iterable[Made], count: int = -1) -> bytes:
    listed = list(objects)
    text = b"PACK" + struct.pack(">II", 2, len(listed) if count < 0 else count)
    text += b"".join(one.packed() for one in listed)
    return text + hashlib.sha1(text).digest()


def blob(data: bytes) -> Made:
    return Made("blob", data)


def tree(entries: Mapping[bytes, tuple[int, Made | str]]) -> Made:
    """Entries in the order given: name, mode, and an object or an id."""
    return Made(
        "tree",
        b"".join(
            b"%o %s\0" % (mode, name) + bytes.fromhex(one if isinstance(one, str) else one.id)
            for name, (mode, one) in entries.items()
        ),
    )


def commit(
    top: Made | str,
    *parents: Made | str,
    message: bytes = b"say\n",
    people: bytes = PEOPLE,
    more: bytes = b"",
) -> Made:
    ids = [one if isinstance(one, str) else one.id for one in (top, *parents)]
    text = b"tree %s\n" % ids[0].encode() + b"".join(b"parent %s\n" % one.encode() for one in ids[1:])
    return Made("commit", text + people + more + b"\n" + message)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class Forge:
    """A world's box, as far as taking its commits in is concerned."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.base = world.base
        source = Git(world.repo / ".git")
        self.borrowed = packs.finish(
            packs.begin(source, "forged", Base(world.base, world.base_tree, "refs/heads/main"), "full")
        )
        self.place = Place(world.paths.root, self.borrowed, world.base, world.base_tree, {})

    def base_entries(self) -> dict[bytes, tuple[int, Made | str]]:
        out: dict[bytes, tuple[int, Made | str]] = {}
        for line in self.world.quarantine.run("ls-tree", "-z", self.world.base_tree).split(b"\0"):
            if line:
                facts, name = line.split(b"\t", 1)
                out[name] = (int(facts.split()[0], 8), facts.split()[2].decode())
        return out

    def with_files(self, files: Mapping[bytes, tuple[int, Made | str]]) -> Made:
        """The base's top with entries added or replaced, sorted as Git sorts them."""
        entries = {**self.base_entries(), **files}
        return tree(dict(sorted(entries.items(), key=lambda e: e[0] + b"/" * (e[1][0] == 0o40000))))

    def bundle(self, head: Made | str, objects: Iterable[Made], header: bytes | None = None) -> bytes:
        top = head if isinstance(head, str) else head.id
        text = b"# v2 git bundle\n-%s base\n%s HEAD\n\n" % (self.base.encode(), top.encode())
        return (text if header is None else header) + pack(objects)

    def take(self, data: bytes) -> tuple[Commit, ...]:
        return take(self.world.quarantine, self.place, data)

    def holds(self, one: Made | str) -> bool:
        """Whether the quarantine (or the source, whose objects it sees) has an object."""
        oid = one if isinstance(one, str) else one.id
        return self.world.quarantine.call("cat-file", "-e", oid).status == 0

    def leftovers(self) -> list[Path]:
        return sorted(self.world.paths.root.glob("commits-*"))
