"""The emulator of one session: pyte behind bounds, parsed off the UI loop, drawn from frozen images.

Outside bytes can make any parser stumble. A failure here resets this one screen and counts it; it never
reaches the workbench.
"""

from __future__ import annotations

import threading
import unicodedata
from typing import NamedTuple

import pyte
from pyte import modes
from pyte.screens import Char, Margins, wcwidth

from widgets.terminal_bounds import Bounds
from widgets.visible import MARKS_PER_CELL, visible

SLICE = 4096
"""Bytes parsed before the parser lets others run."""

REPLIES = 256
"""Bytes of answers (cursor position, attributes) kept for the program; a flood of questions gets no more."""

BRACKETED_PASTE = 2004 << 5
APPLICATION_CURSOR = 1 << 5
ALTERNATE = (47 << 5, 1047 << 5, 1049 << 5)


class Cell(NamedTuple):
    """Consecutive cells of one style in a row."""

    text: str
    foreground: str
    background: str
    style: str  # letters: b bold, i italic, u underline, r reverse, s strike


class Image(NamedTuple):
    """What the terminal shows at one moment; frozen, so the UI loop draws it while parsing goes on."""

    rows: tuple[tuple[Cell, ...], ...]
    cursor: tuple[int, int] | None  # column, row; None while hidden
    columns: int
    application_cursor: bool
    bracketed_paste: bool
    resets: int


class _Screen(pyte.Screen):
    """pyte's screen with what it leaves unbounded bounded, and without the faults that its input can hit."""

    def __init__(self, columns: int, lines: int) -> None:
        self.replies = ""
        self._last = " "
        self._kept: tuple[dict[int, object], int, int] | None = None
        super().__init__(columns, lines)

    def draw(self, data: str) -> None:
        cell = Char._make
        attributes = self.cursor.attrs[1:]
        if data:
            self._last = data[-1]
        for char in data:
            width = 1 if char.isascii() else wcwidth(char)
            if not char.isprintable() and visible(char) != char:
                continue  # bidi and format characters reorder or hide cells
            if width <= 0:
                if unicodedata.combining(char):
                    self._combine(char)
                continue
            if self.cursor.x + width > self.columns:
                if modes.DECAWM in self.mode:
                    self.dirty.add(self.cursor.y)
                    self.carriage_return()
                    self.linefeed()
                else:
                    self.cursor.x = max(0, self.columns - width)
            if modes.IRM in self.mode:
                self.insert_characters(width)
            row = self.buffer[self.cursor.y]
            row[self.cursor.x] = cell((char, *attributes))
            if width == 2 and self.cursor.x + 1 < self.columns:
                row[self.cursor.x + 1] = cell(("", *attributes))
            self.cursor.x = min(self.cursor.x + width, self.columns)
        self.dirty.add(self.cursor.y)

    def _combine(self, char: str) -> None:
        if not self.cursor.x:
            return
        row = self.buffer[self.cursor.y]
        last = row[self.cursor.x - 1]
        if last.data and len(last.data) <= MARKS_PER_CELL:
            row[self.cursor.x - 1] = last._replace(data=last.data + char)

    def repeat_last(self, count: int = 1) -> None:
        """REP of ECMA-48: ncurses draws long runs with it."""
        self.draw(self._last * min(count or 1, self.columns * self.lines))

    def scroll_up(self, count: int = 1) -> None:
        """SU of ECMA-48: the lines within the margins move up."""
        row, column = self.cursor.y, self.cursor.x
        self.cursor.y = self.margins.bottom if self.margins else self.lines - 1
        for _ in range(min(count or 1, self.lines)):
            self.index()
        self.cursor.y, self.cursor.x = row, column

    def scroll_down(self, count: int = 1) -> None:
        """SD of ECMA-48: the lines within the margins move down."""
        row, column = self.cursor.y, self.cursor.x
        self.cursor.y = self.margins.top if self.margins else 0
        for _ in range(min(count or 1, self.lines)):
            self.reverse_index()
        self.cursor.y, self.cursor.x = row, column

    def save_cursor(self) -> None:
        super().save_cursor()
        del self.savepoints[:-1]  # a terminal keeps one

    def set_mode(self, *given: int, **kwargs: object) -> None:
        if kwargs.get("private") and any(mode << 5 in ALTERNATE for mode in given) and self._kept is None:
            self._kept = ({y: dict(line) for y, line in self.buffer.items()}, self.cursor.x, self.cursor.y)
            self.buffer.clear()
            self.cursor_position()
        super().set_mode(*given, **kwargs)

    def reset_mode(self, *given: int, **kwargs: object) -> None:
        if kwargs.get("private") and any(mode << 5 in ALTERNATE for mode in given) and self._kept is not None:
            kept, column, row = self._kept
            self._kept = None
            self.buffer.clear()
            for y, cells in kept.items():
                if y < self.lines:
                    self.buffer[y].update({x: c for x, c in cells.items() if x < self.columns})  # type: ignore[attr-defined]
            self.margins = None
            self.cursor_position(row + 1, column + 1)
        super().reset_mode(*given, **kwargs)

    def cursor_to_line(self, line: int | None = None) -> None:
        if self.margins is None:  # pyte asserts margins in origin mode
            self.mode.discard(modes.DECOM)
        super().cursor_to_line(line)

    def report_device_status(self, mode: int = 0) -> None:
        if self.margins is None:
            self.mode.discard(modes.DECOM)
        super().report_device_status(mode)

    def write_process_input(self, data: str) -> None:
        if len(self.replies) + len(data) <= REPLIES:
            self.replies += data

    def index(self) -> None:
        top, bottom = self.margins or Margins(0, self.lines - 1)
        if self.cursor.y == bottom:
            self.dirty.update(range(top, bottom + 1))
            for y in range(top, bottom):
                self.buffer[y] = self.buffer[y + 1]
            self.buffer.pop(bottom, None)
        else:
            self.cursor_down()


