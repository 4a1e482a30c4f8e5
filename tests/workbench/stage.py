"""The workbench under test: opened without a terminal, waited for, read as text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot
from textual.worker import Worker

from app.engine import EngineLike
from app.workbench import Workbench
from app.workers.calls import finish
from tests.widgets.drawn import SLOW, screen_text, under_way
from widgets.header import Footer, Header
from widgets.ink import plain


class Play:
    """A pilot with the app it drives."""

    def __init__(self, app: Workbench, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Presses keys; each is handled before the next one, and so is what it asked of a quick engine."""
        for key in keys:
            before = set(self.app.workers)
            await self.pilot.press(key)
            await self.handled(before)

    async def handled(self, before: set[Worker[object]]) -> None:
        """Waits until no message is under way and no engine call that is not in ``before``."""
        end = time.monotonic() + SLOW
        calm = 0
        while calm < 3 and time.monotonic() < end:
            await self.pilot.pause(0)
            if any(worker.is_running for worker in set(self.app.workers) - before):
                calm = 0
                await asyncio.sleep(0.002)
            elif under_way(self.app):
                calm = 0
                await asyncio.sleep(0.001)
            else:
                calm += 1

    async def type(self, text: str) -> None:
        names = {"-": "minus", " ": "space", "/": "slash", ".": "full_stop"}
        await self.press(*(names.get(char, char) for char in text))

    async def until(self, true: Callable[[], object], seconds: float = 60.0) -> None:
        """Waits until ``true()``; fails with what the screen shows."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise AssertionError("it did not come:\n" + self.text())
            await asyncio.sleep(0.01)
            await self.pilot.pause(0)

    async def shows(self, *texts: str, seconds: float = 60.0) -> None:
        for text in texts:
            await self.until(lambda text=text: text in self.text(), seconds)  # type: ignore[misc]

    def text(self) -> str:
        return screen_text(self.app)

    def header(self) -> str:
        return plain(self.app.screen.query_one(Header).parts)

    def footer(self) -> str:
        return self.app.screen.query_one(Footer).render_line(0).text

    async def size(self, columns: int, rows: int) -> None:
        await self.pilot.resize_terminal(columns, rows)
        await self.handled(set(self.app.workers))


@asynccontextmanager
async def play(
    engine: EngineLike | None = None,
    size: tuple[int, int] = (120, 40),
    *,
    cwd: Path | None = None,
    theme: str = "",
) -> AsyncIterator[Play]:
    """Opens the workbench and closes it; a fault of its own fails the test."""
    app = Workbench(engine, cwd=cwd, theme=theme)
    async with app.run_test(size=size, notifications=True) as pilot:
        stage = Play(app, pilot)
        await stage.until(lambda: app.read)
        await stage.handled(set())
        yield stage
    assert finish(30) == []
