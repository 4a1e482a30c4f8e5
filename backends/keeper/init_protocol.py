"""The packets between a keeper and its box's init: one JSON object each, with file descriptors beside it.

The socket is ``SOCK_SEQPACKET`` (unix(7)), so packets keep their bounds. An object that is too large for one
packet travels in a memfd_create(2) file, the last descriptor of its packet. Text that is not UTF-8 is
``surrogateescape`` text, which JSON carries as ``\\udcXX``.

Keeper to init: ``{"op": "spawn" | "freeze" | "thaw" | "end", ...}``; init to keeper: ``{"ev": "ready" |
"error" | "spawned" | "failed" | "exit" | "frozen" | "thawed", ...}``. Neither side trusts the other's sizes.
"""

from __future__ import annotations

import _socket
import json
import os
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from json.scanner import make_scanner

Message = dict[str, object]

PACKET_LIMIT = 1 << 16  # bytes of one packet, well below the default socket buffer
MESSAGE_LIMIT = 16 << 20  # bytes of an object that travels in a file
FDS_LIMIT = 16  # descriptors of one packet; the kernel's own limit is SCM_MAX_FD, 253

_IN_FILE = "in-file"
# Plain numbers and made encoders: init comes past here, and what it need not run costs its memory nothing.
_SOCKET, _RIGHTS = int(socket.SOL_SOCKET), int(socket.SCM_RIGHTS)
_QUIET, _CLOEXEC = int(socket.MSG_NOSIGNAL), int(socket.MSG_CMSG_CLOEXEC)
_CUT = int(socket.MSG_TRUNC) | int(socket.MSG_CTRUNC)
_INT = 4  # bytes of a descriptor
_ROOM = socket.CMSG_SPACE(_INT * FDS_LIMIT)
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_make = getattr(json.encoder, "c_make_encoder", None)  # which the encoder itself calls anew for each object
_parts = _make and _make(
    None, _ENCODER.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
)
_scan: Callable[[str, int], tuple[object, int]] = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]


class ProtocolError(Exception):
    """The other side sent something that is not a packet of this protocol."""


def encode(message: Mapping[str, object]) -> bytes:
    text = "".join(_parts(message, 0)) if _parts else _ENCODER.encode(message)
    return text.encode("ascii")


def decode(data: bytes) -> Message:
    """The object of one packet; ``ProtocolError`` unless it is a JSON object."""
    try:
        text = data.decode("utf-8", "surrogatepass")
        value, end = _scan(text, 0)
    except (ValueError, StopIteration) as error:
        raise ProtocolError(f"not JSON: {error}") from error
    if end != len(text):
        raise ProtocolError("not JSON: something follows the object")
    if not isinstance(value, dict):
        raise ProtocolError("not a JSON object")
    return value


def send(control: _socket.socket, message: Mapping[str, object], fds: Iterable[int] = ()) -> None:
    """Sends one object with copies of ``fds``; the caller still owns its descriptors.

    ``OSError`` as sendmsg(2): ``BrokenPipeError`` when the other side is gone.
    """
    data = encode(message)
    passed = list(fds)
    spill = -1
    try:
        if len(data) > PACKET_LIMIT:
            if len(data) > MESSAGE_LIMIT:
                raise ProtocolError(f"an object of {len(data)} bytes exceeds {MESSAGE_LIMIT}")
            spill = os.memfd_create("packet", os.MFD_CLOEXEC)
            with os.fdopen(os.dup(spill), "wb") as file:
                file.write(data)
            passed.append(spill)
            data = encode({_IN_FILE: len(data)})
        rights = [(_SOCKET, _RIGHTS, struct.pack(f"{len(passed)}i", *passed))] if passed else []
        control.sendmsg([data], rights, _QUIET)
    finally:
        if spill >= 0:
            os.close(spill)


def recv(control: _socket.socket) -> tuple[Message | None, list[int]]:
    """The next object and its descriptors, now the caller's to close; ``(None, [])`` at the stream's end.

    Received descriptors are close-on-exec, so that none leaks into what is executed later.
    ``BlockingIOError`` when the socket does not block and nothing waits; ``ProtocolError`` after closing what
    came along.
    """
    data, ancillary, flags, _ = control.recvmsg(PACKET_LIMIT, _ROOM, _CLOEXEC)
    fds: list[int] = []
    for level, kind, payload in ancillary:
        if level == _SOCKET and kind == _RIGHTS:
            fds += struct.unpack_from(f"{len(payload) // _INT}i", payload)
    try:
        if flags & _CUT:
            raise ProtocolError("a packet was cut")
        if not data:
            if fds:
                raise ProtocolError("descriptors without an object")
            return None, []
        message = decode(data)
        size = message.get(_IN_FILE)
        if size is not None:
            message = _read_file(size, fds)
    except ProtocolError:
        close(fds)
        raise
    return message, fds


def close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _read_file(size: object, fds: list[int]) -> Message:
    if not isinstance(size, int) or not 0 < size <= MESSAGE_LIMIT or not fds:
        raise ProtocolError("an object in a file of impossible size")
    with os.fdopen(fds.pop(), "rb") as file:
        file.seek(0)
        data = file.read(size + 1)
    if len(data) != size:
        raise ProtocolError("an object in a file of another size than announced")
    return decode(data)
