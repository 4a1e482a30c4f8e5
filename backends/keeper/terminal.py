"""One pseudo-terminal of a box and whoever looks at it: replay, live output, typing, window size.

The master side comes from the box's own devpts; no terminal of the host is ever handed in (TIOCSTI).
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from collections.abc import Callable

from backends.keeper.loop import GONE, READ, WRITE, Loop, Timer
from backends.keeper.ring import Ring

SCREEN_BYTES = 256 * 1024  # what a later viewer is shown first
BLOCK = 65536
MAX_PENDING = 256 * 1024  # bytes that a viewer may lag before the box's terminal has to wait for it
MAX_TYPED = 64 * 1024
PATIENCE = 5.0  # seconds that a viewer may make a terminal wait before it is dropped
MAX_VIEWERS = 16


class Viewer:
    """A client's stream socket: output to it, typing from it."""

    def __init__(self, terminal: Terminal, sock: socket.socket, replay: bytes) -> None:
        self._terminal = terminal
        self._loop = terminal.loop
        self._sock = sock
        self._fd = sock.fileno()
        self._pending = bytearray(replay)
        self._patience: Timer | None = None
        self._closing = False
        self.closed = False
        self._loop.add(self._fd, READ, self._ready, self._failed)
        self._flush()

    @property
    def lags(self) -> bool:
        return len(self._pending) > MAX_PENDING

    def show(self, data: bytes) -> None:
        self._pending += data
        self._flush()

    def finish(self) -> None:
        """Close once everything was taken, or patience ends."""
        self._closing = True
        self._flush()

    def _flush(self) -> None:
        if self.closed:
            return
        moved = False
        while self._pending:
            try:
                sent = self._sock.send(
                    memoryview(self._pending)[:BLOCK], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
                )
            except BlockingIOError:
                break
            except OSError:
                self.close()
                return
            moved = True
            del self._pending[:sent]
        if self._closing and not self._pending:
            self.close()
            return
        self._watch_patience(moved)
        self.update()

    def _watch_patience(self, moved: bool) -> None:
        if self._patience is not None and (moved or not self._pending):
            self._patience.cancel()
            self._patience = None
        if self._pending and self._patience is None:
            self._patience = self._loop.later(PATIENCE, self.close)

    def update(self) -> None:
        """Watch for what can be done now: typing only while the terminal takes it."""
        if not self.closed:
            reading = 0 if self._terminal.typing_waits else READ
            self._loop.want(self._fd, reading | (WRITE if self._pending else 0))

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
            self._terminal.settle()
        if self.closed or not events & (READ | GONE):
            return
        if self._terminal.typing_waits and not events & GONE:
            return
        try:
            data = self._sock.recv(BLOCK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._terminal.type(data)
        else:
            self.close()

    def _failed(self, _error: BaseException) -> None:
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._patience is not None:
            self._patience.cancel()
        self._loop.remove(self._fd)
        self._sock.close()
        self._terminal.gone(self)


class Terminal:
    """The master side. ``keep`` gets a copy of all output, ``changed`` is called when ``ended`` may have."""

    def __init__(
        self, loop: Loop, master: int, keep: Callable[[bytes], None], changed: Callable[[], None]
    ) -> None:
        self.loop = loop
        self._master = master
        self._keep = keep
        self._changed = changed
        self._typed = bytearray()
        self._viewers: list[Viewer] = []
        self._watched = 0
        self.screen = Ring(SCREEN_BYTES)
        self.ended = False
        os.set_blocking(master, False)
        self.settle()

    @property
    def typing_waits(self) -> bool:
        return len(self._typed) > MAX_TYPED

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    @property
    def full(self) -> bool:
        return len(self._viewers) >= MAX_VIEWERS

    def attach(self, sock: socket.socket) -> None:
        """Show the last screen on ``sock``, then what comes; it is the terminal's to close from now on."""
        replay = self.screen.tail()
        if self.screen.wrapped:
            # The oldest line is cut somewhere, perhaps within an escape sequence.
            replay = replay[replay.find(b"\n") + 1 :]
        viewer = Viewer(self, sock, replay)
        if viewer.closed:
            return
        self._viewers.append(viewer)
        if self.ended:
            viewer.finish()

    def resize(self, rows: int, cols: int) -> None:
        """Set the window size; the kernel sends SIGWINCH when it changed (tty_ioctl(4))."""
        if not self.ended:
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))

    def type(self, data: bytes) -> None:
        self._typed += data
        self._send_typed()

    def _send_typed(self) -> None:
        while self._typed and not self.ended:
            try:
                del self._typed[: os.write(self._master, memoryview(self._typed)[:4096].tobytes())]
            except BlockingIOError:
                break
            except OSError:
                self._typed.clear()
        self.settle()

    def settle(self) -> None:
        """Watch the master for what can be done now."""
        for viewer in self._viewers:
            viewer.update()
        reading = 0 if any(viewer.lags for viewer in self._viewers) else READ
        mask = 0 if self.ended else reading | (WRITE if self._typed else 0)
        if mask == self._watched:
            return
        # A master without slaves reports EPOLLHUP always: it is taken out rather than asked for nothing.
        if self._watched:
            self.loop.remove(self._master)
        self._watched = mask
        if mask:
            self.loop.add(self._master, mask, self._ready, self._failed)

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._send_typed()
        if self.ended or not events & (READ | GONE) or any(viewer.lags for viewer in self._viewers):
            return
        try:
            data = os.read(self._master, BLOCK)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # EIO: the last slave was closed
        if not data:
            self.close()
            return
        self.screen.add(data)
        self._keep(data)
        for viewer in list(self._viewers):
            viewer.show(data)
        self.settle()
        self._changed()

    def _failed(self, _error: BaseException) -> None:
        self.close()

    def gone(self, viewer: Viewer) -> None:
        if viewer in self._viewers:
            self._viewers.remove(viewer)
        self.settle()

    def close(self) -> None:
        """End the terminal: the kernel hangs up its foreground; viewers get what is left, then the end."""
        if self.ended:
            return
        if self._watched:
            self.loop.remove(self._master)
            self._watched = 0
        self.ended = True
        os.close(self._master)
        for viewer in list(self._viewers):
            viewer.finish()
        self._changed()
