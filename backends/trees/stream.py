"""Writing a tree's changes against its base as a stream for git-fast-import(1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import BinaryIO, Protocol

from backends.trees.names import quote


class Tracked(Protocol):
    """What the base has at a path, ``None`` where it has no file, link or submodule."""

    def get(self, path: bytes, /) -> bytes | None: ...


REF = b"refs/cloche/snapshot"


class Import:
    """Blobs as they are read, then one commit made of the base's tree, removals and changes.

    ``tracked`` gives for a path of the base ``mode SP type SP id``. ``missing`` are the paths of it that are
    removed unless they are placed by the time of :meth:`commit`. ``blobs`` are ids that need not be sent.
    """

    def __init__(
        self, stream: BinaryIO, hash_name: str, tracked: Tracked, missing: set[bytes], blobs: set[bytes]
    ) -> None:
        self._stream = stream
        self._hash_name = hash_name
        self._tracked = tracked
        self._blobs = blobs
        self.missing = missing
        self.changes: list[bytes] = []

    @classmethod
    def of_all(cls, stream: BinaryIO, hash_name: str, tracked: dict[bytes, bytes]) -> Import:
        """For a tree that is read whole: what is not met is gone."""
        blobs = {meta.rsplit(b" ", 1)[1] for meta in tracked.values()}
        return cls(stream, hash_name, tracked, set(tracked), blobs)

    def blob(self, data: bytes) -> bytes:
        """Send a blob and return its id."""
        digest = hashlib.new(self._hash_name, b"blob %d\0" % len(data), usedforsecurity=False)
        digest.update(data)
        oid = digest.hexdigest().encode()
        if oid not in self._blobs:
            self._stream.write(b"blob\ndata %d\n" % len(data))
            self._stream.write(data)
            self._stream.write(b"\n")
            self._blobs.add(oid)
        return oid

    def large_blob(self, size: int, parts: Iterable[bytes]) -> bytes | None:
        """Send a blob of ``size`` bytes in parts; ``None`` when fewer came: the stream is spoilt then."""
        digest = hashlib.new(self._hash_name, b"blob %d\0" % size, usedforsecurity=False)
        self._stream.write(b"blob\ndata %d\n" % size)
        left = size
        for part in parts:
            digest.update(part)
            self._stream.write(part)
            left -= len(part)
        if left:
            return None
        self._stream.write(b"\n")
        oid = digest.hexdigest().encode()
        self._blobs.add(oid)
        return oid

    def place(self, path: bytes, mode: bytes, oid: bytes) -> None:
        """The blob ``oid`` lies at ``path`` with ``mode``."""
        self.missing.discard(path)
        if self._tracked.get(path) != mode + b" blob " + oid:
            self.changes.append(b"M %s %s %s\n" % (mode, oid, quote(path)))

    def keep_as_base(self, path: bytes) -> None:
        """What lies at ``path`` and below stays as it is in the base."""
        self.missing.discard(path)
        below = path + b"/"
        self.missing = {other for other in self.missing if not other.startswith(below)}

    def commit(self, base_tree: str, ref: bytes = REF, *, drop: bool = False) -> None:
        """End the stream; where anything changed, Git answers with a line that holds the new tree's id.

        With ``drop`` the commit's ``ref`` is a name within the stream only: none is left in the repository,
        so that several streams may end at once.
        """
        gone = sorted(self.missing)
        if gone or self.changes:
            write = self._stream.write
            write(b"commit %s\ncommitter cloche <cloche@invalid> 0 +0000\ndata 0\n" % ref)
            write(b'M 040000 %s ""\n' % base_tree.encode())
            # Removals first: a file may have become a folder.
            for path in gone:
                write(b"D %s\n" % quote(path))
            for change in self.changes:
                write(change)
            write(b'ls ""\n')
            if drop:
                write(b"reset %s\n\n" % ref)
        self._stream.write(b"done\n")
        self._stream.flush()
