"""What the relay costs: bytes a second and time to the first byte, beside a direct connection.

Three network namespaces stand for what is there in earnest: a destination, a host that reaches it over a pair
of virtual interfaces (veth(4)), and a box whose packet filter leads it to the relay. A direct connection is
one from the host. All of it runs on this machine, and three processes that copy memory share its processors
where a direct connection has two: over a real network the relay costs less than here. ``splice(2)`` is a
relay of the host that does nothing but that, for comparison.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple

from backends.egress import artefact
from backends.egress.matcher import Matcher
from backends.egress.rules import parse
from backends.keeper import relay_net
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.kernel import namespaces
from backends.kernel.nftables import entry, planned
from backends.tiers import netns

SIZE = 512 << 20  # bytes of one transfer
CONNECTS = 20  # connections of one sample of the latency
NAME, ADDRESS, HOST = "example.com", "93.184.215.14", "93.184.215.13"  # in namespaces of this run only
RAW_PORT, TLS_PORT = 7000, 443
DIRECT, RELAYED, SPLICED = "throughput, direct", "throughput, relay", "throughput, splice(2)"
FIRST_DIRECT, FIRST_RELAYED = "connect to first byte, direct", "connect to first byte, relay"
_WHOLE = b"w"  # a request for SIZE bytes; anything else gets one


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
    """Every measure ``rounds`` times in turn. SystemExit where this host gives no user namespaces or veth.

    A latency is the mean of ``CONNECTS`` connections: each says its name in a TLS hello and gets a byte.
    """
    found = artefact.load()
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(writer, json.dumps(_in_namespaces(rounds, found)).encode())
            code = 0
        except Exception as error:  # noqa: BLE001 (told to whoever runs the benchmark, with the exit code)
            print(f"relay: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        data = answers.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit("the relay could not be measured")
    return Samples(*json.loads(data))


def _in_namespaces(rounds: int, found: artefact.Artefact) -> Samples:
    hello = _hello()
    throughput: dict[str, list[float]] = {DIRECT: [], RELAYED: [], SPLICED: []}
    latency: dict[str, list[float]] = {FIRST_DIRECT: [], FIRST_RELAYED: []}
    uid, gid = os.getuid(), os.getgid()
    namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNET)
    namespaces.map_ids(None, ((uid, uid, 1),), ((gid, gid, 1),), setgroups=False)
    namespaces.loopback_up()
    pinned = frozenset(entry(ADDRESS, port) for port in (RAW_PORT, TLS_PORT))
    plan = netns.NetworkPlan(found.batch, found.labels, *planned((), pinned))
    with contextlib.ExitStack() as stack:
        _lead_to(stack.enter_context(_process(_destination)))
        box = stack.enter_context(_process(lambda asked: _box(asked, plan, hello)))
        _, listeners, _, _ = socket.recv_fds(box.socket, 16, 2)
        stack.enter_context(_process(lambda _asked: _relay([socket.socket(fileno=fd) for fd in listeners])))
        spliced = socket.create_server(("127.0.0.1", 0))
        stack.enter_context(_process(lambda _asked: _splice(spliced)))
        for _ in range(rounds):
            throughput[DIRECT].append(SIZE / _transfer((ADDRESS, RAW_PORT)))
            throughput[RELAYED].append(SIZE / box.ask(b"transfer"))
            throughput[SPLICED].append(SIZE / _transfer(spliced.getsockname()))
            latency[FIRST_DIRECT].append(_first_byte((ADDRESS, TLS_PORT), hello))
            latency[FIRST_RELAYED].append(box.ask(b"first byte"))
    return Samples(throughput, latency)


def _hello() -> bytes:
    import ssl

    out = ssl.MemoryBIO()
    session = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=NAME)
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return out.read()


class _Child(NamedTuple):
    pid: int
    socket: socket.socket  # to the child

    def ask(self, what: bytes) -> float:
        """Seconds that ``what`` took in the child."""
        self.socket.send(what)
        answer = self.socket.recv(64)
        if not answer:
            raise OSError(f"{what.decode()} failed in the box")
        return float(answer)


@contextlib.contextmanager
def _process(act: Callable[[socket.socket], None]) -> Iterator[_Child]:
    """A child that does ``act`` with a socket to us, until it is ended."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            act(theirs)
        except Exception as error:  # noqa: BLE001 (the other side sees the end, a person the reason)
            print(f"relay: {act.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(1)
    theirs.close()
    try:
        yield _Child(pid, ours)
    finally:
        ours.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _destination(asked: socket.socket) -> None:
    namespaces.unshare(namespaces.CLONE_NEWNET)
    asked.send(b"there")
    asked.recv(16)
    _up("peer", ADDRESS)
    listeners = [socket.create_server((ADDRESS, port), backlog=128) for port in (RAW_PORT, TLS_PORT)]
    asked.send(b"listening")
    while True:
        for listener in select.select(listeners, [], [])[0]:
            client, _ = listener.accept()
            with client, contextlib.suppress(ConnectionError):
                _answer(client)


def _answer(client: socket.socket) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if client.recv(4096)[:1] != _WHOLE:
        client.sendall(b"x")
        return
    block = bytes(1 << 18)
    left = SIZE
    while left:
        left -= client.send(block[:left])


def _lead_to(destination: _Child) -> None:
    """Connect our namespace with the destination's."""
    from pyroute2 import IPRoute

    destination.socket.recv(16)
    with IPRoute() as route:
        peer = {"ifname": "peer", "net_ns_pid": destination.pid}
        route.link("add", ifname="host", kind="veth", peer=peer)
    _up("host", HOST)
    destination.socket.send(b"go")
    destination.socket.recv(16)


def _up(name: str, address: str) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as route:
        index = route.link_lookup(ifname=name)[0]
        route.addr("add", index=index, address=address, prefixlen=24)
        route.link("set", index=index, state="up")


def _box(asked: socket.socket, plan: netns.NetworkPlan, hello: bytes) -> None:
    namespaces.unshare(namespaces.CLONE_NEWNET)
    namespaces.loopback_up()
    made = netns.build(plan)
    socket.send_fds(asked, [b"listeners"], [one.fileno() for one in made[:2]])
    for one in made[:2]:
        one.close()
    while what := asked.recv(16):
        if what == b"transfer":
            spent = _transfer((ADDRESS, RAW_PORT))
        else:
            spent = _first_byte((ADDRESS, TLS_PORT), hello)
        asked.send(repr(spent).encode())


def _relay(listeners: list[socket.socket]) -> None:
    matcher = Matcher([parse(f"raw:{NAME}:{RAW_PORT}"), parse(NAME)])
    loop = Loop(lambda where, error: print(where, error, file=sys.stderr))
    relay_net.Relay(
        loop,
        Log(),
        listeners,
        lambda address, port, said: matcher.destination(address, port, (NAME,), said),
        deny=lambda refusal, _pid, _command, _count: print(refusal, file=sys.stderr),
    )
    loop.run()


def _splice(listener: socket.socket) -> None:
    """One connection at a time; the request in one piece, then the answer until its end."""
    source, sink = os.pipe()
    size = 1 << 20
    while True:
        client, _ = listener.accept()
        with client, socket.create_connection((ADDRESS, RAW_PORT)) as upstream:
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
