"""DNS over TCP for the programs of a box (RFC 7766): few connections, one message a turn, nobody waited for.

A client is read only as far as its next message, so what it sends ahead stays in its own kernel buffer. All
clients together get a part of the keeper's time; who finds it used up is served in the next turn of the loop.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

from backends.keeper.dns_messages import HEADER, MAX_QUERY
from backends.keeper.log import Log
from backends.keeper.loop import READ, WRITE, Loop

MOST = 64  # connections of one box; for a further one the one that was quiet longest ends
PATIENCE = 15.0  # seconds for a message to arrive, for its answer, and for a reply to be taken
SLICE = (
    0.005  # seconds of work for all clients in one WINDOW; a hostile message costs up to four milliseconds
)
WINDOW = 0.01
ACCEPTS = 16  # connections taken in one turn
_RETRY = 1.0  # seconds until connections are taken again after the host had no descriptor left

Answer = Callable[[bytes | None], None]


class Client:
    """One connection. ``serve(message, answer)`` is called for each message; ``answer`` may come later."""

    def __init__(self, owner: Server, connection: socket.socket) -> None:
        self._owner = owner
        self._connection = connection
        self._buffer = bytearray()
        self._out = b""
        self._awaiting = False
        self.open = True
        self.since = time.monotonic()

    def ready(self, _events: int) -> None:
        """The connection is readable, writable or gone."""
        try:
            if self._out:
                self._write()
            elif not self._awaiting:
                begun = time.monotonic()
                if self._owner.may_work(begun):
                    self._read()
                    self._owner.worked(time.monotonic() - begun)
            else:
                self.close()  # gone while its answer was looked for
        except BlockingIOError:
            return
        except OSError:
            self.close()  # reset by the client

    def _read(self) -> None:
        size = 2 if len(self._buffer) < 2 else 2 + int.from_bytes(self._buffer[:2], "big")
        chunk = self._connection.recv(size - len(self._buffer))
        if not chunk:
            self.close()
            return
        self._buffer += chunk
        if len(self._buffer) < 2:
            return
        size = int.from_bytes(self._buffer[:2], "big")
        if not HEADER.size <= size <= MAX_QUERY:
            self._owner.unfit()
            self.close()
        elif len(self._buffer) == 2 + size:
            message = bytes(self._buffer[2:])
            self._buffer.clear()
            self._awaiting = True
            self._owner.used(self)
            self._owner.serve(message, self.answer)
            if self.open and self._awaiting:
                self._owner.loop.want(self._connection.fileno(), 0)

    def answer(self, reply: bytes | None) -> None:
        """Send the reply to the message that was served last; None ends the connection."""
        if not self.open:
            return
        if reply is None:
            self.close()
            return
        self._awaiting = False
        self._out = struct.pack("!H", len(reply)) + reply
        self._owner.used(self)
        try:
            self._write()
        except BlockingIOError:
            self._owner.loop.want(self._connection.fileno(), WRITE)
        except OSError:
            self.close()

    def _write(self) -> None:
        self._out = self._out[self._connection.send(self._out) :]
        self._owner.loop.want(self._connection.fileno(), WRITE if self._out else READ)

    def failed(self, _error: BaseException) -> None:
        """Serving it raised, which the loop has reported."""
        self.close()

    def close(self) -> None:
        if self.open:
            self.open = False
            self._owner.gone(self)
            self._owner.loop.remove(self._connection.fileno())
            self._connection.close()


class Server:
    """Takes connections from ``listeners``; they and the connections are closed by ``close``."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        listeners: list[socket.socket],
        serve: Callable[[bytes, Answer], None],
        unfit: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.serve = serve
        self.unfit = unfit
        self._log = log
        self._clients: dict[Client, None] = {}  # the one that was quiet longest first
        self._listeners = listeners
        self._window = 0.0
        self._worked = 0.0
        for listener in listeners:
            listener.setblocking(False)
            loop.add(listener.fileno(), READ, self._acceptor(listener))

    def __len__(self) -> int:
        return len(self._clients)

    def _acceptor(self, listener: socket.socket) -> Callable[[int], None]:
        return lambda _events: self._accept(listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTS):
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log.note(f"a DNS connection cannot be taken: {error.strerror}", "dns accept")
                self.loop.want(listener.fileno(), 0)
                self.loop.later(_RETRY, lambda: self._resume(listener))
                return
            connection.setblocking(False)
            if len(self._clients) >= MOST:
                next(iter(self._clients)).close()
            client = Client(self, connection)
            self._clients[client] = None
            self.loop.add(connection.fileno(), READ, client.ready, client.failed)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self.loop.want(listener.fileno(), READ)

    def may_work(self, now: float) -> bool:
        """Whether something of the slice is left at ``now`` (monotonic seconds)."""
        if now >= self._window + WINDOW:
            self._window, self._worked = now, 0.0
        return self._worked < SLICE

    def worked(self, seconds: float) -> None:
        self._worked += seconds

    def used(self, client: Client) -> None:
        """A client sent a whole message or gets a reply: it begins to be quiet anew."""
        client.since = time.monotonic()
        self._clients[client] = self._clients.pop(client)

    def gone(self, client: Client) -> None:
        del self._clients[client]

    def tick(self) -> None:
        """Once a second: end who was quiet too long, in the middle of a message or not."""
        before = time.monotonic() - PATIENCE
        for client in list(self._clients):
            if client.since > before:
                return
            client.close()

    def close(self) -> None:
        for client in list(self._clients):
            client.close()
        for listener in self._listeners:
            self.loop.remove(listener.fileno())
            listener.close()
        self._listeners.clear()
