"""The server name of a TLS ClientHello, before anything is encrypted.

Pure and incremental. A hello may be spread over many records and many reads. What two servers could read
differently is Bad and not guessed: several names, an extension twice, lengths that do not add up. Two ways
to say another name remain and are the server's business: Encrypted ClientHello, whose outer name is the one
found here, and whatever is said inside the encrypted connection.

Sources: RFC 8446 (sections 4.1.2, 4.2, 5.1), RFC 5246 (section 7.4.1.2), RFC 6066 (section 3), RFC 8701
(GREASE), RFC 9849 (Encrypted ClientHello).
"""

from __future__ import annotations

from backends.egress import spoken
from backends.egress.spoken import LIMIT, NEED, Bad, Found, Result

HANDSHAKE = 22  # ContentType.handshake
_CLIENT_HELLO = 1  # HandshakeType.client_hello
_LARGEST_RECORD = 1 << 14
_SERVER_NAME = 0  # ExtensionType.server_name
_ECH = 0xFE0D  # ExtensionType.encrypted_client_hello
_ECH_OUTER = 0  # ECHClientHelloType.outer
_HOST_NAME = 0  # NameType.host_name


class _Broken(Exception):
    """What the hello is found wrong in; it never leaves this module."""


class _Reader:
    """Takes a byte string apart. _Broken where it is shorter than it says."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise _Broken("a length in the TLS hello is wrong")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> bytes:
        return self.take(self.number(width))

    @property
    def left(self) -> bool:
        return self._at < len(self._data)

    def end(self) -> None:
        if self.left:
            raise _Broken("a length in the TLS hello is wrong")


class ClientHello:
    """Reads one ClientHello from the first bytes of a connection."""

    def __init__(self) -> None:
        self._seen = 0  # bytes fed
        self.length = 0  # bytes of the records that were read, which end with the hello
        self._rest = b""  # the start of a record that is not complete
        self._message = bytearray()
        self._result: Result = NEED

    def feed(self, data: bytes) -> Result:
        """The next bytes. After Found or Bad the answer stays what it is."""
        if self._result is not NEED:
            return self._result
        room = LIMIT - self._seen
        self._seen += len(data)
        try:
            self._result = self._records(self._rest + data[:room])
        except _Broken as problem:
            self._result = Bad(str(problem))
        if self._result is NEED and self._seen >= LIMIT:
            self._result = Bad(f"no TLS hello in the first {LIMIT} bytes")
        if self._result is not NEED:
            self._rest = b""
            self._message.clear()
        return self._result

    def _records(self, data: bytes) -> Result:
        at = 0
        while True:
            head = data[at : at + 5]
            if head and head[0] != HANDSHAKE:
                raise _Broken("it does not begin with a TLS hello")
            if head[1:2] and head[1] != 3:
                raise _Broken("it is no TLS record")
            if len(head) < 5:
                break
            length = int.from_bytes(head[3:5], "big")
            if not 0 < length <= _LARGEST_RECORD:
                raise _Broken("a TLS record is empty or too long")
            if len(data) - at - 5 < length:
                break
            self._message += data[at + 5 : at + 5 + length]
            at += 5 + length
            self.length += 5 + length
            if (result := self._whole()) is not NEED:
                return result
        self._rest = data[at:]
        return NEED

    def _whole(self) -> Result:
        message = self._message
        if message[0] != _CLIENT_HELLO:
            raise _Broken("it does not begin with a TLS hello")
        if len(message) < 4:
            return NEED
        length = int.from_bytes(message[1:4], "big")
        if length > LIMIT:
            raise _Broken("the TLS hello is too long")
        if len(message) < 4 + length:
            return NEED
        if len(message) > 4 + length:
            raise _Broken("something else follows in the record of the TLS hello")
        return _name(bytes(message[4 : 4 + length]))


def _name(body: bytes) -> Result:
    reader = _Reader(body)
    reader.take(2 + 32)  # legacy_version, random
    for width in (1, 2, 1):  # legacy_session_id, cipher_suites, legacy_compression_methods
        reader.vector(width)
    if not reader.left:
        return Bad("the TLS hello says no server name")
    extensions = _Reader(reader.vector(2))
    reader.end()
    found: dict[int, bytes] = {}
    while extensions.left:
        kind, value = extensions.number(2), extensions.vector(2)
        if kind in found:
            return Bad("an extension stands twice in the TLS hello")
        found[kind] = value
    if _SERVER_NAME not in found:
        return Bad("the TLS hello says no server name")
    if _ECH in found and found[_ECH][:1] != bytes((_ECH_OUTER,)):
        return Bad("the TLS hello is an inner one of ECH")
    return _server_name(found[_SERVER_NAME], _ECH in found)


def _server_name(value: bytes, ech: bool) -> Result:
    whole = _Reader(value)
    names = _Reader(whole.vector(2))
    whole.end()
    if names.number(1) != _HOST_NAME:
        return Bad("the server name in the TLS hello is of an unknown type")
    raw = names.vector(2)
    if names.left:
        return Bad("the TLS hello says several server names")
    name = spoken.host(raw)
    return Found(name, ech) if name else Bad("the server name in the TLS hello is no name")
