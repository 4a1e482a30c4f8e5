"""The hellos of one TLS connection: a second one, which a server may ask for, must name an allowed host too.

A server that wants other keys answers the first hello with HelloRetryRequest (RFC 8446, section 4.1.4), and
the client says hello again, in the clear. Servers take the name of the last one, so a box whose first hello
alone was read would reach every site behind the address. What goes to the server is read, record by record,
until the server answered otherwise, or the second hello was admitted; after that all is encrypted.
"""

from __future__ import annotations

from collections.abc import Callable

from backends.egress.clienthello import HANDSHAKE, ClientHello
from backends.egress.spoken import Bad, Found
from backends.keeper.relay_http import NotPassed

_CHANGE, _ALERT, _DATA = 20, 21, 23  # ContentType; early data may come between the hellos
_SERVER_HELLO = 2  # HandshakeType.server_hello
_RANDOM = slice(6, 38)  # after type, length and version
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")  # section 4.1.3
_LONGEST = 4096  # bytes of an answer in which it must have said which it is


class Hellos:
    """What a client sends from its first hello on. ``admit(name)`` raises ``NotPassed`` for a host not meant.

    ``told``: nothing of the server's answer has to be looked at any more; ``done``: nor of what is sent.
    """

    __slots__ = ("_admit", "_answer", "_buffer", "_fed", "_left", "_parser", "_seen", "done", "told")

    def __init__(self, admit: Callable[[str], None]) -> None:
        self._admit = admit
        self._buffer = bytearray()
        self._parser: ClientHello | None = None  # of the hello at the beginning of the buffer
        self._fed = 0  # bytes of the buffer that it has
        self._left = 0  # bytes that are still to come of a record that is no hello
        self._seen = 0  # hellos
        self._answer = bytearray()
        self.told = False
        self.done = False

    def sent(self, data: bytes) -> bytes:
        """The bytes that may go to the server now, kept ones first. Raises ``NotPassed``."""
        self._buffer += data
        out = bytearray()
        while self._buffer and not self.done:
            if self._left:
                count = min(self._left, len(self._buffer))
                self._left -= count
                self._take(out, count)
            elif self._buffer[0] == HANDSHAKE:
                if not self._hello(out):
                    return bytes(out)
            elif self._buffer[0] not in (_CHANGE, _ALERT, _DATA):
                self._end()  # no server goes on after that
            elif len(self._buffer) < 5:
                return bytes(out)
            else:
                self._left = 5 + int.from_bytes(self._buffer[3:5], "big")
        self._take(out, len(self._buffer))
        return bytes(out)

    def _take(self, out: bytearray, count: int) -> None:
        out += self._buffer[:count]
        del self._buffer[:count]

    def _hello(self, out: bytearray) -> bool:
        """One hello; False when it is not complete yet."""
        parser = self._parser = self._parser or ClientHello()
        result = parser.feed(bytes(self._buffer[self._fed :]))
        self._fed = len(self._buffer)
        if isinstance(result, Bad):
            raise NotPassed(result.reason)
        if not isinstance(result, Found):
            return False
        self._admit(result.name)
        self._take(out, parser.length)
        self._parser, self._fed = None, 0
        self._seen += 1
        if self._seen > 1:
            self._end()
        return True

    def _end(self) -> None:
        self.told = self.done = True

    def answered(self, data: bytes) -> bytes:
        """The next bytes of the server's answer; what was kept of the client's and may go on now."""
        self._answer += data
        asks = _asks_again(bytes(self._answer))
        if asks is None and len(self._answer) < _LONGEST:
            return b""
        self._answer.clear()
        self.told = True
        if asks:
            return b""
        self._end()
        return self.sent(b"")


def _asks_again(answer: bytes) -> bool | None:
    """Whether a server asks for a second hello; None when more has to be seen."""
    message = b""
    at = 0
    while len(answer) >= at + 5:
        end = at + 5 + int.from_bytes(answer[at + 3 : at + 5], "big")
        if answer[at] == HANDSHAKE:
            message += answer[at + 5 : end]
            if message[:1] not in (b"", bytes((_SERVER_HELLO,))):
                return False
            if len(message) >= _RANDOM.stop:
                return message[_RANDOM] == _RETRY
        elif answer[at] != _ALERT:
            return False
        at = end
    return None
