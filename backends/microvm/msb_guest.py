"""A guest of microsandbox, as a box's steward has it: each command is an ``msb exec`` of its own."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from backends.kernel import procfs
from backends.microvm import monitor, msb_answers, msb_store, msb_words
from backends.microvm.monitor import Monitor
from backends.microvm.msb_words import Held
from backends.microvm.vmm import Command, Observed, Session

_ENDING = 5.0  # seconds for a killed monitor to be gone
_CALL = 10.0
_TOLD = 64  # bytes of what the guest may say of a command


class MsbGuest:
    """``runner`` is ``msb run``, ``machine`` the process that is the guest; one ends with the other."""

    def __init__(
        self,
        name: str,
        folder: Path,
        owner: tuple[int, int],
        held: Held,
        runner: Monitor,
        machine: int,
        observed: Observed,
    ) -> None:
        self.name = name
        self.observed = observed
        self.monitors: tuple[int, ...] = (machine, runner.pidfd)
        self.bound = "what microsandbox does itself"
        self.left = 0  # nobody tells
        self._folder = folder
        self._owner = owner
        self._held = held
        self._runner = runner
        self._env = msb_store.environment()
        self._program = msb_store.find()

    # ---- as backends.microvm.vmm.Guest has it

    def session(self, command: Command) -> Session:
        if not command.argv or "=" in command.argv[0]:
            raise OSError(errno.ENOENT, "a command whose name has an equals sign cannot be told to env(1)")
        text = msb_words.order(command.id, command.argv, command.env.items(), command.cwd)
        path = self._folder / "orders" / str(command.id)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        terminal = command.size is not None
        words = msb_words.execute(self.name, command.id, self._owner, self._held, terminal=terminal)

        def run(report: int, _kept: tuple[int, ...]) -> None:
            try:
                os.execve(self._program, ["msb", *words], self._env)  # noqa: S606
            except OSError as error:
                os.write(report, f"{error.errno or 0}:msb".encode())
                os._exit(127)

        return Session(run, (), lambda _status: self._ended(command.id))

    def _ended(self, number: int) -> None:
        """Whatever still runs of the command must end; asked without waiting for it."""
        (self._folder / "orders" / str(number)).unlink(missing_ok=True)
        process = told(self._folder / "told" / str(number))
        if process > 1 and not _ready(self.monitors, 0):
            self._begin(msb_words.kill(self.name, process))

    def usage(self, number: int) -> tuple[float, float, int] | None:
        """It counts nothing of a command."""
        return None

    def watched(self) -> Mapping[int, int]:
        return dict.fromkeys(self.monitors, select.POLLIN)

    def ready(self, fd: int, events: int) -> None:
        if fd in self.monitors:
            raise ConnectionResetError("the guest's monitor ended")

    def kill_left(self) -> None:
        """Nothing of it is known."""

    def freeze(self, done: Callable[[int], None]) -> None:
        self._wait(msb_words.pause(self.name))
        self._expect(paused=True)
        done(1)  # all of the guest at once; how many processes that are, nobody outside knows

    def thaw(self, done: Callable[[int], None]) -> None:
        self._wait(msb_words.resume(self.name))
        self._expect(paused=False)
        done(1)

    def end(self) -> None:
        until = time.monotonic() + _ENDING
        for fd in self.monitors:
            monitor.kill(Monitor(0, fd))
        while time.monotonic() < until and len(_ready(self.monitors, until - time.monotonic())) < 2:
            time.sleep(0.01)
        self._wait(msb_words.remove(self.name))  # or a later "msb exec" would boot it again

    # ---- msb, beside the box's processes

    def _expect(self, *, paused: bool) -> None:
        state = msb_answers.state(self._wait(msb_words.inspect(self.name)))
        if state is None or state.paused != paused:
            raise OSError(errno.EIO, f"msb did not {'pause' if paused else 'resume'} the guest")

    def _begin(self, words: list[str], log: str = "/dev/null") -> Monitor:
        return monitor.start([self._program, *words], self._env, log)

    def _wait(self, words: list[str]) -> str:
        """Run ``msb`` as no child of ours, whose children are the box's; what it printed."""
        log = self._folder / f"msb-{words[0]}"
        log.unlink(missing_ok=True)
        started = self._begin(words, os.fspath(log))
        try:
            if not _ready((started.pidfd,), _CALL):
                monitor.kill(started)
        finally:
            os.close(started.pidfd)
        with log.open("rb") as file:
            return file.read(msb_answers.LARGEST).decode("utf-8", "replace")


def told(path: Path) -> int:
    """The number of the process that the guest wrote there; 0 where it wrote none. It is the box's word."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        text = os.read(fd, _TOLD).strip()
    except OSError:
        return 0
    finally:
        os.close(fd)
    return int(text) if text.isdigit() and len(text) < 10 else 0


def machine_of(runner: int, name: str) -> int | None:
    """A pidfd of the guest's process, which ``msb run`` started; None while there is none."""
    for pid, stat in procfs.scan().stats.items():
        if stat.parent != runner:
            continue
        try:
            fd = os.pidfd_open(pid)
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read(4096).split(b"\0")
        except OSError:
            continue
        if words[1:4] == [b"machine", b"--name", name.encode()]:
            return fd
        os.close(fd)
    return None


def _ready(fds: tuple[int, ...], patience: float) -> list[int]:
    """Which of the processes are gone, waiting for one at most ``patience`` seconds."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(max(0.0, patience) * 1000)]
