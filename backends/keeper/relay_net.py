"""The relay: a box's connections to allowed destinations end here, and the keeper dials each of them again.

The packet filter of the box's network namespace redirects what it lets through to the relay's listeners. The
relay asks the kernel where the box wanted to go (SO_ORIGINAL_DST), has that decided once more, and dials that
very address: a name is never resolved here. A rule that is not ``raw:`` also asks for a name: the TLS server
name or the HTTP ``Host`` must be one that led to the address (``relay_connection``), and nothing is sent to a
destination before it was said. When the address does not answer, another one that is pinned for that name is
dialled.

The box sees its connect(2) succeed in any case; a refusal or a failure to dial reaches it as a reset.

What this cannot see: a front at the destination may serve another name than the one said outside of the
encryption (domain fronting, encrypted client hello).
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from backends.keeper.denials import Refusal
from backends.keeper.log import Log
from backends.keeper.loop import READ, Loop
from backends.keeper.relay_connection import Connection, Traffic, reset
from backends.keeper.relay_flow import Scratch

if TYPE_CHECKING:
    from backends.egress.matcher import Verdict

LANE = "keeper"
BY_RELAY = "relay"
MAX_CONNECTIONS = 1024  # of one box at a time
RESERVE = 256  # descriptors that the rest of the keeper is left with
MAX_ROWS = 1000  # destinations whose bytes are told apart
_BATCH = 64  # connections accepted in one turn of the loop
_SWEEP = 1.0  # seconds between two looks at who waits too long
_STARVED = 0.2  # seconds without accepting after descriptors ran out

SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h; IP6T_SO_ORIGINAL_DST is the same number
_SOCKADDR_IN = struct.Struct("!2xH4s8x")
_SOCKADDR_IN6 = struct.Struct("!2xH4x16s4x")

Decide = Callable[[str, int, "str | None"], "Verdict"]
Deny = Callable[[Refusal, int, str, int], None]


class Row(NamedTuple):
    """What went to one destination. ``name``: what the connections said, "" where none had to be said.

    A row whose address is "" counts the destinations that found no row of their own.
    """

    address: str
    port: int
    name: str
    connections: int  # dialled with success
    failed: int  # that the destination did not take
    refused: int  # for a name that did not lead there, or none; in the row without a name
    sent: int  # bytes from the box
    received: int  # bytes to the box


class Counts(NamedTuple):
    """What became of the connections so far."""

    accepted: int
    refused: int
    failed: int
    open: int


def original(client: socket.socket) -> tuple[str, int]:
    """Where the box meant to connect to, as numeric address and port. OSError when nothing was redirected.

    Source: netfilter's ``getsockopt`` of ``nf_conntrack`` (SO_ORIGINAL_DST, IP6T_SO_ORIGINAL_DST).
    """
    if client.family == socket.AF_INET6 and not client.getpeername()[0].startswith("::ffff:"):
        port, raw = _SOCKADDR_IN6.unpack(client.getsockopt(socket.IPPROTO_IPV6, SO_ORIGINAL_DST, 28))
        return socket.inet_ntop(socket.AF_INET6, raw), port
    port, raw = _SOCKADDR_IN.unpack(client.getsockopt(socket.IPPROTO_IP, SO_ORIGINAL_DST, 16))
    return socket.inet_ntop(socket.AF_INET, raw), port


def dial(address: str, port: int) -> socket.socket:
    """A socket that connects to a numeric address, without waiting for it. OSError when it cannot begin."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    upstream = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        upstream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        code = upstream.connect_ex((address, port))
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
    except BaseException:
        upstream.close()
        raise
    return upstream


def nobody(_address: str, _port: int) -> tuple[int, str]:
    """The caller of a destination where nobody remembers callers."""
    return 0, ""


def no_other(_name: str, _address: str, _port: int) -> tuple[str, ...]:
    """The other addresses of a name where nobody knows any."""
    return ()


