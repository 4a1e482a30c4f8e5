"""Writing a Git index for a tree that was just checked out, so that the first status reads no file.

Format: gitformat-index(5), version 2. Git itself could only write such an index by looking at the work tree.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from backends.trees.checkout import GITLINK, SYMLINK, Written

SIGNATURE = b"DIRC"
VERSION = 2
ASSUME_NAME_LENGTH = 0xFFF  # the largest length that the flags hold


def build(written: Iterable[Written], hash_name: str = "sha1") -> bytes:
    """The bytes of an index with one entry for each file written; ``hash_name`` is the repository's."""
    entries = [_entry(item) for item in written]
    body = SIGNATURE + struct.pack(">II", VERSION, len(entries)) + b"".join(entries)
    return body + _digest(hash_name, body)


def _digest(hash_name: str, body: bytes) -> bytes:
    import hashlib  # with all of OpenSSL, and most boxes take an index that is there

    return hashlib.new(hash_name, body, usedforsecurity=False).digest()


def write(path: Path, written: Iterable[Written], hash_name: str = "sha1") -> None:
    """Write an index file, complete or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(build(written, hash_name))
    fresh.rename(path)


def splice(old: bytes, gone: set[bytes], written: Iterable[Written], hash_name: str = "sha1") -> bytes:
    """The index ``old`` (from :func:`build`) without the paths ``gone``, with ``written`` in their places.

    ``ValueError`` when ``old`` is not such an index.
    """
    width = len(_digest(hash_name, b""))
    fresh = {item.row.path: _entry(item) for item in written}
    if old[:8] != SIGNATURE + struct.pack(">I", VERSION):
        raise ValueError("not an index of version 2")
    kept = [(path, entry) for path, entry in _entries(old, width) if path not in gone and path not in fresh]
    # Both are in order but for the few that are new: a sort of nearly sorted rows is one pass.
    entries = sorted([*kept, *fresh.items()])
    body = SIGNATURE + struct.pack(">II", VERSION, len(entries)) + b"".join(entry for _, entry in entries)
    return body + _digest(hash_name, body)


def _entries(data: bytes, width: int) -> Iterator[tuple[bytes, bytes]]:
    """Path and bytes of each entry; ``width`` is that of an object id."""
    fixed = 40 + width + 2
    at, end = 12, len(data) - width
    while at < end:
        name = at + fixed
        stop = data.index(b"\0", name)
        following = at + (stop - at) // 8 * 8 + 8
        yield data[name:stop], data[at:following]
        at = following


def _entry(item: Written) -> bytes:
    row, status = item
    mode = row.mode if row.mode in (GITLINK, SYMLINK) else 0o100755 if row.mode & 0o111 else 0o100644
    low = 0xFFFFFFFF  # every field is the low 32 bits of what stat(2) gives
    name = row.path
    entry = struct.pack(
        ">10I",
        int(status.st_ctime_ns // 10**9) & low,
        status.st_ctime_ns % 10**9,
        int(status.st_mtime_ns // 10**9) & low,
        status.st_mtime_ns % 10**9,
        status.st_dev & low,
        status.st_ino & low,
        mode,
        status.st_uid & low,
        status.st_gid & low,
        (0 if row.mode == GITLINK else status.st_size) & low,
    )
    entry += bytes.fromhex(row.oid.decode("ascii"))
    entry += struct.pack(">H", min(len(name), ASSUME_NAME_LENGTH)) + name
    # One to eight NULs, to a multiple of eight.
    return entry + b"\0" * (8 - len(entry) % 8)
