"""Connections that processes of a box make to the proxy: taken on loopback inside, carried by the channel."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Callable

from backends.microvm import frames
from backends.microvm.frames import Credit, Frame

_BACKLOG = 64
MAX_CONNECTIONS = 128


class Connection:
    """One connection to the proxy that a process of the box made."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.out = Credit()  # to the host
        self.into = Credit()
        self.accepted = False  # by the host
        self.waiting: deque[bytes] = deque()
        self.ended = False  # the host sends no more
        self.done = False  # the box sends no more


class Connections:
    """``tell`` sends a frame: kind, channel, data, stream."""

    def __init__(self, port: int, tell: Callable[[int, int, bytes, int], None]) -> None:
        self._tell = tell
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(_BACKLOG)
        self._numbered = frames.CONNECTIONS
        self.all: dict[int, Connection] = {}

    def watched(self, room: bool) -> dict[int, int]:
        """What to poll; ``room``: the channel takes more."""
        wanted = {}
        if room and len(self.all) < MAX_CONNECTIONS:
            wanted[self._listener.fileno()] = select.POLLIN
        for link in self.all.values():
            events = select.POLLOUT if link.waiting else 0
            if room and link.accepted and not link.done and link.out.left > 0:
                events |= select.POLLIN
            if events:
                wanted[link.sock.fileno()] = events
        return wanted

    def ready(self, fd: int, events: int) -> None:
        if fd == self._listener.fileno():
            self._accept()
            return
        for number, link in list(self.all.items()):
            if fd == link.sock.fileno():
                self._on_connection(number, link, events)
                return

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        self._numbered = frames.CONNECTIONS | (self._numbered + 1) & (frames.CONNECTIONS - 1)
        self.all[self._numbered] = Connection(sock)
        self._tell(frames.OPEN, self._numbered, b"", 0)

    def _on_connection(self, number: int, link: Connection, events: int) -> None:
        if events & select.POLLOUT:
            self._feed(number, link)
        if number not in self.all or link.done or link.out.left <= 0:
            return
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            try:
                data = link.sock.recv(min(frames.MOST, link.out.left))
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if data:
                link.out.spend(len(data))
                self._tell(frames.DATA, number, data, 0)
            else:
                link.done = True
                self._tell(frames.END, number, b"", 0)
                self._part(number, link)

    def take(self, frame: Frame) -> None:
        """A frame of the host's for one of them."""
        number, link = frame.channel, self.all[frame.channel]
        if frame.kind == frames.DATA:
            link.waiting.append(frame.data)
            self._feed(number, link)
        elif frame.kind == frames.END:
            link.ended = True
            self._feed(number, link)
        elif frame.kind == frames.CREDIT:
            if link.accepted:
                link.out.give(frame.data)
            link.accepted = True
        elif frame.kind == frames.KILL:
            self._drop(number, link)

    def _feed(self, number: int, link: Connection) -> None:
        while link.waiting:
            data = link.waiting[0]
            try:
                sent = link.sock.send(data, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                self._tell(frames.KILL, number, b"", 0)
                self._drop(number, link)
                return
            if sent == len(data):
                link.waiting.popleft()
            else:
                link.waiting[0] = data[sent:]
            back = link.into.took(sent)
            if back:
                self._tell(frames.CREDIT, number, frames.COUNT.pack(back), 1)
        if link.ended:
            self._part(number, link)

    def _part(self, number: int, link: Connection) -> None:
        """One side has ended; with both, the connection."""
        if link.ended and not link.waiting:
            if link.done or not link.accepted:
                self._drop(number, link)
                return
            try:
                link.sock.shutdown(socket.SHUT_WR)
            except OSError:
                self._drop(number, link)

    def _drop(self, number: int, link: Connection) -> None:
        del self.all[number]
        link.sock.close()