class _Stream(pyte.Stream):
    """pyte's parser with the sequences that it leaves out and ncurses uses."""

    csi = {**pyte.Stream.csi, "S": "scroll_up", "T": "scroll_down", "b": "repeat_last"}  # noqa: RUF012


class TerminalScreen:
    """One session's screen. Every method may be called from any thread; none of them touches a widget."""

    def __init__(self, columns: int, lines: int) -> None:
        self._lock = threading.Lock()
        self._size = (max(2, columns), max(1, lines))
        self.resets = 0
        self._start()

    def _start(self) -> None:
        self._bounds = Bounds()
        self._screen = _Screen(*self._size)
        self._stream = _Stream(self._screen)

    def feed(self, data: bytes) -> bytes:
        """Parses one slice of output; answers that the program asked the terminal for are returned."""
        with self._lock:
            try:
                self._stream.feed(self._bounds.pass_on(data))
            except Exception:  # noqa: BLE001 (hostile input: whatever it broke, only this screen starts anew)
                self.resets += 1
                self._start()
                return b""
            replies, self._screen.replies = self._screen.replies, ""
            return replies.encode("ascii", "ignore")

    def resize(self, columns: int, lines: int) -> None:
        with self._lock:
            self._size = (max(2, columns), max(1, lines))
            self._screen.resize(lines=self._size[1], columns=self._size[0])
            self._screen.cursor.x = min(self._screen.cursor.x, self._size[0])
            self._screen.cursor.y = min(self._screen.cursor.y, self._size[1] - 1)

    def image(self) -> Image:
        """The screen as it is now."""
        with self._lock:
            screen = self._screen
            rows = tuple(_row(screen, y) for y in range(screen.lines))
            at = (min(screen.cursor.x, screen.columns - 1), screen.cursor.y)
            return Image(
                rows,
                None if screen.cursor.hidden else at,
                screen.columns,
                APPLICATION_CURSOR in screen.mode,
                BRACKETED_PASTE in screen.mode,
                self.resets,
            )


def _row(screen: _Screen, y: int) -> tuple[Cell, ...]:
    if y not in screen.buffer:
        return ()
    line = screen.buffer[y]
    cells: list[Cell] = []
    text: list[str] = []
    before: tuple[str, str, str] | None = None
    for x in range(max(line, default=-1) + 1):
        if x >= screen.columns:
            break
        char = line[x]
        style = (char.fg, char.bg, _letters(char))
        if style != before:
            if text and before is not None:
                cells.append(Cell("".join(text), *before))
            text, before = [], style
        text.append(char.data)
    if text and before is not None:
        cells.append(Cell("".join(text), *before))
    return tuple(cells)


def _letters(char: Char) -> str:
    if not (char.bold or char.italics or char.underscore or char.reverse or char.strikethrough):
        return ""
    return (
        ("b" if char.bold else "")
        + ("i" if char.italics else "")
        + ("u" if char.underscore else "")
        + ("r" if char.reverse else "")
        + ("s" if char.strikethrough else "")
    )
