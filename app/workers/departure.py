"""How the workbench goes: by its own key, by a signal, or because its terminal is gone.

In each case boxes go on, and a change that was begun is finished: a box half made helps nobody. A terminal
that is gone, or that takes nothing any more, must not hold the process: its writes block forever.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from app.workers.calls import finish, unfinished

PATIENCE = 30.0
"""Seconds that leaving waits for what was begun."""

RESTORING = 5.0
"""Seconds that the application may take to give the terminal back after SIGTERM."""

_gone = threading.Event()


def on_signals(leave: Callable[[int], None]) -> None:
    """SIGTERM asks the application to leave; SIGHUP (the connection dropped) ends the process beside it."""

    def terminated(number: int, frame: FrameType | None) -> None:
        leave(128 + number)
        _beside(RESTORING, 128 + number)

    def hung_up(number: int, frame: FrameType | None) -> None:
        _beside(0.0, 128 + number)

    _gone.clear()
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGHUP, hung_up)


def _beside(seconds: float, code: int) -> None:
    """Ends the process from a thread, unless it went by itself within ``seconds``."""

    def end() -> None:
        if not _gone.wait(seconds):
            finish(PATIENCE)
            os._exit(code)

    threading.Thread(target=end, name="departure", daemon=True).start()


def wait() -> None:
    """After the terminal was given back: waits for what was begun, and says for what."""
    _gone.set()
    if unfinished():
        sys.stderr.write(f"waiting: {', '.join(unfinished())}\n")
        for name in finish(PATIENCE):
            sys.stderr.write(f"given up after {PATIENCE:.0f} s: {name}\n")
