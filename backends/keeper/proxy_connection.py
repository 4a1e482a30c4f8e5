"""One connection through the proxy: a request head, a decision, a destination, then two directions.

Of CONNECT the client is told that its tunnel stands, and must then say inside the very name that it asked for
(TLS server name; with port 80, or where the first byte is no TLS, the HTTP ``Host`` of each request), unless
a ``raw:`` rule or an address was meant. Nothing that the client sends reaches the destination before.

A plain request goes on alone: what a client sends behind it is never passed, whichever host it names, because
the server is told to close (``backends.egress.proxyhead``). A client that has more to ask comes again.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from backends.egress import proxyhead
from backends.egress.proxied import Way
from backends.egress.proxyhead import ProxyHead, Target, Wrong
from backends.egress.sniff import Sniffer
from backends.egress.spoken import LIMIT, NEED, Bad
from backends.keeper import relay_connection
from backends.keeper.loop import GONE, READ
from backends.keeper.relay_connection import Connection, gone
from backends.keeper.relay_http import HEAD, NotPassed, Requests

if TYPE_CHECKING:
    from backends.keeper.proxy import Proxy

HEAD_PATIENCE = 10.0  # seconds for a whole request head
LOOKUP_PATIENCE = 15.0  # seconds for the host to look a name up
NEXT_PATIENCE = 5.0  # seconds without a byte until a client that sent another request is let go
DRAIN_PATIENCE = 2.0  # seconds in which a client may read why it was refused
NOWHERE = "a request without a destination"  # what a refusal names where none was said
DRAINED = 1 << 20  # bytes of a refused client's that are read away meanwhile
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_PHRASES = {
    400: "Bad Request",
    403: "Forbidden",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}


class ProxyConnection(Connection):
    """From ``client``, accepted from a box, to what its first request asks for."""

    __slots__ = ("_draining", "_half", "_head", "_proxy", "_rest", "_stage", "_still", "_target", "_way")

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        super().__init__(proxy, client, "", 0)
        self._proxy = proxy
        self._head = ProxyHead()
        self._rest = b""  # what came behind the head
        self._stage = "head"  # lookup, dial, name, flow, drain
        self._target: Target | None = None
        self._way = Way((), False, "")
        self._draining = 0
        self._still = 0  # bytes of the answer at the last look
        self._half = False  # the client had ended its direction then

    def begin(self) -> None:
        """Wait for a request head."""
        _no_delay(self._client)
        self._relay.loop.add(self._client.fileno(), READ, self._client_ready, self._failed)
        self._relay.wait(self, HEAD_PATIENCE)

    # ------------------------------------------------------------ the head

    def _read_head(self) -> None:
        data = self._read(proxyhead.LIMIT)
        if data is None:
            return
        if not data:
            self.end(broken=self._head.begun)
            return
        result = self._head.feed(data)
        if isinstance(result, Wrong):
            self._turn_away(result.status, result.reason, NOWHERE)
        elif isinstance(result, Target):
            self._target, self._rest = result, self._head.rest
            self.port = result.port
            self._relay.loop.want(self._client.fileno(), 0)
            self._decide(result)

    def _read(self, size: int) -> bytes | None:
        try:
            return self._client.recv(size)
        except BlockingIOError:
            return None
        except OSError:
            self.end(broken=True)
            return None

    def _decide(self, target: Target) -> None:
        way = self._proxy.way(target)
        if not way.addresses and way.unknown:
            self._stage = "lookup"
            self._relay.wait(self, LOOKUP_PATIENCE)
            self._proxy.look_up(target.host, self._looked_up)
            return
        self._go(target, way)

    def _looked_up(self, why: str) -> None:
        """The host answered for the name; ``why`` it has no address, or ""."""
        if self.over or self._stage != "lookup":
            return
        assert self._target is not None
        way = self._proxy.way(self._target)
        self._go(self._target, way if way.addresses or not why else way._replace(reason=why))

    def _go(self, target: Target, way: Way) -> None:
        if not way.addresses:
            self._turn_away(403, way.reason, shown(target))
            return
        self._way = way
        self.name = "" if target.is_address else target.host
        if not target.tunnel:
            self._requests = OneRequest(_anybody)
            try:
                self._first = self._requests.feed(target.head + self._rest)
            except NotPassed as refused:
                self._turn_away(400, refused.reason, shown(target))
                return
        self._stage = "dial"
        self.address, *rest = way.addresses
        self._ways = tuple(rest)
        self._attempt()

    # ------------------------------------------------------------ the destination

    def _not_had(self, why: str) -> None:
        if self._upstream is not None:
            self._relay.loop.remove(self._upstream.fileno())
            self._upstream.close()
            self._upstream = None
        self._relay.fail(self, why, last=False)
        if self._ways:
            self.address, *rest = self._ways
            self._ways = tuple(rest)
            self._attempt()
        else:
            assert self._target is not None
            self._answer(502, f"{shown(self._target)} could not be reached: {why}")

    def _flow(self, upstream: socket.socket) -> None:
        assert self._target is not None
        if not self._target.tunnel:
            self._begin_flow(upstream)
            return
        if not self._say(_ESTABLISHED):
            self.end(broken=True)
            return
        if self._way.raw:
            self._first = self._rest
            self._begin_flow(upstream)
            return
        self._stage = "name"
        self._sniffer = Sniffer(self.port)
        self._relay.loop.want(self._client.fileno(), READ)
        self._relay.loop.want(upstream.fileno(), 0)
        self._relay.wait(self, self._proxy.name_patience)
        if self._rest:
            self._hear(self._rest)

    def _begin_flow(self, upstream: socket.socket) -> None:
        self._stage = "flow"
        self._rest = b""
        super()._flow(upstream)

    # ------------------------------------------------------------ one plain request

    def _watch(self) -> None:
        super()._watch()
        if not self.over and self._stage == "flow" and isinstance(self._requests, OneRequest):
            assert self._up is not None and self._down is not None
            if self._down.ended and self._upstream is not None:
                self._finish()
            elif self._requests.pauses and not self._relay.is_waiting(self):
                self._relay.wait(self, NEXT_PATIENCE)

    def _finish(self) -> None:
        """The answer is over. What the client still sends is read away, or a reset would overtake it."""
        assert self._upstream is not None and self._up is not None
        self._up.stop()
        self._relay.loop.remove(self._upstream.fileno())
        self._upstream.close()
        self._upstream = None
        self._drain_on()

    def _look_at_client(self) -> None:
        """The server is silent. A client that sent another request would wait for it in vain: the server let
        it believe that the connection goes on. One that ended its direction waits as long as any may."""
        assert self._down is not None and isinstance(self._requests, OneRequest)
        moved, self._still = self._down.moved != self._still, self._down.moved
        waited, self._half = self._half and not moved, False
        try:
            again = self._requests.more or bool(self._client.recv(1, socket.MSG_PEEK))
            self._half = not again
        except BlockingIOError:
            again = False
        except OSError:
            self.end(broken=True)
            return
        if waited and self._half:
            self.end(broken=True)
        elif again and not moved:
            self._finish()
        else:
            self._relay.wait(self, relay_connection.HALF_PATIENCE if self._half else NEXT_PATIENCE)

    # ------------------------------------------------------------ the name inside a tunnel

    def _read_name(self) -> None:
        data = self._read(LIMIT - len(self._first))
        if data:
            self._hear(data)
        elif data is not None:
            self.end(broken=bool(self._first))

    def _hear(self, data: bytes) -> None:
        assert self._sniffer is not None and self._upstream is not None
        self._first += data
        result = self._sniffer.feed(data)
        if result is NEED or result == NEED:
            return
        try:
            if isinstance(result, Bad):
                raise NotPassed(result.reason)
            self._sniffer = None
            self._relay.settled(self)
            self._said(self.name)
        except NotPassed as refused:
            self._not_passed(refused)
            return
        self._begin_flow(self._upstream)

    def _admit(self, name: str) -> None:
        if name != self.name:
            raise NotPassed("the tunnel was asked for another name", name)

    def _not_passed(self, refused: NotPassed) -> None:
        """Something inside may not go on: no answer can be given there any more."""
        assert self._target is not None
        if self._target.tunnel:
            kind = "SNI" if self._hellos is not None or self._first[:1] == b"\x16" else "Host"
            said = f" ({kind} {refused.name})" if refused.name else " (no name)"
        else:
            said = ""
        self._proxy.count(shown(self._target) + said, refused.reason, self)
        self.end(broken=True)

    # ------------------------------------------------------------ events

    def _client_ready(self, events: int) -> None:
        if self._stage == "head":
            self._read_head()
        elif self._stage == "name":
            self._read_name()
        elif self._stage == "drain":
            self._drain()
        elif self._stage == "flow":
            super()._client_ready(events)
        elif events & GONE and gone(self._client):
            self.end(broken=True)

    def _upstream_ready(self, events: int) -> None:
        if self._stage == "name":
            if events & GONE:
                self.end(broken=True)
        elif self._stage in ("dial", "flow"):
            super()._upstream_ready(events)

    # ------------------------------------------------------------ answers of our own

    def _turn_away(self, status: int, reason: str, where: str) -> None:
        """Count a refusal, say why, and close."""
        self._proxy.count(where, reason, self)
        self._answer(status, f"{where}: {reason}" if self._target is not None else reason)

    def _answer(self, status: int, reason: str) -> None:
        """Say ``reason`` in the status line and as text; what still comes is read away, or a reset would
        overtake it (RFC 9112, section 9.6)."""
        phrase = f"{_PHRASES[status]}: cloche: {reason}" if status in (403, 502) else _PHRASES[status]
        text = f"cloche: {reason}\n".encode("ascii", "replace")
        head = (
            f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
            "Connection: close\r\n\r\n"
        )
        if not self._say(head.encode("ascii", "replace") + text):
            self.end(broken=True)
            return
        self._drain_on()

    def _drain_on(self) -> None:
        self._stage = "drain"
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_WR)
        if self._client in self._dead:
            self.end(broken=False)
            return
        self._relay.loop.want(self._client.fileno(), READ)
        self._relay.wait(self, DRAIN_PATIENCE)

    def _say(self, data: bytes) -> bool:
        """Whether the client took all of it at once, which one with an empty buffer does."""
        try:
            return self._client.send(data) == len(data)
        except OSError:
            return False

    def _drain(self) -> None:
        data = self._read(1 << 16)
        if data is None:
            return
        self._draining += len(data)
        if not data or self._draining > DRAINED:
            self.end(broken=bool(data))

    def late(self) -> None:
        """Its patience ended."""
        if self._stage == "head":
            if self._head.begun:
                self._turn_away(408, "no whole HTTP head in time", NOWHERE)
            else:
                self.end(broken=False)
        elif self._stage == "lookup":
            assert self._target is not None
            self._stage = "late"
            self._answer(504, f"{shown(self._target)}: the host did not look its name up in time")
        elif self._stage == "name":
            why = "it said no whole name in time" if self._first else "it said no name"
            self._not_passed(NotPassed(why + "; only a raw: rule asks for none"))
        elif self._stage == "drain":
            self.end(broken=False)
        elif self._stage == "flow" and isinstance(self._requests, OneRequest) and self._upstream is not None:
            self._look_at_client()
        else:
            super().late()


class OneRequest(Requests):
    """Of what a client sends, the first request, and nothing that comes after it."""

    __slots__ = ()

    @property
    def pauses(self) -> bool:
        """Whether all of it was passed."""
        return self._requests > 0 and self._state == HEAD

    @property
    def more(self) -> bool:
        """Whether something came behind it, which is kept and passed to nobody."""
        return self.pauses and bool(self._buffer)

    def _head(self, out: bytearray) -> bool:
        return False if self._requests else super()._head(out)


def _anybody(_name: str) -> None:
    """The head was made here: it names its target."""


def shown(target: Target) -> str:
    """A target as it is written and counted."""
    return f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"


def _no_delay(side: socket.socket) -> None:
    if side.family in (socket.AF_INET, socket.AF_INET6):
        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
