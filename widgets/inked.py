"""Widgets that draw inked lines; the last place at which outside text is looked at before it is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from widgets.ink import INKS, Line, Run, crop_line
from widgets.visible import visible


def drawn(text: str) -> str:
    """``text``, with whatever a terminal would obey made visible: even a run that was taken for our own
    words (a kind in a tampered journal) cannot reach the terminal raw."""
    return text if text.isprintable() else visible(text)


class Inked(Widget):
    """A widget that draws inked lines with the theme's styles (component classes ``ink--NAME``)."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"ink--{name}" for name in INKS}

    def ink(self, names: str) -> Style:
        """The theme's style of one or several inks, without the widget's own colours beneath."""
        style = Style.null()
        for name in names.split():
            style += self.get_component_rich_style(f"ink--{name}", partial=True)
        return style

    def segments(self, parts: Iterable[Run]) -> list[Segment]:
        return [Segment(drawn(run.text), self.ink(run.ink) if run.ink else None) for run in parts]

    def strip_of(self, parts: Line, width: int, under: Style | None = None) -> Strip:
        """``parts`` as one drawn line of exactly ``width`` cells, on the widget's own colours."""
        base = self.rich_style + under if under is not None else self.rich_style
        return Strip(self.segments(parts)).adjust_cell_length(width, None).apply_style(base)

    def rich_line(self, parts: Line) -> Text:
        """``parts`` as a Rich text, for border titles; a ``Text`` is never read as markup."""
        text = Text(end="")
        for run in parts:
            text.append(drawn(run.text), self.ink(run.ink) if run.ink else "")
        return text


class InkLine(Inked):
    """One line of inked text."""

    DEFAULT_CSS = "InkLine { height: 1; }"

    def __init__(self, parts: Line = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._parts = parts

    @property
    def parts(self) -> Line:
        return self._parts

    def show(self, parts: Line) -> None:
        if parts != self._parts:
            self._parts = parts
            self.refresh()

    def render_line(self, y: int) -> Strip:
        if y:
            return Strip.blank(self.size.width, self.rich_style)
        return self.strip_of(crop_line(self._parts, self.size.width), self.size.width)
