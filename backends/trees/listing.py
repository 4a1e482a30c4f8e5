"""Looking paths up in ``git ls-tree -r -z`` of a tree without reading it whole.

The records of a recursive listing stand in the order of their paths' bytes, so one path, or everything below
one folder, is found by halving. A snapshot of a few changes then costs a few looks, whatever the tree holds.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator


class Listing:
    """A listing in memory or mapped from a file: path to ``mode SP type SP id``, as a read-only mapping."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        self._size = len(data)

    @classmethod
    def of(cls, fd: int) -> Listing:
        """Maps the file open on ``fd``, which stays the caller's."""
        import os

        if os.fstat(fd).st_size == 0:  # an empty file cannot be mapped
            return cls(b"")
        return cls(mmap.mmap(fd, 0, prot=mmap.PROT_READ))

    def get(self, path: bytes) -> bytes | None:
        """Mode, type and id of the file, link or submodule at ``path``; ``None`` for folders too."""
        at = self._first(path)
        if at >= self._size:
            return None
        meta, found, _ = self._record(at)
        return meta if found == path else None

    def holds(self, folder: bytes) -> bool:
        """Whether anything lies below ``folder``; the root ("") of an empty tree holds nothing."""
        return next(self.below(folder), None) is not None

    def below(self, folder: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Path and meta of everything below ``folder``, in order."""
        prefix = folder + b"/" if folder else b""
        at = self._first(prefix)
        while at < self._size:
            meta, path, at = self._record(at)
            if not path.startswith(prefix):
                return
            yield path, meta

    def _record(self, at: int) -> tuple[bytes, bytes, int]:
        """The record that begins at ``at``, and where the next one does."""
        end = self._data.find(b"\0", at)
        if end < 0:
            end = self._size
        meta, _, path = self._data[at:end].partition(b"\t")
        return meta, path, end + 1

    def _first(self, path: bytes) -> int:
        """Where the first record begins whose path is not before ``path``."""
        low, high = 0, self._size  # both are beginnings of records, or the end
        while low < high:
            middle = self._data.rfind(b"\0", low, (low + high) // 2) + 1 or low
            if middle < low:
                middle = low
            _, found, following = self._record(middle)
            if found < path:
                low = min(following, self._size)
            else:
                high = middle
        return low
