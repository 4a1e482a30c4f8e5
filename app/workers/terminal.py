"""Between a session's pseudo-terminal and the view that draws it: one reading and one writing thread.

The reader parses in slices and sleeps between them, so that a program that prints without end leaves the
workbench its share of the interpreter; what it cannot keep up with waits in the keeper's bounded ring.
"""

from __future__ import annotations

import queue
import select
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message

from backends.errors import ClocheError
from widgets.terminal_screen import SLICE, Image, TerminalScreen

if TYPE_CHECKING:
    from backends.verbs.values import Terminal

FRAME = 0.04
"""Seconds between two images while a program prints a little."""

FLOODED = 0.2
"""Seconds between two images while it prints without end: nobody reads them, and each costs a drawing."""

REST = 2.0
"""How many times as long as a slice took to parse the parser leaves to others, while there is more."""

TYPED = 256
"""Writes waiting for a session that does not read; more are refused."""


class TerminalChanged(Message):
    """The pump has a newer image, or its session ended."""

    def __init__(self, pump: TerminalPump) -> None:
        super().__init__()
        self.pump = pump

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, TerminalChanged) and message.pump is self.pump


class TerminalPump:
    """Keeps one terminal's screen up to date until it ends or :meth:`close` detaches it."""

    def __init__(
        self, key: str, terminal: Terminal, columns: int, lines: int, post: Callable[[Message], object]
    ) -> None:
        self.key = key
        self.session = terminal.session
        self.ended = False
        self._terminal = terminal
        self._screen = TerminalScreen(columns, lines)
        self._post = post
        self._typed: queue.Queue[bytes | tuple[int, int] | None] = queue.Queue(TYPED)
        self._closed = threading.Event()
        self.broke: Exception | None = None  # what ended the connection, when it did not end by itself
        self._image = self._screen.image()
        self._told = False
        self._lock = threading.Lock()

    def start(self) -> None:
        name = f"terminal {self.key} {self.session}"
        threading.Thread(target=self._read, name=f"{name} reader", daemon=True).start()
        threading.Thread(target=self._write, name=f"{name} writer", daemon=True).start()

    # ------------------------------------------------------------ from the UI loop

    def take(self) -> Image:
        """The newest image; the pump may tell again afterwards."""
        with self._lock:
            self._told = False
            return self._image

    def type(self, data: bytes) -> bool:
        """Sends ``data`` to the session; False when it has not read for so long that no more is kept."""
        try:
            self._typed.put_nowait(data)
        except queue.Full:
            return False
        return True

    def resize(self, columns: int, lines: int) -> None:
        self._screen.resize(columns, lines)
        self._publish()
        try:
            self._typed.put_nowait((lines, columns))
        except queue.Full:
            self._tell()  # the session does not read; it learns its size when the view is opened again

    def close(self) -> None:
        """Detaches; the session goes on."""
        self._closed.set()
        try:
            self._typed.put_nowait(None)
        except queue.Full:
            self._closed.set()

    @property
    def resets(self) -> int:
        return self._screen.resets

    # ------------------------------------------------------------ on threads

    def _read(self) -> None:
        shown = 0.0
        dirty = flood = False
        try:
            while not self._closed.is_set():
                wait = FRAME if dirty else 0.25
                ready, _, _ = select.select([self._terminal.fd], [], [], wait)
                if ready:
                    data = self._terminal.read(65536)
                    if not data:
                        break
                    dirty = True
                    flood = len(data) > SLICE
                    shown = self._parse(data, shown)
                now = time.monotonic()
                if dirty and (not ready or now - shown >= (FLOODED if flood else FRAME)):
                    self._publish()
                    shown, dirty = now, False
        except (OSError, ValueError) as error:
            # The connection broke, or the descriptor was closed under the reader: the session is detached.
            self.broke = error
        finally:
            self.ended = True
            self._publish()
            self._tell(force=True)
            self._terminal.close()
            self.close()

    def _parse(self, data: bytes, shown: float) -> float:
        flood = len(data) > SLICE
        for start in range(0, len(data), SLICE):
            if self._closed.is_set():
                break
            began = time.monotonic()
            replies = self._screen.feed(data[start : start + SLICE])
            if replies:
                self.type(replies)
            now = time.monotonic()
            if now - shown >= (FLOODED if flood else FRAME):
                self._publish()
                shown = now
            if flood:
                time.sleep(REST * (now - began))
        return shown

    def _publish(self) -> None:
        image = self._screen.image()
        with self._lock:
            changed = image != self._image
            self._image = image
        if changed:
            self._tell()

    def _tell(self, force: bool = False) -> None:
        with self._lock:
            told, self._told = self._told, True
        if force or not told:
            self._post(TerminalChanged(self))

    def _write(self) -> None:
        try:
            while not self._closed.is_set():
                item = self._typed.get()
                if item is None:
                    return
                if isinstance(item, bytes):
                    self._terminal.write(item)
                else:
                    self._terminal.resize(*item)
        except (OSError, ClocheError) as error:
            # The session ended or its keeper is gone; the reader notices the same and says so.
            self.broke = error
