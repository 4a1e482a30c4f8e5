"""What a keeper does once a second while anything happens: that of a box that stands still sleeps.

Whatever there is to do comes of a descriptor that was ready, of what :class:`Pulse` is told is under way, or
is due at a known time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from backends.keeper.loop import Loop, Timer

RESTS = 3  # beats without anything between them, after which the next one waits for something to happen


class Pulse:
    """Calls ``beat``. ``restless``: whether something goes on that no descriptor tells of; ``due``: when
    (monotonic seconds, 0 for never) a beat is needed though nothing happens.
    """

    def __init__(
        self,
        loop: Loop,
        interval: float,
        beat: Callable[[], None],
        restless: Callable[[], bool],
        due: Callable[[], float] | None = None,
    ) -> None:
        self._loop = loop
        self._interval = interval
        self._call = beat
        self._restless = restless
        self._due = due
        self._handled = 0
        self._quiet = 0
        self._timer: Timer | None = None

    def beat(self) -> None:
        """The next beat, now; the one after follows by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        happened = self._loop.handled != self._handled
        self._handled = self._loop.handled
        self._quiet = 0 if happened or self._restless() else self._quiet + 1
        if self._quiet < RESTS:
            self._timer = self._loop.later(self._interval, self.beat)
        else:
            # Before what happens then is looked at: it is judged by what holds by now.
            self._loop.on_next(self.beat)
            if self._due is not None and (due := self._due()):
                self._timer = self._loop.later(max(self._interval, due - time.monotonic()), self.beat)
        self._call()
