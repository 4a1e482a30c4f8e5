"""A reviewer's desk beside the UI loop: acts in the order of the keys, on one thread at a time.

The screen shows what the desk has kept, never what it was asked to keep, so nothing that was seen is lost by
a crash. Whoever quits in the middle of acts waits for them, and for the record of the sitting in the journal.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from app.engine import DeskLike
from app.workers.calls import begin

Value = TypeVar("Value")
NAME = "what you decided is being kept"


class Sitting:
    """One desk and the acts that wait for it. Made, asked and closed on the loop, which gets the answers."""

    def __init__(self, sit: Callable[[], DeskLike]) -> None:
        """``sit`` opens the desk; it is called on the thread, before the first act. When it raises, each act
        fails with its error."""
        self._sit = sit
        self._desk: DeskLike | None = None
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._works = False
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()

    @property
    def idle(self) -> bool:
        """No act is under way or waits."""
        return not self._works

    def do(
        self,
        act: Callable[[DeskLike], Value],
        then: Callable[[Value], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Runs ``act`` after those asked for before it; its value goes to ``then``, its error to ``failed``,
        unless the sitting was closed meanwhile."""

        def run() -> None:
            try:
                value = act(self._at_desk())
            except Exception as error:  # noqa: BLE001 (handed to the screen, which shows it)
                self._tell(failed, error)
            else:
                self._tell(then, value)

        self._put(run)

    def close(self, failed: Callable[[Exception], None]) -> None:
        """After the acts that wait, the journal is told of the sitting; nothing is told to the screen then,
        but an error of that to ``failed``."""
        if self._closed:
            return
        self._closed = True

        def run() -> None:
            if self._desk is None:
                return
            try:
                self._desk.close()
            except Exception as error:  # noqa: BLE001 (handed to the workbench, which shows it)
                self._post(failed, error)

        self._put(run)

    def _at_desk(self) -> DeskLike:
        if self._desk is None:
            self._desk = self._sit()
        return self._desk

    def _put(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.append(job)
            if self._works:
                return
            self._works = True
        begin(self._work, NAME)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._works = False
                    return
                job = self._waiting.popleft()
            job()

    def _tell(self, told: Callable[[Value], None], value: Value) -> None:
        def tell(value: Value) -> None:
            if not self._closed:
                told(value)

        self._post(tell, value)

    def _post(self, told: Callable[[Value], None], value: Value) -> None:
        try:
            self._loop.call_soon_threadsafe(told, value, context=self._context)
        except RuntimeError:
            # The loop closed while the act was under way: the workbench is gone, nobody waits.
            return
