"""A guest that QEMU runs, in the steward: its channel, its monitor, its freeze and its end."""

from __future__ import annotations

import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from backends.errors import Refused
from backends.microvm import client, monitor
from backends.microvm.channel import Channel
from backends.microvm.frames import Broken
from backends.microvm.monitor import Monitor
from backends.microvm.vmm import Command, Observed, Session

QUIT_PATIENCE = 2.5  # seconds that a guest gets to write back; see launching.END_PATIENCE
_SAID = 600  # characters of what the monitor or the guest's console said, in a refusal


class QemuGuest:
    def __init__(self, channel: Channel, started: Monitor, bound: str) -> None:
        self._channel = channel
        self.bound = bound
        self._monitor = started
        self.monitors: tuple[int, ...] = (started.pidfd,)
        self.observed = Observed("", "")
        self._stopped = False

    def wait(
        self, configured: Mapping[str, object], patience: float, death: int, log: Path, console: Path
    ) -> None:
        """Until the guest is ready. ``Refused`` with what is known of why it is not."""
        until = time.monotonic() + patience
        self._channel.configure(configured)
        why = f"the guest did not come up within {patience:.0f} seconds"
        while self._channel.observed is None:
            left = until - time.monotonic()
            ended = (self._monitor.pidfd, death)
            if left <= 0:
                break
            poll = select.poll()
            for fd, events in (*self._channel.watched().items(), *((fd, select.POLLIN) for fd in ended)):
                poll.register(fd, events)
            ready = dict(poll.poll(left * 1000))
            if death in ready:
                why = "the keeper is gone"
                break
            try:
                for fd, events in ready.items():
                    if fd not in ended:
                        self._channel.ready(fd, events)
            except (OSError, Broken) as error:
                why = f"its channel: {error}"
                break
            if self._monitor.pidfd in ready:
                why = "its monitor ended"
                break
            if self._channel.trouble:
                why = f"the guest says: {self._channel.trouble}"
                break
        else:
            self.observed = self._channel.observed
            return
        said = "; ".join(text for path in (log, console) if (text := _tail(path)))
        raise Refused(
            "the guest does not start",
            f"{why}" + (f" ({said})" if said else ""),
            "cloche probe says what this host can boot",
            code="guest-boot",
        )

    # ---- as backends.microvm.vmm.Guest has it

    def session(self, command: Command) -> Session:
        sock = self._channel.spawn(command)
        terminal = command.size is not None

        def run(report: int, kept: tuple[int, ...]) -> None:
            client.run(socket.socket(fileno=kept[0]), report, terminal=terminal)

        return Session(run, (sock.detach(),), lambda _status: self._channel.kill(command.id))

    @property
    def left(self) -> int:
        return self._channel.left

    def kill_left(self) -> None:
        self._channel.kill_left()

    def usage(self, number: int) -> tuple[float, float, int] | None:
        return self._channel.usage.pop(number, None)

    def watched(self) -> Mapping[int, int]:
        return {**self._channel.watched(), self._monitor.pidfd: select.POLLIN}

    def ready(self, fd: int, events: int) -> None:
        if fd == self._monitor.pidfd:
            raise ConnectionResetError("the guest's monitor ended")
        try:
            self._channel.ready(fd, events)
        except Broken as error:
            raise ConnectionResetError(f"the guest broke the rules of its channel: {error}") from error

    def freeze(self, done: Callable[[int], None]) -> None:
        """The guest stops and writes back; then its monitor is stopped, so that nobody need believe it."""

        def stopped(count: int) -> None:
            self._stopped = True
            monitor.send(self._monitor, signal.SIGSTOP)
            done(count)

        self._channel.freeze(stopped)

    def thaw(self, done: Callable[[int], None]) -> None:
        self._go_on()
        self._channel.thaw(done)

    def _go_on(self) -> None:
        if self._stopped:
            self._stopped = False
            monitor.send(self._monitor, signal.SIGCONT)

    def end(self) -> None:
        try:
            self._quit()
        except (OSError, Broken):
            self._channel.trouble = "lost"  # then there is nothing to write back either
        monitor.send(self._monitor, signal.SIGKILL)
        select.select([self._monitor.pidfd], [], [], 5)
        self._channel.close()

    def _quit(self) -> None:
        """Let the guest write its files back, for a moment."""
        if self._channel.observed is None:
            return
        self._go_on()
        self._channel.quit()
        until = time.monotonic() + QUIT_PATIENCE
        while not self._channel.bye and (left := until - time.monotonic()) > 0:
            poll = select.poll()
            for fd, events in self.watched().items():
                poll.register(fd, events)
            for fd, events in poll.poll(left * 1000):
                self.ready(fd, events)


def _tail(path: Path) -> str:
    """The end of a log, printable and short: the console is written by the guest."""
    try:
        data = path.read_bytes()[-4096:]
    except OSError:
        return ""
    text = " ".join(data.decode("utf-8", "replace").split())[-_SAID:]
    return "".join(one if one.isprintable() else "?" for one in text)
