"""Widgets under test on a screen of their own, and what they draw as plain text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePath
from typing import Any, ClassVar

import textual.app
import textual.pilot
from textual._context import active_app
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widget import Widget

from themes.palettes import DARK

STYLES = Path(__file__).resolve().parents[2] / "themes"


SLOW = 2.0
"""Seconds after which the end of the messages is not waited for any more."""


def under_way(app: App[Any]) -> bool:
    """Whether a message waits somewhere, or the screen is about to be laid out or drawn anew."""
    screen = app.screen
    return (
        app._resize_event is not None
        or screen._layout_required
        or bool(screen._dirty_widgets)
        or any(not one._message_queue.empty() for one in (app, *screen.walk_children(with_self=True)))
    )


async def handled(*_seconds: float) -> None:
    """Waits until nothing is under way in the app. Textual waits for an idle process: on a busy machine
    that is too short, as a process that does not get its turn looks idle, and beside threads too long."""
    app, calm, end = active_app.get(), 0, time.monotonic() + SLOW
    while calm < 5 and time.monotonic() < end:
        await asyncio.sleep(0.001 if app._resize_event is not None else 0)
        calm = 0 if under_way(app) else calm + 1
        app.screen._on_timer_update()


for place in (textual.app, textual.pilot):
    vars(place)["wait_for_idle"] = handled


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
