"""The keeper's event loop: one thread, epoll(7), timers; no callback may block.

A callback does one bounded piece of work and returns. One that raises is reported and taken out, so that a
bad client costs its own connection and nothing else.
"""

from __future__ import annotations

import heapq
import select
import time
from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
GONE = select.EPOLLHUP | select.EPOLLERR  # always reported, whether asked for or not

OnReady = Callable[[int], None]
OnError = Callable[[BaseException], None]


class Timer:
    """A call that is due at ``when`` (monotonic seconds) unless cancelled before."""

    __slots__ = ("call", "when")

    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    """Dispatches readiness and timers until ``stop``. ``report`` is told of every callback that raised."""

    def __init__(self, report: Callable[[str, BaseException], None]) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, tuple[OnReady, OnError | None]] = {}
        self._masks: dict[int, int] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._stopped = False
        self._report = report
        self._woken: Callable[[], None] | None = None
        self.handled = 0  # times that a descriptor was ready

    def add(self, fd: int, mask: int, ready: OnReady, failed: OnError | None = None) -> None:
        """Call ``ready(events)`` whenever ``fd`` is ready for ``mask`` or gone.

        Raises PermissionError for what cannot be polled (a regular file), where reading never waits.
        """
        self._epoll.register(fd, mask)
        self._handlers[fd] = (ready, failed)
        self._masks[fd] = mask

    def want(self, fd: int, mask: int) -> None:
        """Change what ``fd`` is watched for; 0 leaves only its end."""
        if self._masks[fd] != mask:
            self._epoll.modify(fd, mask)
            self._masks[fd] = mask

    def remove(self, fd: int) -> None:
        """Stop watching ``fd``; to be called before it is closed. Unknown descriptors are ignored."""
        if self._handlers.pop(fd, None) is not None:
            del self._masks[fd]
            self._epoll.unregister(fd)

    def later(self, delay: float, call: Callable[[], None]) -> Timer:
        """Call once in ``delay`` seconds."""
        timer = Timer(time.monotonic() + delay, call)
        self._count += 1
        heapq.heappush(self._timers, (timer.when, self._count, timer))
        return timer

    def on_next(self, call: Callable[[], None]) -> None:
        """Call once before the next descriptor that is ready has its turn: for who rests until then."""
        self._woken = call

    def stop(self) -> None:
        self._stopped = True

    def run(self) -> None:
        """Dispatch until ``stop`` is called."""
        while not self._stopped:
            self.step()

    def step(self, limit: float = 60.0) -> None:
        """Wait up to ``limit`` seconds for something to do, and do what is due now."""
        found = self._epoll.poll(self._until_next(limit))
        if found:
            self.handled += len(found)
            self._wake()
        for fd, events in found:
            handler = self._handlers.get(fd)
            if handler is None:
                continue  # an earlier callback of this round removed it
            ready, failed = handler
            try:
                ready(events)
            except Exception as error:  # noqa: BLE001 (reported, and the descriptor is given up)
                self._report(f"handler of descriptor {fd}", error)
                if failed is None:
                    self.remove(fd)
                else:
                    failed(error)
        self._run_due()

    def _until_next(self, limit: float) -> float:
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return limit
        return min(limit, max(0.0, self._timers[0][0] - time.monotonic()))

    def _wake(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None:
            try:
                woken()
            except Exception as error:  # noqa: BLE001 (reported; the descriptors still have their turn)
                self._report("waking", error)

    def _run_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            call = heapq.heappop(self._timers)[2].call
            if call is None:
                continue
            try:
                call()
            except Exception as error:  # noqa: BLE001 (reported; a timer that failed is not repeated)
                self._report("timer", error)
