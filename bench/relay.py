"""What the relay costs: bytes a second and time to the first answer, beside a direct connection.

Server, relay and client are three processes on loopback, where a direct connection is as fast as it can ever
be: two processes copy memory. A third one between them has to share the processors with both, so the ratio
here is the worst there is. ``splice`` is a relay that does nothing but splice(2), for comparison.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple

from backends.egress.matcher import Matcher
from backends.egress.rules import parse
from backends.keeper import relay_net
from backends.keeper.log import Log
from backends.keeper.loop import Loop

SIZE = 512 << 20  # bytes of one transfer
CONNECTS = 20  # connections of one sample of the latency
NAME, ADDRESS = "example.com", "93.184.215.14"  # no packet goes there: the relay dials the server of this run
RAW_PORT = 7000
DIRECT, RELAYED, SPLICED = "throughput, direct", "throughput, relay", "throughput, splice(2)"
FIRST_DIRECT, FIRST_RELAYED = "connect to first byte, direct", "connect to first byte, relay"
_WHOLE, _ECHO = b"w", b"\x16"  # first byte of a request: send SIZE bytes, or answer with one


class Samples(NamedTuple):
    """Bytes a second and seconds, by measure, one value a round."""

    throughput: dict[str, list[float]]
    latency: dict[str, list[float]]

    def ratio(self) -> float:
        """Throughput through the relay over that of a direct connection in the same round, in the median; the
        aim is 0.6.
        """
        pairs = zip(self.throughput[RELAYED], self.throughput[DIRECT], strict=True)
        return median(relayed / direct for relayed, direct in pairs)

    def added(self) -> float:
        """Seconds that the relay adds until the first byte, in the median; the aim is less than 0.002."""
        pairs = zip(self.latency[FIRST_RELAYED], self.latency[FIRST_DIRECT], strict=True)
        return median(relayed - direct for relayed, direct in pairs)


def sample(rounds: int) -> Samples:
    """Every measure ``rounds`` times in turn.

    A latency is the mean of ``CONNECTS`` connections: each says its name in a TLS hello and gets a byte.
    """
    hello = _hello()
    throughput: dict[str, list[float]] = {DIRECT: [], RELAYED: [], SPLICED: []}
    latency: dict[str, list[float]] = {FIRST_DIRECT: [], FIRST_RELAYED: []}
    with (
        _process(_serve) as server,
        _process(lambda listener: _relay(listener, server, RAW_PORT)) as raw,
        _process(lambda listener: _relay(listener, server, 443)) as named,
        _process(lambda listener: _splice(listener, server)) as spliced,
    ):
        for _ in range(rounds):
            for name, address in ((DIRECT, server), (RELAYED, raw), (SPLICED, spliced)):
                throughput[name].append(SIZE / _transfer(address))
            for name, address in ((FIRST_DIRECT, server), (FIRST_RELAYED, named)):
                latency[name].append(_first_byte(address, hello))
    return Samples(throughput, latency)


def _hello() -> bytes:
    import ssl

    out = ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=NAME)
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return out.read()


@contextlib.contextmanager
def _process(act: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """A child that serves a listening socket by ``act`` until it is ended; the socket's address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    pid = os.fork()
    if pid == 0:
        try:
            act(listener)
        finally:
            os._exit(1)
    address = listener.getsockname()
    listener.close()
    try:
        yield address
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _serve(listener: socket.socket) -> None:
    block = bytes(1 << 18)
    while True:
        client, _ = listener.accept()
        with client, contextlib.suppress(ConnectionError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if client.recv(4096)[:1] == _ECHO:
                client.sendall(b"x")
                continue
            left = SIZE
            while left:
                left -= client.send(block[:left])


def _relay(listener: socket.socket, server: tuple[str, int], port: int) -> None:
    matcher = Matcher([parse(f"{ADDRESS}:{RAW_PORT}"), parse(NAME)])
    loop = Loop(lambda where, error: print(where, error, file=sys.stderr))
    relay_net.Relay(
        loop,
        Log(),
        [listener],
        lambda address, port, said: matcher.destination(address, port, (NAME,), said),
        deny=lambda refusal, _pid, _command, _count: print(refusal, file=sys.stderr),
        dial=lambda _address, _port: relay_net.dial(*server),
        original=lambda _client: (ADDRESS, port),
    )
    loop.run()


def _splice(listener: socket.socket, server: tuple[str, int]) -> None:
    """One connection at a time; the request in one piece, then the answer until its end."""
    source, sink = os.pipe()
    size = 1 << 20
    while True:
        client, _ = listener.accept()
        with client, socket.create_connection(server) as upstream:
            upstream.sendall(client.recv(4096))
            upstream.setblocking(False)
            client.setblocking(False)
            while True:
                select.select([upstream], [], [])
                held = os.splice(upstream.fileno(), sink, size, flags=os.SPLICE_F_NONBLOCK)
                if not held:
                    break
                while held:
                    try:
                        held -= os.splice(source, client.fileno(), held, flags=os.SPLICE_F_NONBLOCK)
                    except BlockingIOError:
                        select.select([], [client], [])


def _transfer(address: tuple[str, int]) -> float:
    into = bytearray(1 << 18)
    begin = time.perf_counter()
    with socket.create_connection(address) as client:
        client.sendall(_WHOLE)
        got = 0
        while count := client.recv_into(into):
            got += count
    spent = time.perf_counter() - begin
    if got != SIZE:
        raise SystemExit(f"{got} of {SIZE} bytes arrived")
    return spent


def _first_byte(address: tuple[str, int], hello: bytes) -> float:
    begin = time.perf_counter()
    for _ in range(CONNECTS):
        with socket.create_connection(address) as client:
            client.sendall(hello)
            if client.recv(1) != b"x":
                raise SystemExit("a connection was not answered")
    return (time.perf_counter() - begin) / CONNECTS


def main() -> int:
    samples = sample(15)
    for name, values in samples.throughput.items():
        print(
            f"{name:30} {median(values) / 1e6:8.0f} MB/s, {min(values) / 1e6:.0f} to {max(values) / 1e6:.0f}"
        )
    for name, values in samples.latency.items():
        print(f"{name:30} {median(values) * 1e3:8.3f} ms, {min(values) * 1e3:.3f} to {max(values) * 1e3:.3f}")
    print(
        f"{samples.ratio():.2f} of direct throughput, {samples.added() * 1e3:.3f} ms added to the first byte"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
