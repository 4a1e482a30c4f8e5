"""Widgets that draw inked lines; the last place at which outside text is looked at before it is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar
from weakref import WeakKeyDictionary

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import App
from textual.dom import DOMNode
from textual.strip import Strip
from textual.widget import Widget

from widgets.ink import INKS, Line, Run, crop_line
from widgets.visible import visible


def drawn(text: str) -> str:
    """``text``, with whatever a terminal would obey made visible: even a run that was taken for our own
    words (a kind in a tampered journal) cannot reach the terminal raw."""
    return text if text.isprintable() else visible(text)


class Palette:
    """The theme's style of every ink, by the rules of one stylesheet."""

    def __init__(self, app: App[object]) -> None:
        self.rules = app.stylesheet.rules_map
        self._sheet = app.stylesheet
        self._styles: dict[str, Style] = {}

    def style(self, names: str) -> Style:
        """Of one or several inks; ``KeyError``: there is none of that name."""
        found = self._styles.get(names)
        if found is None:
            found = Style.null()
            for name in names.split():
                if name not in INKS:
                    raise KeyError(name)
                node = DOMNode(classes=f"ink--{name}")
                self._sheet.apply(node)
                found += node.styles.partial_rich_style
            self._styles[names] = found
        return found


_palettes: WeakKeyDictionary[App[object], Palette] = WeakKeyDictionary()


def palette(app: App[object]) -> Palette:
    """Of the theme that ``app`` has now, the same for every widget: as component classes of each, the inks
    were a good part of what it cost to show a screen or to move the focus."""
    found = _palettes.get(app)
    if found is None or found.rules is not app.stylesheet.rules_map:
        found = _palettes[app] = Palette(app)
    return found


class Inked(Widget):
    """A widget that draws inked lines with the theme's styles (CSS classes ``ink--NAME``)."""

    OWN_INKS: ClassVar[frozenset[str]] = frozenset()
    """Inks that are component classes here: they look otherwise than elsewhere under some themes."""

    _drawn_by: Palette | None = None

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self._drawn_by is not None and self._drawn_by is not palette(self.app):
            self.refresh()

    def ink(self, names: str) -> Style:
        """The theme's style of one or several inks, without the widget's own colours beneath."""
        self._drawn_by = colours = palette(self.app)
        if not self.OWN_INKS:
            return colours.style(names)
        style = Style.null()
        for name in names.split():
            if name in self.OWN_INKS:
                style += self.get_component_rich_style(f"ink--{name}", partial=True)
            else:
                style += colours.style(name)
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
