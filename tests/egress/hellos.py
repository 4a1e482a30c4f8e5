"""ClientHello messages as bytes: real ones from OpenSSL, and ones put together field by field."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence

GREASE = (0x0A0A, 0x1A1A, 0xFAFA)  # RFC 8701
SUPPORTED_VERSIONS = (43, b"\x04\x7a\x7a\x03\x04")
ECH = 0xFE0D


def real(name: str | None) -> bytes:
    """What OpenSSL sends first, in TLS records."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("nobody answered")


def vector(width: int, data: bytes) -> bytes:
    return len(data).to_bytes(width, "big") + data


def server_name(*names: bytes, kind: int = 0) -> tuple[int, bytes]:
    return 0, vector(2, b"".join(bytes((kind,)) + vector(2, name) for name in names))


def body(extensions: Iterable[tuple[int, bytes]] | None, session: bytes = b"\x07" * 32) -> bytes:
    start = (
        b"\x03\x03" + b"\x09" * 32 + vector(1, session) + vector(2, b"\x13\x01\x0a\x0a") + vector(1, b"\0")
    )
    if extensions is None:
        return start
    return start + vector(
        2, b"".join(kind.to_bytes(2, "big") + vector(2, value) for kind, value in extensions)
    )


def message(extensions: Iterable[tuple[int, bytes]] | None) -> bytes:
    return b"\x01" + vector(3, body(extensions))


def records(data: bytes, sizes: Sequence[int] = ()) -> bytes:
    """``data`` in TLS records of ``sizes``, the last of which takes what is left."""
    out, at = b"", 0
    for size in sizes:
        if data[at : at + size]:
            out += b"\x16\x03\x01" + vector(2, data[at : at + size])
        at += size
    return out + (b"\x16\x03\x01" + vector(2, data[at:]) if data[at:] else b"")


def hello(*extensions: tuple[int, bytes]) -> bytes:
    return records(message(extensions))
