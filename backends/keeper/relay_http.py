"""Requests of one HTTP/1 connection: each names a host that may be named, and nothing else passes.

A connection that is kept alive may name another host in each request, and the server at the other end may be
many hosts: checking the first alone would let a box reach all of them through any one. So every request head
is checked, and bodies are followed by their length or their chunks (RFC 9112, sections 6 and 7). What two
readers might take for two different things is refused: two lengths, folded lines, bare line ends.

Only the first request may upgrade the connection (RFC 9110, section 7.8), to anything but h2c, whose requests
would again name hosts: what the box sends after it waits until the server's answer begins. With status 101
the rest is passed as it is. CONNECT is refused (``httphead``).

What remains possible: the allowed server may itself fetch from others what it is asked for, as any may.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from backends.egress.httphead import HttpHead
from backends.egress.spoken import LIMIT, Bad, Found

MAX_LINE = 4096  # bytes of the line that gives a chunk's size
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_SWITCHED = re.compile(rb"HTTP/1\.[01] 101[ \r]")
ANSWER = 13  # bytes of an answer that tell whether the protocol was switched

HEAD, _BODY, _SIZE, _AFTER, _TRAILER, _WAIT, _OPEN = range(7)


class NotPassed(Exception):
    """What may not go on: ``reason`` is a noun phrase, ``name`` the host that was named, or ""."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.name = name


class Requests:
    """What a client sends, piece by piece. ``admit(name)`` raises ``NotPassed`` for a host not meant."""

    __slots__ = ("_admit", "_after", "_buffer", "_left", "_requests", "_state")

    def __init__(self, admit: Callable[[str], None]) -> None:
        self._admit = admit
        self._buffer = bytearray()
        self._state = HEAD
        self._after = HEAD  # the state that follows a body, or the last chunk
        self._left = 0  # bytes of the body or chunk that are still to come; of the trailers that may
        self._requests = 0

    @property
    def waiting(self) -> bool:
        """Whether the server's answer to an upgrade decides how to go on."""
        return self._state == _WAIT

    @property
    def pauses(self) -> bool:
        """Whether nothing more of the client is to be read now."""
        return self.waiting

    def answered(self, start: bytes) -> bytes:
        """The server's answer begins with ``start``: what was kept back and may go on now."""
        self._state = _OPEN if _SWITCHED.match(start) else HEAD
        return self.feed(b"")

    def feed(self, data: bytes) -> bytes:
        """The bytes that may go to the server now, kept ones first. Raises ``NotPassed``."""
        self._buffer += data
        out = bytearray()
        while self._buffer:
            if self._state == _WAIT:
                break
            if self._state == _OPEN:
                self._take(out, len(self._buffer))
            elif self._state == _BODY:
                self._body(out)
            elif not (self._head(out) if self._state == HEAD else self._line(out)):
                break
        return bytes(out)

    def _take(self, out: bytearray, count: int) -> None:
        out += self._buffer[:count]
        del self._buffer[:count]

    def _body(self, out: bytearray) -> None:
        count = min(self._left, len(self._buffer))
        self._take(out, count)
        self._left -= count
        if not self._left:
            self._state = self._after

    def _head(self, out: bytearray) -> bool:
        """One request head; False when it is not complete yet."""
        if self._buffer.startswith(b"\r\n"):
            self._take(out, 2)  # an old client's, after a body (RFC 9112, section 2.2)
            return True
        end = self._buffer.find(b"\r\n\r\n", 0, LIMIT)
        if end < 0:
            if len(self._buffer) >= LIMIT:
                raise NotPassed("a request head of more than 16 KiB")
            return False
        head = bytes(self._buffer[: end + 4])
        said = HttpHead().feed(head)
        if not isinstance(said, Found):
            raise NotPassed(said.reason if isinstance(said, Bad) else "no whole request head")
        self._admit(said.name)
        self._follow(head[:end].split(b"\r\n"))
        self._take(out, end + 4)
        return True

    def _follow(self, lines: list[bytes]) -> None:
        """Reads from a head what comes after it."""
        lengths, codings, upgrades = [], [], []
        for line in lines[1:]:
            name, _, value = line.lower().partition(b":")
            value = value.strip(b" \t")
            if name == b"content-length":
                lengths.append(value)
            elif name == b"transfer-encoding":
                codings.append(value)
            elif name == b"upgrade":
                upgrades += [token.strip() for token in value.split(b",")]
        self._requests += 1
        if codings:
            if codings != [b"chunked"] or lengths or lines[0].endswith(b"0"):
                raise NotPassed("a request body whose length two readers may take for two")
            self._state = _SIZE
        elif lengths:
            if len(lengths) > 1 or not re.fullmatch(rb"[0-9]{1,18}", lengths[0]):
                raise NotPassed("a request body whose length two readers may take for two")
            self._left, self._after = int(lengths[0]), HEAD
            self._state = _BODY if self._left else HEAD
        if upgrades and self._requests == 1 and self._state == HEAD and b"h2c" not in upgrades:
            self._state = _WAIT

    def _line(self, out: bytearray) -> bool:
        """One line between chunks; False when it is not complete yet."""
        end = self._buffer.find(b"\r\n", 0, MAX_LINE)
        if end < 0:
            if len(self._buffer) >= MAX_LINE:
                raise NotPassed("a chunk's line of more than 4 KiB")
            return False
        line = bytes(self._buffer[:end])
        if self._state == _SIZE:
            size = _CHUNK.fullmatch(line)
            if size is None:
                raise NotPassed("a request body that is not well formed")
            self._left, self._after = int(size[1], 16), _AFTER
            self._state = _BODY
            if not self._left:
                self._state, self._left = _TRAILER, LIMIT
        elif self._state == _AFTER:
            if line:
                raise NotPassed("a request body that is not well formed")
            self._state = _SIZE
        elif not line:
            self._state = HEAD
        else:
            self._left -= end + 2
            if self._left < 0 or _FIELD.fullmatch(line) is None:
                raise NotPassed("trailers that are not well formed")
        self._take(out, end + 2)
        return True
