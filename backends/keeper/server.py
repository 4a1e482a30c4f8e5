"""The keeper's socket: who may connect, requests in, replies and events out, each client bounded.

A client that does not read costs what its buffer holds, and is dropped when that is full or when nothing
moves for a while; no other client notices.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import Any

from backends.errors import ClocheError, UsageError
from backends.keeper import address, peer, protocol
from backends.keeper.log import Log
from backends.keeper.loop import GONE, READ, WRITE, Loop, Timer
from backends.keeper.protocol import Decoder, ProtocolError, close_all

MAX_CLIENTS = 256
MAX_BUFFER = protocol.MAX_REPLY + (1 << 20)  # bytes that a client may leave unread
PATIENCE = 10.0  # seconds without progress before a slow client is dropped
_BLOCK = 65536

Request = dict[str, Any]


class Client:
    """One connection. ``handle(client, request, fds)`` owns the descriptors that it is given."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        self._server = server
        self._loop = server.loop
        self._sock = sock
        self._fd = sock.fileno()
        self._decoder = Decoder(protocol.MAX_REQUEST)
        self._fds: list[int] = []
        self._out = bytearray()
        self._patience: Timer | None = None
        self._open = True
        self.subscriptions: list[Callable[[], None]] = []  # called when the connection ends
        sock.setblocking(False)
        self._loop.add(self._fd, READ, self._ready, self._failed)

    @property
    def connected(self) -> bool:
        """Whether the other side still holds the connection, asked now and not when the loop gets to it."""
        if not self._open:
            return False
        try:
            return self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    @property
    def waiting(self) -> int:
        """Bytes that the client has not taken yet."""
        return len(self._out)

    def reply(self, number: object, fields: dict[str, Any]) -> None:
        self._send({"id": number, "ok": True, **fields})

    def refuse(self, number: object, error: ClocheError) -> None:
        self._send({"id": number, "ok": False, "error": error.as_dict()})

    def event(self, value: dict[str, Any]) -> None:
        self._send(value)

    def _send(self, value: dict[str, Any]) -> None:
        if not self._open:
            return
        self._out += protocol.encode(value)
        if len(self._out) > MAX_BUFFER:
            self._server.log.note("a client left too much unread and was dropped")
            self.close()
            return
        self._flush()

    def _flush(self) -> None:
        moved = False
        while self._out:
            try:
                sent = self._sock.send(memoryview(self._out)[:_BLOCK], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                break
            except OSError:
                self.close()
                return
            moved = True
            del self._out[:sent]
        if self._patience is not None and (moved or not self._out):
            self._patience.cancel()
            self._patience = None
        if self._out and self._patience is None:
            self._patience = self._loop.later(PATIENCE, self._too_slow)
        self._loop.want(self._fd, READ | (WRITE if self._out else 0))

    def _too_slow(self) -> None:
        self._server.log.note("a client read nothing for too long and was dropped")
        self.close()

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if not self._open or not events & (READ | GONE):
            return
        try:
            data, fds = protocol.receive(self._sock, _BLOCK)
        except BlockingIOError:
            return
        except (OSError, ProtocolError) as error:
            self._server.log.note(f"a client was dropped: {error}", "client dropped")
            self.close()
            return
        self._fds += fds
        if not data:
            self.close()
            return
        try:
            for request in self._decoder.feed(data):
                if self._open:
                    self._take(request)
        except ProtocolError as error:
            self._server.log.note(f"a client was dropped: {error}", "client dropped")
            self.close()
            return
        if len(self._fds) > protocol.MAX_FDS:
            self._server.log.note("a client was dropped: it sent descriptors that no request asked for")
            self.close()

    def _take(self, request: Request) -> None:
        number, count = request.get("id"), request.get("fds", 0)
        if request.get("v") != protocol.VERSION:
            self.refuse(
                number,
                UsageError(
                    "the keeper does not understand the request",
                    f"it speaks version {protocol.VERSION} and was asked in {request.get('v')!r}",
                    "the box was started by another version of cloche: cloche stop, then start it again",
                    code="protocol-version",
                ),
            )
            return
        if not isinstance(count, int) or not 0 <= count <= len(self._fds):
            raise ProtocolError("a request announced descriptors that did not come")
        fds, self._fds = self._fds[:count], self._fds[count:]
        try:
            self._server.handle(self, request, fds)
        except ClocheError as error:
            self.refuse(number, error)
        except Exception as error:  # noqa: BLE001 (reported to the log and to the client)
            self._server.log.failure(f"request {request.get('op')!r}", error)
            self.refuse(
                number,
                ClocheError(
                    f"the keeper could not do {request.get('op')!r}",
                    f"{type(error).__name__}: {error}",
                    "see keeper.log in the box's folder",
                    code="keeper-failure",
                ),
            )

    def _failed(self, _error: BaseException) -> None:
        self.close()

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._patience is not None:
            self._patience.cancel()
        self._loop.remove(self._fd)
        self._sock.close()
        close_all(self._fds)
        self._fds = []
        self._out.clear()
        for ended in self.subscriptions:
            ended()
        self._server.gone(self)


class Server:
    """Listens on ``path``; ``handle`` gets every request of every accepted client."""

    def __init__(
        self, loop: Loop, path: str, log: Log, handle: Callable[[Client, Request, list[int]], None]
    ) -> None:
        self.loop = loop
        self.log = log
        self.handle = handle
        self.clients: set[Client] = set()
        self._path = path
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        # Whoever holds the box's lock is its only keeper: a socket that lies there is a dead one's.
        if os.path.lexists(path):
            os.unlink(path)
        mask = os.umask(0o177)
        try:
            address.bind(self._sock, path)
        finally:
            os.umask(mask)
        self._sock.listen(128)
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._sock.setblocking(False)
        loop.add(self._sock.fileno(), READ, self._accept, self._lost)

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._sock.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self._turn_away()
            return
        try:
            peer.identify(sock)
        except peer.Foreign as foreign:
            self.log.note(f"a connection was refused: {foreign}", "connection refused")
            sock.close()
            return
        if len(self.clients) >= MAX_CLIENTS:
            self.log.note("a connection was refused: too many clients")
            sock.close()
            return
        self.clients.add(Client(self, sock))

    def _turn_away(self) -> None:
        """Out of descriptors: a spare one lets go of whoever waits, or the loop would spin on them."""
        self.log.note("a connection was refused: no descriptors are left")
        os.close(self._spare)
        try:
            sock, _ = self._sock.accept()
            sock.close()
        except BlockingIOError:
            self.log.note("whoever connected has left")
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _lost(self, error: BaseException) -> None:
        self.log.failure("accept", error)

    def gone(self, client: Client) -> None:
        self.clients.discard(client)

    @property
    def waiting(self) -> int:
        """Bytes that clients have not taken yet."""
        return sum(client.waiting for client in self.clients)

    def close(self) -> None:
        """Stop listening, remove the socket and end every connection."""
        self.stop_listening()
        for client in list(self.clients):
            client.close()

    def stop_listening(self) -> None:
        if self._sock.fileno() >= 0:
            self.loop.remove(self._sock.fileno())
            self._sock.close()
            os.close(self._spare)
            if os.path.lexists(self._path):
                os.unlink(self._path)
