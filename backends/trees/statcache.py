"""What is known of files without reading them: the identity of each file's state, and its blob.

One value for one path: ``<blob id> <read at> <state>``, all ASCII, where the state is mode, size, change
times and inode (stat(2)). The change time (ctime) is the part that a process in a box cannot set back, so an
edit of the same size with a restored mtime is still seen. Records are ``path NUL value NUL``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

MAGIC = b"cloche-stat-1"

# Entries made by the host's own checkout: nothing could have mapped or opened those files before.
SETTLED = 1 << 62


def state(status: os.stat_result) -> bytes:
    """The state of a file: equal states mean equal content (see ``known``)."""
    return b"%o %d %d %d %d" % (
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    )


def value(oid: bytes, read_at: int, status: os.stat_result) -> bytes:
    """The record of a file whose content ``oid`` was read at ``read_at`` (nanoseconds since the epoch)."""
    return b"%s %d %s" % (oid, read_at, state(status))


def known(cached: bytes | None, status: os.stat_result, settle: int) -> bytes | None:
    """The blob of a file by its record, or ``None`` when it must be read.

    ``settle``: nanoseconds that must lie between the last change and the read; below, a write in the same
    tick of the clock (or through a mapping) could have followed the read without moving the change time.
    """
    if cached is None:
        return None
    oid, read_at, then = cached.split(b" ", 2)
    if then != state(status) or status.st_ctime_ns + settle > int(read_at):
        return None
    return oid


def changed(record: bytes) -> float:
    """When the kernel says that the file of a record was last changed (ctime), in seconds since the epoch."""
    return int(record.split(b" ")[5]) / 1e9


def parse(data: bytes) -> dict[bytes, bytes]:
    """The records of a cache file; a file of another version holds none."""
    parts = data.split(b"\0")
    if parts[0] != MAGIC or len(parts) % 2:
        return {}
    return dict(zip(parts[1:-1:2], parts[2:-1:2], strict=True))


def serialise(records: Mapping[bytes, bytes] | Iterable[tuple[bytes, bytes]]) -> bytes:
    """A cache file with these records."""
    pairs = records.items() if isinstance(records, Mapping) else records
    flat = [MAGIC]
    for pair in pairs:
        flat.extend(pair)
    return b"\0".join(flat) + b"\0"
