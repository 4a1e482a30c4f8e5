"""What a keeper and its clients say to each other: JSON lines over a unix stream socket, version 1.

A request is ``{"v": 1, "id": k, "op": name, "fds": n, ...}``; its ``n`` descriptors travel with its first
byte as SCM_RIGHTS (unix(7)). A reply is ``{"id": k, "ok": true, ...}`` or ``{"id": k, "ok": false, "error":
{...}}`` with the error of :meth:`backends.errors.ClocheError.as_dict`. Everything else is an event:
``{"event": ...}``.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Any

VERSION = 1
MAX_REQUEST = 1 << 20  # bytes of one line; a command line and its environment fit well
MAX_REPLY = 8 << 20  # a full tally or a box's last output
MAX_FDS = 3  # descriptors of one request
_INT = struct.calcsize("i")


class ProtocolError(Exception):
    """The other side does not speak this protocol; nothing it says afterwards can be trusted."""


def encode(value: object) -> bytes:
    """One line. Text from a box may hold lone surrogates (``surrogateescape``): JSON escapes carry them."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode("ascii") + b"\n"


class Decoder:
    """Cuts a byte stream into JSON objects, never holding more than one line's limit."""

    def __init__(self, limit: int = MAX_REPLY) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The objects completed by ``data``. Raises ProtocolError for a line too long or not an object."""
        self._buffer += data
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if (len(self._buffer) if end < 0 else end) > self._limit:
                raise ProtocolError(f"a line is longer than {self._limit} bytes")
            if end < 0:
                self._searched = len(self._buffer)
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            yield _parse(line)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a line is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ProtocolError("a line is not a JSON object")
    return value


def rights(fds: Iterable[int]) -> list[tuple[int, int, bytes]]:
    """Ancillary data that carries ``fds``, for ``socket.sendmsg``."""
    numbers = list(fds)
    if not numbers:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(numbers)}i", *numbers))]


def receive(sock: socket.socket, size: int = 65536, fds: int = MAX_FDS) -> tuple[bytes, list[int]]:
    """One recvmsg(2): bytes and the descriptors that came along, close-on-exec.

    Without MSG_CMSG_CLOEXEC they would be inherited by a later launch. Raises ProtocolError, with every
    received descriptor closed, when more came than there was room for.
    """
    data, ancillary, flags, _ = sock.recvmsg(size, socket.CMSG_SPACE(fds * _INT), socket.MSG_CMSG_CLOEXEC)
    got: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            count = len(content) // _INT
            got.extend(struct.unpack(f"{count}i", content[: count * _INT]))
    if flags & socket.MSG_CTRUNC:
        close_all(got)
        raise ProtocolError(f"more than {fds} descriptors came at once")
    return data, got


def close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)
