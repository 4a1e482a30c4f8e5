"""A proxy in a thread, over TCP on loopback: names are pinned here, every destination is one server."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

from backends.egress.matcher import Matcher
from backends.egress.pins import Pin, Pins
from backends.keeper.log import Log
from backends.keeper.proxy import MAX_CONNECTIONS, Proxy
from tests import support
from tests.keeper.relays import ADDRESS, LIMIT, Served, Server

OTHER = "93.184.215.15"
RULES = ("good.example", "good.example:80", "good.example:7000", "also.example:80", "raw:plain.example:22")
NAMES = {
    "good.example": (ADDRESS,),
    "also.example": (ADDRESS,),  # another tenant of the same address
    "plain.example": (OTHER,),
    "off.example": (ADDRESS,),  # pinned, and on no list
}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class ServedProxy(Served):
    """``looked_up``: names that were asked of the host, which ``answers``."""

    def __init__(
        self,
        rules: tuple[str, ...],
        server: tuple[str, int],
        cap: int,
        listeners: tuple[socket.socket, ...] = (),
    ) -> None:
        self.looked_up: list[str] = []
        self.answers: dict[str, tuple[str, ...]] = {}
        self.pins = Pins(Pin(name, addresses, 1.0) for name, addresses in NAMES.items())
        super().__init__(rules, (), ("", 0), server, cap=cap, redirected=listeners)

    def _made(
        self,
        log: Log,
        listeners: list[socket.socket],
        matcher: Matcher,
        names: tuple[str, ...],
        original: Callable[[socket.socket], tuple[str, int]],
        cap: int,
    ) -> Proxy:
        self.proxy = Proxy(
            self.loop,
            log,
            listeners,
            matcher,
            self.pins,
            deny=lambda *refusal: self.refusals.append(refusal),
            look_up=self._look_up,
            dial=self._dial,
            cap=cap,
        )
        return self.proxy

    def _look_up(self, name: str, done: Callable[[str], None]) -> None:
        self.looked_up.append(name)
        found = self.answers.get(name, ())
        self.pins.put(Pin(name, found, 1.0))
        done("" if found else "the host knows no such name")

    def denied(self) -> list[tuple[str, str]]:
        """Object and rule of each refusal so far."""
        assert all(
            (one.kind, one.lane, one.enforced_by, count) == ("net", "proxy", "proxy", 1)
            for one, _, _, count in self.refusals
        )
        return [(one.object, one.rule) for one, _, _, _ in self.refusals]


@contextlib.contextmanager
def proxied(
    serve: Callable[[socket.socket], None],
    rules: tuple[str, ...] = RULES,
    cap: int = MAX_CONNECTIONS,
    listeners: tuple[socket.socket, ...] = (),
) -> Iterator[tuple[ServedProxy, Server]]:
    """A proxy to a server, both gone afterwards, and no descriptor left."""
    before = support.descriptors() - len(listeners)
    server = Server(serve)
    one = ServedProxy(rules, server.address, cap, listeners)
    try:
        yield one, server
    finally:
        one.close()
        server.close()
    assert support.descriptors() == before


def head_of(client: socket.socket) -> bytes:
    """What comes until the first empty line."""
    data = bytearray()
    while not data.endswith(b"\r\n\r\n"):
        piece = client.recv(1)
        if not piece:
            break
        data += piece
    return bytes(data)


def tunnel(one: ServedProxy, target: str) -> socket.socket:
    """A connection whose tunnel to ``target`` stands."""
    client = one.connect()
    client.settimeout(LIMIT)
    client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert head_of(client) == b"HTTP/1.1 200 Connection established\r\n\r\n"
    return client


def asked(one: ServedProxy, request: bytes) -> bytes:
    """All that is answered to ``request``, to the end."""
    with one.connect() as client:
        client.sendall(request)
        data = bytearray()
        while piece := client.recv(1 << 16):
            data += piece
        return bytes(data)


def get(url: str, host: str, *fields: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {url} HTTP/1.1", f"Host: {host}", *fields, "", ""]).encode()


def answer(got: list[bytes], said: bytes = OK) -> Callable[[socket.socket], None]:
    """A server that reads one head, answers and closes, as it is told to."""

    def serve(client: socket.socket) -> None:
        got.append(head_of(client))
        client.sendall(said)

    return serve


def hears(got: list[bytes]) -> Callable[[socket.socket], None]:
    """A server that keeps what it gets, until an end or a reset."""

    def serve(client: socket.socket) -> None:
        while data := client.recv(1 << 16):
            got.append(data)

    return serve


def never(client: socket.socket) -> None:
    raise AssertionError("a server was reached")