class Relay:
    """Serves ``listeners``, TCP sockets that listen in the box, from the keeper's loop until ``close``.

    ``decide(address, port, said)``: ``Matcher.destination`` with the names that pinned the address, ``said``
    being None until the connection said one. ``deny`` counts refusals (``Denials.add``), with the pid and
    command that ``caller(address, port)`` remembers. ``ways(name, address, port)``: where else the name that
    a connection said leads, for when the address cannot be had. The listeners are closed with the relay.
    """

    lane = LANE  # of what is refused here
    by = BY_RELAY

    def __init__(
        self,
        loop: Loop,
        log: Log,
        listeners: Iterable[socket.socket],
        decide: Decide,
        *,
        deny: Deny,
        caller: Callable[[str, int], tuple[int, str]] = nobody,
        ways: Callable[[str, str, int], tuple[str, ...]] = no_other,
        dial: Callable[[str, int], socket.socket] = dial,
        original: Callable[[socket.socket], tuple[str, int]] = original,
        cap: int = MAX_CONNECTIONS,
    ) -> None:
        self.loop = loop
        self.log = log
        self.decide = decide
        self.dial = dial
        self.scratch = Scratch()
        self._deny = deny
        self._caller = caller
        self.ways = ways
        self._original = original
        self._last_fd = max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - RESERVE, 0)
        self._cap = min(cap, self._last_fd // 2)
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._live: dict[Connection, None] = {}
        self._waiting: dict[Connection, float] = {}  # when patience ends, in order of beginning
        self._rows: dict[tuple[str, int, str], Traffic] = {}
        self._accepted = self._refused = self._failed = 0
        self._sweeping = False
        self._closed = False
        self._listeners = list(listeners)
        for listener in self._listeners:
            listener.setblocking(False)
            self._listen(listener)

    # ------------------------------------------------------------ accepting

    def _listen(self, listener: socket.socket) -> None:
        if not self._closed:
            # What one connection raised, the loop reported; the listener goes on.
            self.loop.add(
                listener.fileno(), READ, lambda _events: self._accept(listener), lambda _error: None
            )

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                client, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.ECONNABORTED:
                    continue
                self._starve(listener, error)
                return
            self._accepted += 1
            self._begin(client)

    def _starve(self, listener: socket.socket, error: OSError) -> None:
        """No descriptor or no memory is left: refuse one with the spare descriptor, and rest."""
        self.log.note(f"relay: a connection could not be accepted: {error.strerror}", "relay starved")
        os.close(self._spare)
        try:
            reset(listener.accept()[0])
            self._accepted += 1
            self._limit("descriptors", "descriptors are left for the journal")
        except OSError as again:
            self.log.note(f"relay: nor could it be refused: {again.strerror}", "relay starved twice")
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.loop.remove(listener.fileno())
        self.loop.later(_STARVED, lambda: self._listen(listener))

    def _limit(self, what: str, rule: str) -> None:
        self._refused += 1
        self.log.note(f"{self.by}: connections are refused: {rule}", f"{self.by} {what}")
        self._deny(Refusal("limit", what, rule, self.lane, self.by), 0, "", 1)

    def _begin(self, client: socket.socket) -> None:
        if len(self._live) >= self._cap:
            reset(client)
            self._limit("connections", f"at most {self._cap} connections at a time")
            return
        if client.fileno() >= self._last_fd:
            # Numbers are given out lowest first: this one says that the table is nearly full.
            reset(client)
            self._limit("descriptors", f"{RESERVE} descriptors are left for the journal")
            return
        client.setblocking(False)
        self._take(client)

    def _take(self, client: socket.socket) -> None:
        """Begin with a connection for which there is room."""
        own = _own(client)
        try:
            address, port = self._original(client)
        except OSError:
            address, port = own
        connection = Connection(self, client, address, port)
        self._live[connection] = None
        try:
            if (address, port) == own:
                self.refuse(connection, "", "the relay is reached by redirection only")
            else:
                connection.begin()
        except BaseException:
            connection.end(broken=True)
            raise

    # ------------------------------------------------------------ what connections ask of us

    def wait(self, connection: Connection, patience: float) -> None:
        """End ``connection`` with ``late`` unless it is ``settled`` within ``patience`` seconds."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = time.monotonic() + patience
        self._sweep_later()

    def settled(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def is_waiting(self, connection: Connection) -> bool:
        return connection in self._waiting

    def refuse(self, connection: Connection, shown: str, rule: str, *, known: bool = False) -> None:
        """Reset ``connection`` and count that. ``known``: its destination is on the list."""
        address, port = connection.address, connection.port
        self._refused += 1
        if known:
            self.traffic(address, port, "").refused += 1
        pid, command = self._caller(address, port)
        self._deny(Refusal("net", place(address, port) + shown, rule, self.lane, self.by), pid, command, 1)
        connection.end(broken=True)

    def fail(self, connection: Connection, why: str, *, last: bool = True) -> None:
        """Count that a destination could not be had, and reset ``connection`` if it was the ``last`` one."""
        self._failed += 1
        self.traffic(connection.address, connection.port, connection.name).failed += 1
        where = place(connection.address, connection.port)
        self.log.note(f"relay: {where} could not be reached: {why}", f"relay dial {why}")
        if last:
            connection.end(broken=True)

    def traffic(self, address: str, port: int, name: str) -> Traffic:
        """Where the bytes of a destination are counted."""
        key = (address, port, name)
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= MAX_ROWS:
                key = ("", 0, "")
            row = self._rows.setdefault(key, Traffic())
        return row

    def gone(self, connection: Connection) -> None:
        """``connection`` closed its descriptors."""
        self._live.pop(connection, None)
        self._waiting.pop(connection, None)

    # ------------------------------------------------------------ patience

    def _sweep_later(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self.loop.later(_SWEEP, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = False
        now = time.monotonic()
        for connection in [one for one, until in self._waiting.items() if until <= now]:
            del self._waiting[connection]
            connection.late()
        if self._waiting and not self._closed:
            self._sweep_later()

    # ------------------------------------------------------------ what others ask

    def rows(self) -> tuple[Row, ...]:
        """What went to each destination so far, live connections included."""
        return tuple(
            Row(address, port, name, row.connections, row.failed, row.refused, row.sent, row.received)
            for (address, port, name), row in self._rows.items()
        )

    def counts(self) -> Counts:
        return Counts(self._accepted, self._refused, self._failed, len(self._live))

    def close(self) -> None:
        """End every connection and stop listening."""
        if self._closed:
            return
        self._closed = True
        for listener in self._listeners:
            self.loop.remove(listener.fileno())
            listener.close()
        for connection in list(self._live):
            connection.end(broken=True)
        os.close(self._spare)


def place(address: str, port: int) -> str:
    """An address and port as they are written."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _own(client: socket.socket) -> tuple[str, int]:
    """The address by which an accepted connection came in, an IPv4-mapped one as IPv4."""
    address, port = client.getsockname()[:2]
    return address.removeprefix("::ffff:") if "." in address else address, port
