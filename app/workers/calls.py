"""Engine calls from the UI loop: each on a daemon thread, its value or its error awaited.

Daemon threads rather than asyncio's executor, because the executor is joined at exit: a keeper that does not
answer would keep the terminal until its time limit. Whatever a call raises comes back to its caller as an
exception, never as a crash of the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


async def call(work: Callable[[], Value], name: str = "engine call") -> Value:
    """Runs ``work`` on a thread of its own and waits for it; cancelling the wait abandons the thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Value] = loop.create_future()

    def settle(value: Value | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value: Value | None = None
        error: BaseException | None = None
        try:
            value = work()
        except BaseException as raised:  # noqa: BLE001 (handed to the caller, who awaits it)
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            # The loop closed while the call was under way: the workbench is gone, nobody waits.
            return

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future
