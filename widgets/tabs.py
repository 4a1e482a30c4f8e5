"""A bar of tabs chosen by number: what each holds, and a figure that says whether to look."""

from __future__ import annotations

from typing import NamedTuple

from textual import events
from textual.message import Message
from textual.strip import Strip

from widgets.ink import Line, Run, crop_line, width_of
from widgets.inked import Inked


class Tab(NamedTuple):
    id: str
    key: str
    title: str
    figure: Line = ()


class TabBar(Inked):
    """The tabs in a line; the active one is set apart by brackets as well as by its ink."""

    DEFAULT_CSS = "TabBar { height: 1; }"

    class Clicked(Message):
        def __init__(self, tab: str) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._tabs: tuple[Tab, ...] = ()
        self._active = ""

    def show(self, tabs: tuple[Tab, ...], active: str) -> None:
        if (tabs, active) != (self._tabs, self._active):
            self._tabs, self._active = tabs, active
            self.refresh()

    def _pieces(self, short: bool) -> list[tuple[str, Line]]:
        pieces: list[tuple[str, Line]] = []
        for tab in self._tabs:
            here = tab.id == self._active
            title = tab.title if here or not short else ""
            parts: list[Run] = [Run("[" if here else " ", "accent"), Run(tab.key, "key")]
            if title:
                parts.append(Run(f" {title}", "title" if here else "quiet"))
            if tab.figure and (here or not short):
                parts += [Run(" "), *tab.figure]
            parts.append(Run("]" if here else " ", "accent"))
            pieces.append((tab.id, tuple(parts)))
        return pieces

    def _fitting(self) -> list[tuple[str, Line]]:
        pieces = self._pieces(short=False)
        if sum(width_of(parts) for _, parts in pieces) > self.size.width:
            pieces = [
                (
                    name,
                    parts
                    if name == self._active
                    else tuple(run for run in parts if run.ink != "denial strong"),
                )
                for name, parts in pieces
            ]
        if sum(width_of(parts) for _, parts in pieces) > self.size.width:
            pieces = self._pieces(short=True)
        return pieces

    def render_line(self, y: int) -> Strip:
        parts = tuple(run for _, piece in self._fitting() for run in piece)
        return self.strip_of(crop_line(parts, self.size.width), self.size.width)

    def on_click(self, event: events.Click) -> None:
        column = 0
        for name, parts in self._fitting():
            column += width_of(parts)
            if event.x < column:
                self.post_message(self.Clicked(name))
                return
