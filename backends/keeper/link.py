"""The keeper's side of the socket to init: packets out in order without waiting, packets in to a handler."""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from backends.keeper import init_protocol
from backends.keeper.init_protocol import Message
from backends.keeper.loop import GONE, READ, WRITE, Loop

MAX_QUEUED = 1024
_RETRY = 0.1  # seconds
_BATCH = 64  # packets taken in one turn of the loop


class Full(Exception):
    """Init takes no more requests: it is stopped, or more came than a box can start."""


class Link:
    """``receive(message, fds)`` owns the descriptors that it is given; ``lost`` is called once at the end."""

    def __init__(
        self,
        loop: Loop,
        control: socket.socket,
        receive: Callable[[Message, list[int]], None],
        lost: Callable[[str], None],
        report: Callable[[str, BaseException], None],
    ) -> None:
        self._loop = loop
        self._control = control
        self._fd = control.fileno()
        self._receive = receive
        self._lost = lost
        self._report = report
        self._queue: deque[tuple[Mapping[str, object], list[int]]] = deque()
        self._crowded = False
        self.closed = False
        control.setblocking(False)
        loop.add(self._fd, READ, self._ready, self._failed)

    def send(self, message: Mapping[str, object], fds: Iterable[int] = ()) -> None:
        """Queue one packet; ``fds`` are closed once they were sent, or cannot be any more."""
        passed = list(fds)
        if self.closed or len(self._queue) >= MAX_QUEUED:
            init_protocol.close(passed)
            raise Full("the box's init takes no more requests")
        self._queue.append((message, passed))
        self._flush()
        if self._crowded and self._queue and self._queue[-1][1] is passed:
            self._queue.pop()
            init_protocol.close(passed)
            raise Full("too many descriptors of this user wait in sockets")

    def _flush(self) -> None:
        self._crowded = False
        while self._queue and not self.closed:
            message, fds = self._queue[0]
            try:
                init_protocol.send(self._control, message, fds)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:
                    # Another box may do that to us (unix(7)): it must not cost this one its life.
                    self._crowded = True
                    break
                self._failed(error)
                return
            self._queue.popleft()
            init_protocol.close(fds)
        if not self.closed:
            self._loop.want(self._fd, READ | (WRITE if self._queue and not self._crowded else 0))
            if self._crowded:
                self._loop.later(_RETRY, self._flush)

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if not events & (READ | GONE):
            return
        for _ in range(_BATCH):
            if self.closed:
                return
            try:
                message, fds = init_protocol.recv(self._control)
            except BlockingIOError:
                return
            if message is None:
                self._end("init closed its socket")
                return
            try:
                self._receive(message, fds)
            except Exception as error:  # noqa: BLE001 (a fault of ours must not cost the box its keeper)
                self._report(f"message {message.get('ev')!r} of init", error)

    def _failed(self, error: BaseException) -> None:
        self._end(f"{type(error).__name__}: {error}")

    def _end(self, why: str) -> None:
        if not self.closed:
            self.close()
            self._lost(why)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.remove(self._fd)
            self._control.close()
            for _, fds in self._queue:
                init_protocol.close(fds)
            self._queue.clear()
