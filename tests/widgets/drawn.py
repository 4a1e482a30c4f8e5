"""Widgets under test on a screen of their own, and what they draw as plain text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePath
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widget import Widget

from themes.palettes import DARK

STYLES = Path(__file__).resolve().parents[2] / "themes"


class Bench(App[None]):
    """One widget with the themes of the workbench."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [STYLES / "inks.tcss", STYLES / "screens.tcss"]

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name
        self.widget = widget
        self.seen: list[Any] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return dict(DARK.variables)

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        self.widget.focus()


@asynccontextmanager
async def bench(widget: Widget, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Pilot[None]]:
    app = Bench(widget)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


def text_of(widget: Widget) -> list[str]:
    """The widget's content, line by line, trailing blanks cut."""
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


def screen_text(app: App[Any]) -> str:
    """Everything that the screen shows, as the terminal would receive it without styles."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    assert len(lines) <= height
    return "\n".join(strip.text[:width].rstrip() for strip in lines)
