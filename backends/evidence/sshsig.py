"""The envelope of a signature that ``ssh-keygen -Y sign`` makes (PROTOCOL.sshsig of OpenSSH). Pure.

It tells who claims to have signed, and for what, before anything is verified: the key, by its fingerprint as
``ssh-keygen -l`` prints it, and the namespace. Whether the signature is right is ssh-keygen's to say.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

NAMESPACE = "cloche-receipt"
"""What a receipt is signed for, so that a signature of anything else is none of a receipt."""

SIGNATURE = "receipt.json.sig"
"""The file beside a receipt that holds its signature."""

LARGEST = 64 << 10  # bytes; a signature by an RSA key of 16384 bits has 6 KiB
MAGIC = b"SSHSIG"
_ARMOUR = re.compile(
    rb"\s*-----BEGIN SSH SIGNATURE-----\r?\n([A-Za-z0-9+/=\r\n]+)\r?\n-----END SSH SIGNATURE-----\s*"
)


class Envelope(NamedTuple):
    """What a signature says about itself."""

    kind: str  # of the key: ssh-ed25519, sk-ssh-ed25519@openssh.com; raw
    fingerprint: str  # SHA256:... of the public key
    namespace: str  # raw


def parse(text: bytes) -> Envelope:
    """Read an armoured signature. ``ValueError`` says why it is none."""
    if len(text) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    match = _ARMOUR.fullmatch(text)
    if match is None:
        raise ValueError("it is no SSH signature")
    try:
        blob = binascii.a2b_base64(match[1].replace(b"\r", b"").replace(b"\n", b""), strict_mode=True)
    except binascii.Error as error:
        raise ValueError(f"it is no SSH signature: {error}") from error
    if not blob.startswith(MAGIC) or blob[6:10] != b"\0\0\0\1":
        raise ValueError("it is no SSH signature of version 1")
    parts = list(_strings(blob, 10))
    if len(parts) != 5:
        raise ValueError("it does not have the five parts of an SSH signature")
    key, namespace = parts[0], parts[1]
    kind = next(_strings(key, 0), b"")
    if not kind:
        raise ValueError("it names no key")
    digest = binascii.b2a_base64(hashlib.sha256(key).digest(), newline=False).rstrip(b"=")
    return Envelope(_text(kind), "SHA256:" + digest.decode("ascii"), _text(namespace))


def _strings(data: bytes, at: int) -> Iterator[bytes]:
    """The strings of RFC 4251, section 5, from ``at`` to the end."""
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + length > len(data):
            raise ValueError("it is cut off")
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


def _text(data: bytes) -> str:
    return data[:200].decode("utf-8", "surrogateescape")
