"""The name that a connection says by its first bytes, for the port that it goes to."""

from __future__ import annotations

from backends.egress.clienthello import HANDSHAKE, ClientHello
from backends.egress.httphead import HttpHead
from backends.egress.spoken import NEED, Result

TLS_PORT = 443
HTTP_PORT = 80


class Sniffer:
    """Reads a TLS server name on port 443, an HTTP Host on 80, elsewhere the one that the first byte tells.

    Pure: the relay feeds what it has read, and keeps the bytes itself.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._parser: ClientHello | HttpHead | None = None

    def feed(self, data: bytes) -> Result:
        """The next bytes. After Found or Bad the answer stays what it is."""
        if self._parser is None:
            if not data:
                return NEED
            tls = data[0] == HANDSHAKE if self._port not in (TLS_PORT, HTTP_PORT) else self._port == TLS_PORT
            self._parser = ClientHello() if tls else HttpHead()
        return self._parser.feed(data)
