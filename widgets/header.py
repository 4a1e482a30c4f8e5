"""The first and the last line of every screen: where am I, and what can I do here."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.strip import Strip

from widgets.ink import Line, Run, line, spread, width_of
from widgets.inked import Inked


class Header(Inked):
    """Crumbs on the left, host truth on the right."""

    DEFAULT_CSS = "Header { height: 1; dock: top; }"

    def __init__(self) -> None:
        super().__init__(id="header")
        self._left: Line = ()
        self._right: Line = ()

    def show(self, left: Line, right: Line = ()) -> None:
        if (left, right) != (self._left, self._right):
            self._left, self._right = left, right
            self.refresh()

    @property
    def parts(self) -> Line:
        return (*self._left, *self._right)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        left = line((" ⌂ ", "accent"), *self._left)
        right = line(" ", *self._right, " ") if self._right else ()
        if width_of(left) + width_of(right) + 2 > width and width_of(right) > width // 2:
            right = ()
        return self.strip_of(spread(left, right, width), width)


class FooterItem(NamedTuple):
    """One action in the footer: its id, key as shown, words, and why it cannot be done now ("": it can)."""

    id: str
    key: str
    text: str
    danger: bool
    disabled: str


class Footer(Inked):
    """The actions of this screen, as far as they fit; a click does what the key does."""

    DEFAULT_CSS = "Footer { height: 1; dock: bottom; }"

    class Clicked(Message):
        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self) -> None:
        super().__init__(id="footer")
        self._items: tuple[FooterItem, ...] = ()
        self._tail: tuple[FooterItem, ...] = ()

    def show(self, items: tuple[FooterItem, ...], tail: tuple[FooterItem, ...] = ()) -> None:
        """``items`` from the left as far as they fit; ``tail`` always, at the right."""
        if (items, tail) != (self._items, self._tail):
            self._items, self._tail = items, tail
            self.refresh()

    def layout_items(self, width: int) -> list[tuple[FooterItem, int, int]]:
        """The items that fit into ``width`` cells with their first and last column."""
        placed: list[tuple[FooterItem, int, int]] = []
        tail_width = sum(_cells(item) + 2 for item in self._tail)
        column = 1
        for item in self._items:
            size = _cells(item)
            if column + size + 1 > width - tail_width:
                break
            placed.append((item, column, column + size))
            column += size + 2
        column = width - tail_width + 1
        for item in self._tail:
            size = _cells(item)
            placed.append((item, column, column + size))
            column += size + 2
        return placed

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        parts: list[Run] = []
        column = 0
        for item, first, last in self.layout_items(width):
            parts.append(Run(" " * (first - column)))
            if item.disabled:
                parts += [Run(item.key, "idle"), Run(" " + item.text, "idle")]
            else:
                parts += [Run(item.key, "key look" if item.danger else "key"), Run(" " + item.text, "")]
            column = last
        return self.strip_of(tuple(parts), width)

    def on_click(self, event: events.Click) -> None:
        for item, first, last in self.layout_items(self.size.width):
            if first <= event.x < last:
                self.post_message(self.Clicked(item.id))


def _cells(item: FooterItem) -> int:
    return cell_len(item.key) + 1 + cell_len(item.text)
