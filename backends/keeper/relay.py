"""Bytes between a box's pipes and its client's, each way with back-pressure and one block in memory.

A pump that waits takes its source out of the loop instead of asking for no events: epoll(7) reports the end
of a pipe even to those who ask for nothing, and the loop would spin.
"""

from __future__ import annotations

import array
import fcntl
import os
import termios
from collections.abc import Callable

from backends.keeper.ends import BLOCK, End, Ended
from backends.keeper.loop import READ, WRITE, Loop


class OutPump:
    """From a box's stdout or stderr to the client, and a copy of it to ``keep``.

    ``broken`` is called when the client's side cannot be written any more, ``changed`` whenever ``ended`` or
    ``busy`` may have changed.
    """

    def __init__(
        self,
        loop: Loop,
        fd: int,
        client: End | None,
        keep: Callable[[bytes], None],
        broken: Callable[[OutPump], None],
        changed: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._client = client
        self._keep = keep
        self._broken = broken
        self._changed = changed
        self._pending = memoryview(b"")
        self._reading = False
        self.total = 0  # bytes read so far
        self.ended = False
        os.set_blocking(fd, False)
        self._resume()

    @property
    def busy(self) -> bool:
        """Whether the client has not yet taken what was read for it."""
        return bool(self._pending)

    def waiting(self) -> int:
        """Bytes that lie in the box's pipe (FIONREAD, pipe(7))."""
        if self.ended:
            return 0
        count = array.array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, count)
        return count[0]

    def _resume(self) -> None:
        if not self._reading and not self.ended:
            self._loop.add(self._fd, READ, self._readable, self._failed)
            self._reading = True

    def _pause(self) -> None:
        if self._reading:
            self._loop.remove(self._fd)
            self._reading = False

    def _readable(self, _events: int) -> None:
        try:
            data = os.read(self._fd, BLOCK)
        except BlockingIOError:
            return
        if not data:
            self._end()
            return
        self.total += len(data)
        self._keep(data)
        if self._client is not None:
            self._pending = memoryview(data)
            self._push()
        self._changed()

    def inject(self, data: bytes) -> None:
        """Say something to the client that the box did not print."""
        if self._client is not None and not self._pending:
            self._pending = memoryview(data)
            self._push()

    def _push(self) -> None:
        while self._pending and self._client is not None:
            try:
                taken = self._client.write(self._pending)
            except BlockingIOError:
                self._pause()
                self._loop.add(self._client.fd, WRITE, self._writable, self._failed)
                return
            except Ended:
                self._pause()
                self._broken(self)
                return
            self._pending = self._pending[taken:]

    def _writable(self, _events: int) -> None:
        if self._client is None:
            return
        self._loop.remove(self._client.fd)
        self._push()
        if not self._pending:
            self._resume()
        self._changed()

    def detach(self) -> None:
        """Let go of the client; what the box prints from now on is only kept."""
        if self._client is not None:
            self._loop.remove(self._client.fd)
            self._client.close()
            self._client = None
        self._pending = memoryview(b"")
        self._resume()

    def close(self) -> None:
        """Let go of both sides: the box's next write to the pipe gets SIGPIPE."""
        self.detach()
        self._end()

    def _end(self) -> None:
        if not self.ended:
            self._pause()
            self.ended = True
            os.close(self._fd)
            self._changed()

    def _failed(self, _error: BaseException) -> None:
        self.close()


class InPump:
    """From the client to a box's stdin, until either side ends."""

    def __init__(self, loop: Loop, client: End, fd: int) -> None:
        self._loop = loop
        self._client = client
        self._fd = fd
        self._pending = memoryview(b"")
        self._watched = -1
        self.ended = False
        os.set_blocking(fd, False)
        self._watch_client()

    def _watch(self, fd: int, mask: int, ready: Callable[[int], None]) -> None:
        if self._watched != fd:
            self._unwatch()
            self._loop.add(fd, mask, ready, self._failed)
            self._watched = fd

    def _unwatch(self) -> None:
        if self._watched >= 0:
            self._loop.remove(self._watched)
            self._watched = -1

    def _watch_client(self) -> None:
        try:
            self._watch(self._client.fd, READ, self._readable)
        except PermissionError:
            # A file cannot be polled and never waits: read it whenever the box's pipe has room.
            self._watch(self._fd, WRITE, self._readable)

    def _readable(self, _events: int) -> None:
        try:
            data = self._client.read()
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self._pending = memoryview(data)
        self._push()

    def _push(self) -> None:
        while self._pending:
            try:
                self._pending = self._pending[os.write(self._fd, self._pending) :]
            except BlockingIOError:
                self._unwatch()
                self._watch(self._fd, WRITE, self._writable)
                return
            except OSError:
                self.close()  # nobody in the box reads it any more
                return

    def _writable(self, _events: int) -> None:
        self._push()
        if not self._pending and not self.ended:
            self._unwatch()
            self._watch_client()

    def close(self) -> None:
        if not self.ended:
            self._unwatch()
            self.ended = True
            self._client.close()
            os.close(self._fd)

    def _failed(self, _error: BaseException) -> None:
        self.close()
