"""DNS over UDP for the programs of a box: a slice of time a turn, replies from the address that was asked.

The sockets listen at every loopback address, because some libraries ask 127.0.0.53 or ::1 whatever is
configured; a client that connected its socket takes replies from that address alone (ip(7), IP_PKTINFO). What
found no room in the socket during a flood is told by the kernel and counted as lost.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable

from backends.keeper.dns_messages import MAX_QUERY
from backends.keeper.log import Log
from backends.keeper.loop import READ, Loop

SLICE = 0.005  # seconds of one turn; others wait no longer for a flood
IP_PKTINFO = 8  # ip(7); in Python's socket module from 3.14 on
SO_RXQ_OVFL = 40  # socket(7): each datagram tells how many before it found no room
_PKTINFO4 = struct.Struct("=I4s4s")  # struct in_pktinfo: interface, source to use, destination asked
_PKTINFO6 = struct.Struct("=16sI")  # struct in6_pktinfo: address, interface
_COUNT = struct.Struct("=I")
_ROOM = socket.CMSG_SPACE(_PKTINFO6.size) + socket.CMSG_SPACE(_COUNT.size)
# A reply that cannot leave is as good as lost on the way; clients ask again.
_UNSENT = (errno.EAGAIN, errno.ENOBUFS, errno.EPERM, errno.ENETUNREACH, errno.EINVAL, errno.EMSGSIZE)

Answer = Callable[[bytes | None], None]
Ancillary = list[tuple[int, int, bytes]]


class Port:
    """Serves one datagram socket until ``close``, which closes it.

    ``serve(message, answer)`` is called for each datagram, ``answer`` at most once, then or later;
    ``lost(n)`` for datagrams that nobody saw.
    """

    def __init__(
        self,
        loop: Loop,
        log: Log,
        sock: socket.socket,
        serve: Callable[[bytes, Answer], None],
        lost: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._log = log
        self._socket = sock
        self._serve = serve
        self._lost = lost
        self._dropped = 0
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        loop.add(sock.fileno(), READ, self._ready, self._failed)

    def _failed(self, error: BaseException) -> None:
        self._log.note(f"names over UDP are no longer answered: {error}", "dns udp")
        self.close()

    def _ready(self, _events: int) -> None:
        until = time.monotonic() + SLICE
        while self._socket.fileno() >= 0:
            try:
                data, ancillary, _, sender = self._socket.recvmsg(MAX_QUERY + 1, _ROOM)
            except BlockingIOError:
                return
            except OSError as error:
                self._log.note(f"a DNS query could not be read: {error.strerror}", "dns receive")
                return
            self._serve(data, self._answer(sender, self._told(ancillary)))
            if time.monotonic() > until:
                return

    def _answer(self, to: tuple[str, int], source: Ancillary) -> Answer:
        return lambda reply: self._send(reply, to, source)

    def _told(self, ancillary: Ancillary) -> Ancillary:
        """What makes a reply leave from the address that was asked."""
        source = []
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_RXQ_OVFL:
                count = _COUNT.unpack(data)[0]
                if count != self._dropped:
                    self._lost((count - self._dropped) & 0xFFFFFFFF)
                    self._dropped = count
            elif level == socket.IPPROTO_IP and kind == IP_PKTINFO:
                asked = _PKTINFO4.unpack(data)[2]
                source = [(level, kind, _PKTINFO4.pack(0, asked, b"\0" * 4))]
            elif level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:
                asked = _PKTINFO6.unpack(data)[0]
                source = [(level, kind, _PKTINFO6.pack(asked, 0))]
        return source

    def _send(self, reply: bytes | None, to: tuple[str, int], source: Ancillary) -> None:
        if reply is None or self._socket.fileno() < 0:
            return
        try:
            self._socket.sendmsg([reply], source, 0, to)
        except OSError as error:
            if error.errno not in _UNSENT:
                self._log.note(f"a DNS reply was not sent: {error.strerror}", "dns send")

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove(self._socket.fileno())
            self._socket.close()
