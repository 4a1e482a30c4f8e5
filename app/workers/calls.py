"""Engine calls from the UI loop: each on a daemon thread, its value or its error awaited.

Daemon threads rather than asyncio's executor, because the executor is joined at exit: a keeper that does not
answer would keep the terminal until its time limit. Whatever a call raises comes back to its caller as an
exception, never as a crash of the loop.

A call that changes something is made ``whole``: quitting in the middle of it waits for its end
(:func:`finish`), after the terminal was given back.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


_whole: dict[threading.Thread, str] = {}


def finish(seconds: float) -> list[str]:
    """Waits for the ``whole`` calls under way; the names of those that did not end in time."""
    end = time.monotonic() + seconds
    for thread in list(_whole):
        thread.join(max(0.0, end - time.monotonic()))
    return [name for thread, name in list(_whole.items()) if thread.is_alive()]


def unfinished() -> list[str]:
    """The names of the ``whole`` calls under way."""
    return list(_whole.values())


def begin(work: Callable[[], None], name: str) -> None:
    """Starts ``work``, which hands its errors on itself, on a daemon thread that :func:`finish` waits for."""

    def run() -> None:
        try:
            work()
        finally:
            _whole.pop(threading.current_thread(), None)

    thread = threading.Thread(target=run, name=name, daemon=True)
    _whole[thread] = name
    thread.start()


async def call(work: Callable[[], Value], name: str = "engine call", *, whole: bool = False) -> Value:
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
        finally:
            _whole.pop(threading.current_thread(), None)
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            # The loop closed while the call was under way: the workbench is gone, nobody waits.
            return

    thread = threading.Thread(target=run, name=name, daemon=True)
    if whole:
        _whole[thread] = name
    thread.start()
    return await future
