"""One connection through the relay: it says its name, its destination is dialled, its two directions flow.

For TLS the name is said in the ClientHello, of which there may be two (``relay_tls``). An HTTP/1 connection
says one with each request, and each of them is checked (``relay_http``).
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from typing import TYPE_CHECKING

from backends.egress.clienthello import HANDSHAKE
from backends.egress.sniff import Sniffer
from backends.egress.spoken import LIMIT, Bad, Found
from backends.keeper.loop import GONE, READ, WRITE
from backends.keeper.relay_flow import Flow
from backends.keeper.relay_http import ANSWER, NotPassed, Requests
from backends.keeper.relay_tls import Hellos

if TYPE_CHECKING:
    from backends.keeper.relay_net import Relay

SNIFF_PATIENCE = 10.0  # seconds for a connection to say its name
DIAL_PATIENCE = 10.0  # seconds for a destination to answer
DIAL_EARLY = 2.0  # the same while its name has other addresses
HALF_PATIENCE = 300.0  # seconds without a byte after one side ended its direction
_RESET = struct.pack("ii", 1, 0)  # struct linger: close(2) sends a reset


class Traffic:
    """What went to one destination."""

    __slots__ = ("connections", "failed", "received", "refused", "sent")

    def __init__(self) -> None:
        self.connections = self.failed = self.refused = 0
        self.sent = self.received = 0  # bytes


class Connection:
    """From ``client``, accepted from a box, to ``address`` and ``port``, where it meant to go."""

    __slots__ = (
        "_client",
        "_counted",
        "_dead",
        "_down",
        "_first",
        "_hellos",
        "_relay",
        "_requests",
        "_sniffer",
        "_traffic",
        "_up",
        "_upstream",
        "_ways",
        "address",
        "name",
        "over",
        "port",
    )

    def __init__(self, relay: Relay, client: socket.socket, address: str, port: int) -> None:
        self._relay = relay
        self._client = client
        self._upstream: socket.socket | None = None
        self._sniffer: Sniffer | None = None
        self._requests: Requests | None = None
        self._hellos: Hellos | None = None
        self._first = b""  # what the client said before its destination was there
        self._up: Flow | None = None
        self._down: Flow | None = None
        self._dead: set[socket.socket] = set()  # at their end both ways: they are not watched any more
        self._traffic: Traffic | None = None
        self._counted = (0, 0)
        self._ways: tuple[str, ...] = ()  # other addresses of the name, for when this one cannot be had
        self.address = address
        self.port = port
        self.name = ""  # what the client said, once that was allowed
        self.over = False

    def begin(self) -> None:
        """Decide by the destination alone; then ask for a name, or dial."""
        verdict = self._relay.decide(self.address, self.port, None)
        if not verdict.allowed or verdict.rule is None:
            self._relay.refuse(self, "", verdict.reason)
            return
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._relay.loop.add(self._client.fileno(), 0, self._client_ready, self._failed)
        if verdict.rule.raw:
            self._dial()
            return
        self._sniffer = Sniffer(self.port)
        self._relay.loop.want(self._client.fileno(), READ)
        self._relay.wait(self, SNIFF_PATIENCE)

    # ------------------------------------------------------------ the name

    def _sniff(self, sniffer: Sniffer) -> None:
        try:
            data = self._client.recv(LIMIT - len(self._first))
        except BlockingIOError:
            return
        except OSError:
            self.end(broken=True)
            return
        if not data:
            # It left without a word, or in the middle of one: nothing was refused.
            self.end(broken=bool(self._first))
            return
        self._first += data
        result = sniffer.feed(data)
        try:
            if isinstance(result, Bad):
                raise NotPassed(result.reason)
            if isinstance(result, Found):
                self._sniffer = None
                self._said(result.name)
                self._dial()
        except NotPassed as refused:
            self._not_passed(refused)

    def _said(self, name: str) -> None:
        """Take the name that the first bytes say; raises NotPassed."""
        if self._first[0] == HANDSHAKE:
            self._hellos = Hellos(self._admit)
            self._first = self._hellos.sent(self._first)
        else:
            self._requests = Requests(self._admit)
            self._first = self._requests.feed(self._first)
        self.name = name

    def _admit(self, name: str) -> None:
        verdict = self._relay.decide(self.address, self.port, name)
        if not verdict.allowed:
            raise NotPassed(verdict.reason, name)

    def _not_passed(self, refused: NotPassed) -> None:
        kind = "SNI" if self._hellos is not None else "Host"
        shown = f" ({kind} {refused.name})" if refused.name else " (no name)"
        self._relay.refuse(self, shown, refused.reason, known=True)

    # ------------------------------------------------------------ the destination

    def _dial(self) -> None:
        self._relay.loop.want(self._client.fileno(), 0)
        if self.name:
            self._ways = self._relay.ways(self.name, self.address, self.port)
        self._attempt()

    def _attempt(self) -> None:
        try:
            self._upstream = self._relay.dial(self.address, self.port)
        except OSError as error:
            self._not_had(error.strerror or str(error))
            return
        self._upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._relay.loop.add(self._upstream.fileno(), WRITE, self._upstream_ready, self._failed)
        self._relay.wait(self, DIAL_EARLY if self._ways else DIAL_PATIENCE)

    def _not_had(self, why: str) -> None:
        """Go to the next address of the name: the client, whose connect(2) has succeeded, will not."""
        if self._upstream is not None:
            self._relay.loop.remove(self._upstream.fileno())
            self._upstream.close()
            self._upstream = None
        self._relay.fail(self, why, last=not self._ways)
        if self._ways:
            self.address, *rest = self._ways
            self._ways = tuple(rest)
            self._attempt()

    def _dialled(self, upstream: socket.socket) -> None:
        code = upstream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._not_had(os.strerror(code))
            return
        try:
            upstream.getpeername()
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise
            return  # the event was of another socket that had this number
        self._relay.settled(self)
        self._flow(upstream)

    def _flow(self, upstream: socket.socket) -> None:
        """Both sides are there and all that had to be said was: let bytes go both ways."""
        scratch = self._relay.scratch
        hellos = self._hellos
        check = self._check if self._requests is not None else self._greets if hellos is not None else None
        self._up = Flow(self._client, upstream, scratch, self._first, check)
        self._down = Flow(
            upstream, self._client, scratch, check=self._greeted if hellos is not None else None
        )
        self._first = b""
        if self._requests is not None:
            self._up.paused = self._requests.pauses
        self._traffic = self._relay.traffic(self.address, self.port, self.name)
        self._traffic.connections += 1
        self._move(self._up, self._down)

    # ------------------------------------------------------------ the flows

    def _client_ready(self, events: int) -> None:
        if self._sniffer is not None:
            self._sniff(self._sniffer)
        elif self._up is None or self._down is None:
            if events & GONE and gone(self._client):
                self.end(broken=True)
        else:
            if events & GONE:
                self._lose(self._client, self._down)
                if self._up.paused:
                    self.end(broken=True)  # the answer that would let it go on has nobody to go to
            self._move(*((self._down, self._up) if events & WRITE else (self._up, self._down)))

    def _upstream_ready(self, events: int) -> None:
        if self._up is None or self._down is None:
            assert self._upstream is not None
            self._dialled(self._upstream)
            return
        assert self._upstream is not None
        if events & GONE:
            self._lose(self._upstream, self._up)
        self._move(*((self._up, self._down) if events & WRITE else (self._down, self._up)))

    def _lose(self, side: socket.socket, into: Flow) -> None:
        """A side is at its end both ways, or was reset: what came from it can still be read."""
        if side in self._dead or not gone(side):
            return
        # It would be reported in every turn of the loop. Reading from it never waits any more.
        self._dead.add(side)
        self._relay.loop.remove(side.fileno())
        if not into.ended:
            into.reset = True
            into.stop()

    def _move(self, *flows: Flow) -> None:
        if self.over:
            return
        try:
            for flow in flows:
                if flow is not self._down or not self._waits_for_answer():
                    flow.move()
        except NotPassed as refused:
            self._not_passed(refused)
            return
        self._watch()

    def _check(self, data: bytes) -> bytes:
        assert self._requests is not None and self._up is not None
        passed = self._requests.feed(data)
        self._up.paused = self._requests.pauses
        return passed

    def _greets(self, data: bytes) -> bytes:
        """Check what the client says to a TLS server as long as that may be a hello."""
        assert self._hellos is not None and self._up is not None
        passed = self._hellos.sent(data)
        if self._hellos.done:
            self._up.uncheck()
        return passed

    def _greeted(self, data: bytes) -> bytes:
        """Look at what a TLS server answers: all of it goes on."""
        assert self._hellos is not None and self._up is not None and self._down is not None
        kept = b"" if self._hellos.told else self._hellos.answered(data)
        if self._hellos.told:
            self._down.uncheck()
        if self._hellos.done:
            self._up.uncheck()
        if kept:
            self._up.resume(kept)
            self._up.move()
        return data

    def _waits_for_answer(self) -> bool:
        """Whether the server has still to say if the protocol of the connection changes; raises NotPassed.

        Nothing of its answer may go on before its beginning was looked at.
        """
        requests, up, upstream = self._requests, self._up, self._upstream
        if requests is None or not requests.waiting:
            return False
        assert up is not None and upstream is not None
        try:
            start = upstream.recv(ANSWER, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except ConnectionError:
            start = b""
        up.resume(requests.answered(start))
        up.move()
        return False

    def _watch(self) -> None:
        """Count what moved, and wait for what can move next."""
        up, down, upstream = self._up, self._down, self._upstream
        assert up is not None and down is not None and upstream is not None
        moved = self._count(up, down)
        if up.ended and down.ended:
            self.end(broken=up.reset or down.reset)
            return
        if (up.ended or down.ended) and (moved or not self._relay.is_waiting(self)):
            self._relay.wait(self, HALF_PATIENCE)
        loop, dead = self._relay.loop, self._dead
        if self._client not in dead:
            loop.want(self._client.fileno(), (READ if up.reading else 0) | (WRITE if down.blocked else 0))
        if upstream not in dead:
            loop.want(upstream.fileno(), (READ if down.reading else 0) | (WRITE if up.blocked else 0))

        if (self._client in dead and up.reading) or (upstream in dead and down.reading):
            loop.later(0.0, lambda: self._move(up, down))

    def _count(self, up: Flow, down: Flow) -> bool:
        """Add what moved to its destination's row; whether anything did."""
        assert self._traffic is not None
        before, self._counted = self._counted, (up.moved, down.moved)
        self._traffic.sent += up.moved - before[0]
        self._traffic.received += down.moved - before[1]
        return before != self._counted

    # ------------------------------------------------------------ the end

    def late(self) -> None:
        """Its patience ended."""
        if self._sniffer is not None:
            why = (
                "it said no whole name in time"
                if self._first
                else "it said no name; only a raw: rule asks for none"
            )
            self._relay.refuse(self, " (no name)", why, known=True)
        elif self._up is None:
            self._not_had(f"no answer within {DIAL_EARLY if self._ways else DIAL_PATIENCE:.0f} s")
        else:
            self.end(broken=True)

    def _failed(self, _error: BaseException) -> None:
        self.end(broken=True)  # the loop reported it

    def end(self, *, broken: bool) -> None:
        """Close both sides, as resets when ``broken``."""
        if self.over:
            return
        self.over = True
        if self._up is not None and self._down is not None:
            self._count(self._up, self._down)
            self._up.stop()
            self._down.stop()
        for side in (self._client, self._upstream):
            if side is not None:
                self._relay.loop.remove(side.fileno())
                reset(side) if broken else side.close()
        self._relay.gone(self)


def reset(side: socket.socket) -> None:
    """Close a socket so that the other side sees an error and no end (socket(7), SO_LINGER)."""
    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    side.close()


def gone(side: socket.socket) -> bool:
    """Whether a socket is really at its end: an event may be of one that had its number a moment ago."""
    poll = select.poll()
    poll.register(side.fileno(), 0)
    return bool(poll.poll(0))
