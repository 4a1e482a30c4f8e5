"""A session's terminal in the workbench. It draws images and says what was typed; it owns no descriptor.

While it has the focus every key goes to the session, except ``ctrl+]``: it leaves, and the session goes on.
"""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from widgets.inked import Inked, drawn
from widgets.keys import bytes_of, paste_bytes
from widgets.terminal_screen import Image
from widgets.visible import runs

LEAVE = "ctrl+right_square_bracket"
"""The key that leaves the terminal, ctrl+]."""

_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow", "brightblack": "bright_black"}


@lru_cache(maxsize=512)
def _color(name: str) -> Color | None:
    if name == "default":
        return None
    if len(name) == 6 and all(char in "0123456789abcdef" for char in name):
        return Color.from_rgb(int(name[:2], 16), int(name[2:4], 16), int(name[4:], 16))
    name = _NAMES.get(name, name)
    if name.startswith("bright") and not name.startswith("bright_"):
        name = "bright_" + name.removeprefix("bright")
    return Color.parse(name)


@lru_cache(maxsize=2048)
def _style(foreground: str, background: str, letters: str) -> Style:
    return Style(
        color=_color(foreground),
        bgcolor=_color(background),
        bold="b" in letters or None,
        italic="i" in letters or None,
        underline="u" in letters or None,
        reverse="r" in letters or None,
        strike="s" in letters or None,
    )


class TerminalView(Inked, can_focus=True):
    """Draws one :class:`Image`; posts :class:`Typed`, :class:`Sized` and :class:`Left`."""

    ALLOW_SELECT = False

    class Typed(Message):
        """Bytes for the session."""

        def __init__(self, data: bytes) -> None:
            super().__init__()
            self.data = data

    class Sized(Message):
        """The view has another size."""

        def __init__(self, columns: int, lines: int) -> None:
            super().__init__()
            self.columns = columns
            self.lines = lines

    class Left(Message):
        """``ctrl+]``: the person leaves the terminal."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.image: Image | None = None
        self.alive = False
        self.said = "no session"

    def show(self, image: Image, alive: bool = True) -> None:
        """Draws ``image``; a session that is not ``alive`` takes no keys any more."""
        if image != self.image or alive != self.alive:
            self.image = image
            self.alive = alive
            self.refresh()

    def say(self, text: str) -> None:
        """A sentence in place of a screen: no session, or why it ended."""
        self.image = None
        self.alive = False
        self.said = text
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self.image is None:
            return self.strip_of(runs(self.said, "idle") if y == 0 else (), width)
        rows = self.image.rows
        if y >= len(rows):
            return Strip.blank(width, self.rich_style)
        cells = rows[y]
        segments = [
            Segment(drawn(cell.text), _style(cell.foreground, cell.background, cell.style)) for cell in cells
        ]
        strip = Strip(segments).adjust_cell_length(width).apply_style(self.rich_style)
        if self.alive and self.has_focus and self.image.cursor is not None and self.image.cursor[1] == y:
            strip = self._with_cursor(strip, self.image.cursor[0])
        return strip

    def _with_cursor(self, strip: Strip, column: int) -> Strip:
        if column >= strip.cell_length:
            return strip
        before, under, after = strip.crop(0, column), strip.crop(column, column + 1), strip.crop(column + 1)
        lit = Strip(
            [Segment(text or " ", (style or Style()) + Style(reverse=True)) for text, style, _ in under]
        )
        return Strip.join([before, lit, after])

    def on_resize(self, event: events.Resize) -> None:
        if event.size.width and event.size.height:
            self.post_message(self.Sized(event.size.width, event.size.height))

    @property
    def takes_keys(self) -> bool:
        """Every key goes to the session now."""
        return self.alive and self.has_focus

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    async def on_key(self, event: events.Key) -> None:
        if self.image is None or not self.alive:
            return
        event.stop()
        event.prevent_default()
        if event.key == LEAVE:
            self.post_message(self.Left())
            return
        data = bytes_of(event.key, event.character, self.image.application_cursor)
        if data:
            self.post_message(self.Typed(data))

    async def on_paste(self, event: events.Paste) -> None:
        if self.image is not None and self.alive:
            event.stop()
            self.post_message(self.Typed(paste_bytes(event.text, self.image.bracketed_paste)))
