"""One command in a box, from its start to the moment its output is drained."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from backends.errors import EXIT_WALL_LIMIT
from backends.keeper.loop import Loop, Timer
from backends.keeper.relay import InPump, OutPump
from backends.keeper.ring import Ring
from backends.keeper.terminal import Terminal
from backends.kernel import procfs
from backends.values import ProcessId

OUTPUT_BYTES = 64 * 1024  # kept of a running session's pipes
OLD_OUTPUT_BYTES = 8 * 1024  # kept once it ended
QUIET = 0.25  # seconds without output after the exit, while somebody else holds the pipes
DRAIN_LIMIT = 5.0  # seconds after the exit, whatever such a daemon prints
_STEP = 0.05
_GONE_OR_CLOSED = 0.05  # a dying client's pipes may close just before its connection does


class Owner(Protocol):
    """Whoever wants to know how a session ends: a client's connection."""

    @property
    def connected(self) -> bool: ...

    def event(self, value: dict[str, Any]) -> None: ...


class Usage:
    """What a session cost: seconds of user and system time, peak resident bytes if they can be told."""

    __slots__ = ("cpu", "peak_rss")

    def __init__(self, cpu: float, peak_rss: int | None) -> None:
        self.cpu = cpu
        self.peak_rss = peak_rss


class Session:
    """States: starting, running, draining (its process ended, its output has not), exited.

    ``finished`` is called once, when it is exited.
    """

    def __init__(
        self,
        loop: Loop,
        number: int,
        argv: tuple[str, ...],
        *,
        pty: bool,
        finished: Callable[[Session], None],
    ) -> None:
        self._loop = loop
        self._finished = finished
        self.id = number
        self.argv = argv  # redacted
        self.pty = pty
        self.state = "starting"
        self.started = time.time()
        self.ended: float | None = None
        self.exit: int | None = None
        self.status: int | None = None
        self.usage: Usage | None = None
        self.timed_out = False
        self.ident: ProcessId | None = None
        self.pidfd = -1
        self.watchers: list[Owner] = []
        self.output = Ring(OUTPUT_BYTES)
        self.terminal: Terminal | None = None
        self.input: InPump | None = None
        self.pumps: list[OutPump] = []
        self.born = int(time.clock_gettime(time.CLOCK_BOOTTIME) * procfs.TICKS)  # as a process's start time
        self._began = time.monotonic()
        self._last_data = 0.0
        self._exited = 0.0
        self._owed: list[tuple[OutPump, int]] = []
        self._poll: Timer | None = None

    @property
    def live(self) -> bool:
        return self.state != "exited"

    def heard(self) -> None:
        """Output came: a drain has to wait a little longer."""
        self._last_data = time.monotonic()

    def broken(self, pump: OutPump) -> None:
        """The client's end of ``pump`` cannot be written: it closed it, or it died.

        A closed pipe goes on to the box, so that ``yes | head`` ends; a client that died leaves its session
        running with its output only kept.
        """
        self._loop.later(_GONE_OR_CLOSED, lambda: self._judge(pump))

    def _judge(self, pump: OutPump) -> None:
        if any(owner.connected for owner in self.watchers):
            pump.close()
        else:
            pump.detach()

    def leader_ended(self, status: int, usage: Usage | None) -> None:
        """The process ended with wait status ``status``; the session ends when its output is drained."""
        if self.state not in ("starting", "running"):
            return
        self.state = "draining"
        self.status = status
        self.usage = usage
        self.exit = EXIT_WALL_LIMIT if self.timed_out else exit_code(status)
        if self.input is not None:
            self.input.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        self._exited = time.monotonic()
        self._owed = [(pump, pump.total + pump.waiting()) for pump in self.pumps]
        self.check()

    def check(self) -> None:
        """End the session if its output is drained; to be called whenever that may have changed."""
        if self.state != "draining":
            return
        if self._drained():
            self._finish()
        elif self._poll is None:
            self._poll = self._loop.later(_STEP, self._again)

    def _again(self) -> None:
        self._poll = None
        self.check()

    def _drained(self) -> bool:
        if self.terminal is not None and self.terminal.ended:
            return True
        if self.terminal is None and all(pump.ended and not pump.busy for pump in self.pumps):
            return True
        now = time.monotonic()
        if any(pump.busy for pump in self.pumps):
            return False  # the client is slow: that is its own time
        if any(pump.total < total and not pump.ended for pump, total in self._owed):
            return False  # printed before the exit and not read yet
        return now - max(self._exited, self._last_data) >= QUIET or now - self._exited >= DRAIN_LIMIT

    def abandon(self) -> None:
        """End the session now, whatever its client still has to take."""
        if self.state == "draining":
            self._finish()

    def _finish(self) -> None:
        self.state = "exited"
        self.ended = time.time()
        if self._poll is not None:
            self._poll.cancel()
            self._poll = None
        for pump in self.pumps:
            pump.detach()
        if self.terminal is not None:
            self.terminal.close()
        self._owed.clear()
        self.output.shrink(OLD_OUTPUT_BYTES)
        self._finished(self)
        self.tell()

    def tell(self) -> None:
        """Send the exit to everybody who waits for it."""
        event = {
            "event": "exit",
            "session": self.id,
            "exit": self.exit,
            "status": self.status,
            "wall": self.wall_seconds,
            "cpu": self.usage.cpu if self.usage else None,
            "peak_rss": self.usage.peak_rss if self.usage else None,
        }
        watchers, self.watchers = self.watchers, []
        for owner in watchers:
            owner.event(event)

    @property
    def wall_seconds(self) -> float:
        until = self._exited or time.monotonic()
        return round(until - self._began, 6)

    def row(self) -> dict[str, Any]:
        """The session as JSON, the fields of :class:`backends.snapshots.SessionRow`."""
        return {
            "id": self.id,
            "argv": self.argv,
            "pty": self.pty,
            "state": "running" if self.live else "exited",
            "started": self.started,
            "ended": self.ended,
            "exit": self.exit,
            "cpu": self.usage.cpu if self.usage else None,
            "peak_rss": self.usage.peak_rss if self.usage else None,
            "process": list(self.ident) if self.ident else None,
            "viewers": self.terminal.viewers if self.terminal else 0,
        }


def exit_code(status: int) -> int:
    """The shell's view of a wait(2) status: the exit code, or 128 + the signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
