"""The last bytes of a stream, bounded."""

from __future__ import annotations

from collections import deque


class Ring:
    """Keeps at least the last ``limit`` bytes that were added and drops whole older chunks."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0  # bytes ever added
        self._chunks: deque[bytes] = deque()
        self._held = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        # Small chunks are joined: a program that writes byte by byte must not cost an object for each.
        if self._chunks and len(self._chunks[-1]) + len(chunk) <= 4096:
            self._chunks[-1] += chunk
        else:
            self._chunks.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._chunks[0]) >= self.limit:
            self._held -= len(self._chunks.popleft())

    @property
    def wrapped(self) -> bool:
        """Whether something was dropped, so that the content may begin in the middle of a line."""
        return self.total > self._held

    def tail(self, limit: int | None = None) -> bytes:
        """The last ``limit`` bytes (default: the ring's own limit)."""
        wanted = self.limit if limit is None else min(limit, self.limit)
        if wanted <= 0:
            return b""
        parts: list[bytes] = []
        missing = wanted
        for chunk in reversed(self._chunks):
            parts.append(chunk[-missing:])
            missing -= len(parts[-1])
            if missing <= 0:
                break
        return b"".join(reversed(parts))

    def shrink(self, limit: int) -> None:
        """Keep only the last ``limit`` bytes from now on."""
        kept = self.tail(limit)
        self.limit = limit
        self._chunks.clear()
        self._held = 0
        if kept:
            self._chunks.append(kept)
            self._held = len(kept)

    def last_line(self) -> bytes:
        """The last line that is not blank, at most 4 KiB of it."""
        for line in reversed(self.tail(8192).replace(b"\r", b"\n").split(b"\n")):
            if line.strip():
                return line[-4096:]
        return b""
