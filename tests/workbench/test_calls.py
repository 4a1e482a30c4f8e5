"""Engine calls beside the loop: values and errors come back, quitting waits for what changes something."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from app.workers.calls import call, finish, unfinished
from backends.errors import Busy


async def test_a_value_comes_back_from_another_thread() -> None:
    assert await call(threading.get_ident) != threading.get_ident()


async def test_an_error_comes_back_as_itself() -> None:
    def fail() -> None:
        raise Busy("a", "b", "c")

    with pytest.raises(Busy, match="a: b"):
        await call(fail)


async def test_the_loop_goes_on_while_a_call_waits() -> None:
    gate = threading.Event()
    task = asyncio.ensure_future(call(lambda: gate.wait(60)))
    for _ in range(5):
        await asyncio.sleep(0.01)
    assert not task.done()
    gate.set()
    assert await task


async def test_leaving_waits_for_a_whole_call_and_for_no_other() -> None:
    gate, never = threading.Event(), threading.Event()
    whole = asyncio.ensure_future(call(lambda: gate.wait(60), "the box is being made", whole=True))
    other = asyncio.ensure_future(call(lambda: never.wait(60)))
    await asyncio.sleep(0.05)
    assert unfinished() == ["the box is being made"]
    assert finish(0.1) == ["the box is being made"]
    threading.Timer(0.2, gate.set).start()
    start = time.monotonic()
    assert finish(60) == []
    assert time.monotonic() - start < 50
    assert unfinished() == []
    other.cancel()
    await whole
    never.set()
