"""A relay in a thread, over TCP on loopback: tests name the destination and make the server behind it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from backends.egress.matcher import Matcher
from backends.egress.rules import parse
from backends.keeper import relay_net
from backends.keeper.denials import Refusal
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.keeper.relay_net import Relay
from tests import support

ADDRESS = "93.184.215.14"  # of the internet; no test connects to it
LIMIT = 60.0  # seconds that a test waits for what must come


class Served:
    """A relay whose clients all meant ``destination``, and whose destinations all are ``server``."""

    def __init__(
        self,
        rules: tuple[str, ...],
        names: tuple[str, ...],
        destination: tuple[str, int],
        server: tuple[str, int],
        *,
        cap: int = relay_net.MAX_CONNECTIONS,
        redirected: Sequence[socket.socket] = (),
    ) -> None:
        """``redirected``: listeners to which a packet filter leads, by which the destination is known."""
        self.refusals: list[tuple[Refusal, int, str, int]] = []
        self.raised: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self.destination = destination
        self.server = server
        self.log_read, log_write = os.pipe2(os.O_CLOEXEC)
        self._log_write = log_write
        self.loop = Loop(lambda where, error: self.raised.append(f"{where}: {type(error).__name__}: {error}"))
        listeners = list(redirected) or [socket.create_server(("127.0.0.1", 0), backlog=4096)]
        self.address = listeners[0].getsockname()
        original = relay_net.original if redirected else lambda _client: self.destination
        self.relay = self._made(Log(log_write), listeners, Matcher(map(parse, rules)), names, original, cap)
        self._wake = socket.socketpair()
        self._calls: list[Callable[[], None]] = []
        self.loop.add(self._wake[0].fileno(), 1, self._woken)
        self._thread = threading.Thread(target=self.loop.run)
        self._thread.start()

    def _made(
        self,
        log: Log,
        listeners: list[socket.socket],
        matcher: Matcher,
        names: tuple[str, ...],
        original: Callable[[socket.socket], tuple[str, int]],
        cap: int,
    ) -> Relay:
        return Relay(
            self.loop,
            log,
            listeners,
            lambda address, port, said: matcher.destination(address, port, names, said),
            deny=lambda *refusal: self.refusals.append(refusal),
            caller=lambda _address, _port: (7, "curl"),
            dial=self._dial,
            original=original,
            cap=cap,
        )

    def _dial(self, address: str, port: int) -> socket.socket:
        self.dialled.append((address, port))
        return relay_net.dial(*self.server)

    def _woken(self, _events: int) -> None:
        self._wake[0].recv(64)
        while self._calls:
            self._calls.pop(0)()

    def call(self, act: Callable[[], None]) -> None:
        """Run ``act`` in the relay's thread and wait for it."""
        done = threading.Event()
        self._calls += [act, done.set]
        self._wake[1].send(b"x")
        assert done.wait(LIMIT)

    def settle(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition`` holds in the relay's thread."""
        for _ in range(int(LIMIT / 0.01)):
            held: list[bool] = []
            self.call(lambda: held.append(condition()))  # noqa: B023 (called before the next round)
            if held[0]:
                return
            threading.Event().wait(0.01)
        pytest.fail("it did not come to be")

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address[:2], timeout=LIMIT)

    def log(self) -> list[str]:
        os.set_blocking(self.log_read, False)
        with contextlib.suppress(BlockingIOError):
            return os.read(self.log_read, 1 << 16).decode().splitlines()
        return []

    def close(self) -> None:
        self.call(self.relay.close)
        self.call(self.loop.stop)
        self._thread.join(LIMIT)
        for side in self._wake:
            self.loop.remove(side.fileno())
            side.close()
        self.loop._epoll.close()
        os.close(self.log_read)
        os.close(self._log_write)
        assert not self.raised


class Server:
    """Accepts on loopback; each connection is served by ``serve`` in a thread of its own."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self.accepted = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self.accepted += 1
            thread = threading.Thread(target=self._one, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _one(self, client: socket.socket) -> None:
        client.settimeout(LIMIT)
        with client, contextlib.suppress(ConnectionError):
            self._serve(client)

    def wait(self) -> None:
        """Until every connection so far was served to its end."""
        for thread in self._threads[1:]:
            support.wait_until(lambda: thread.ident is not None, "it was begun")  # noqa: B023
            thread.join(LIMIT)
            assert not thread.is_alive()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(LIMIT)
            assert not thread.is_alive()


@contextlib.contextmanager
def served(
    serve: Callable[[socket.socket], None],
    rules: tuple[str, ...] = (f"{ADDRESS}:7000",),
    names: tuple[str, ...] = (),
    port: int = 7000,
    cap: int = relay_net.MAX_CONNECTIONS,
) -> Iterator[tuple[Served, Server]]:
    """A relay to a server, both gone afterwards, and no descriptor left."""
    before = support.descriptors()
    server = Server(serve)
    one = Served(rules, names, (ADDRESS, port), server.address, cap=cap)
    try:
        yield one, server
    finally:
        one.close()
        server.close()
    assert support.descriptors() == before


def read_all(client: socket.socket) -> bytes:
    """Everything until the end; ConnectionResetError after a reset."""
    data = bytearray()
    while piece := client.recv(1 << 16):
        data += piece
    return bytes(data)


def client_hello(name: str) -> bytes:
    """The first bytes that OpenSSL sends for ``name``."""
    import ssl

    context = ssl.create_default_context()
    out = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return out.read()


def echo(client: socket.socket) -> None:
    while data := client.recv(1 << 16):
        client.sendall(data)


def keep(got: list[bytes], answer: bytes = b"") -> Callable[[socket.socket], None]:
    """A server that reads to the end and then answers."""

    def serve(client: socket.socket) -> None:
        got.append(read_all(client))
        client.sendall(answer)

    return serve


def refused(client: socket.socket) -> bool:
    """Whether a connection ends by a reset before anything comes."""
    try:
        return client.recv(1) == b"never"
    except ConnectionResetError:
        return True


def turned_away(one: Served, first: bytes = b"") -> bool:
    """Whether a new connection is reset, at once or after ``first``; the reset may be there before connect(2)
    returns.
    """
    try:
        with one.connect() as client:
            client.sendall(first)
            return refused(client)
    except (ConnectionResetError, BrokenPipeError):
        return True
