"""The steward of a box that is a virtual machine: it boots the guest and stands for its init.

Every command in the guest has a process here (:class:`backends.microvm.vmm.Session`); what the keeper does to
that process is done to the command.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import termios
import time
from typing import Any, NoReturn

from backends.keeper.init_protocol import Message
from backends.keeper.init_session import Spawn, Started
from backends.kernel import pty, title
from backends.kernel.syscalls import close_from, prctl
from backends.microvm import monitor
from backends.microvm.frames import Broken
from backends.microvm.vmm import Command, Guest, GuestSpec, Limits, Session, Vmm
from backends.steward.serving import Steward
from backends.trees.remove import remove
from backends.values import Claim

_REPORT = 3
_KEPT = 4
_MODE = 3  # of tcgetattr's list


class GuestSteward(Steward):
    """``kernel``: the host's own release, which the guest's is compared with."""

    def __init__(self, control: socket.socket, death: int, spec: GuestSpec, limits: Limits, vmm: Vmm) -> None:
        super().__init__(control, death, spec.name)
        self.spec = spec
        self.held = limits
        self.vmm = vmm
        self.guest: Guest | None = None
        self.booted = 0.0
        self.prepared: dict[int, Session] = {}  # pid to what it stands for
        self.rest = 0  # pid of the process that stands for what ended commands left

    def bring_up(self) -> dict[str, Any]:
        began = time.monotonic()
        self.guest = self.vmm.boot(self.spec, self.held, self.death)
        self.booted = time.monotonic() - began
        return {
            "observed": list(self.guest.observed),
            "seconds": round(self.booted, 3),
            "bound": self.guest.bound,
        }

    def claims(self) -> tuple[Claim, ...]:
        assert self.guest is not None
        own = os.uname().release
        seen = self.guest.observed.kernel
        return (
            Claim(
                "guest-kernel",
                "the box's processes have a kernel of their own",
                "proved" if seen and seen != own else "failed",
                f"inside {seen or 'unknown'}, outside {own}; booted in {self.booted:.1f} s",
                round(self.booted, 3),
            ),
        )

    # ---- sessions

    def start(self, spawn: Spawn, fds: tuple[int, ...]) -> Started:
        assert self.guest is not None
        master = slave = -1
        if spawn.size:
            master = pty.open_master()
            try:
                slave = pty.open_slave(master)
                pty.set_size(slave, *spawn.size)
                _make_raw(slave)
            except OSError:
                _close(master, slave)
                raise
        result, report = os.pipe2(os.O_CLOEXEC)
        session: Session | None = None
        try:
            session = self.guest.session(Command(spawn.id, spawn.argv, spawn.env, spawn.cwd, spawn.size))
            pid = os.fork()
        except OSError:
            _close(master, slave, result, report, *(session.keep if session else ()))
            raise
        if pid == 0:
            _stand_in(session, spawn, (slave, slave, slave) if spawn.size else fds, report)
        _close(slave, report, *session.keep)
        self.prepared[pid] = session
        return Started(pid, os.pidfd_open(pid), master, result)

    def tell(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        if message.get("ev") == "exit" and message.get("pid") == self.rest and self.guest is not None:
            self.rest = 0
            self.guest.kill_left()  # it was killed, or there is nothing left
            return
        if message.get("ev") == "exit":
            number, pid, status = message.get("id"), message.get("pid"), message.get("status")
            session = self.prepared.pop(pid, None) if isinstance(pid, int) else None
            if session is not None and isinstance(status, int):
                session.done(status)
            usage = self.guest.usage(number) if self.guest is not None and isinstance(number, int) else None
            message = {**message, "utime": None, "stime": None, "maxrss": None}
            if usage is not None:
                message.update(utime=usage[0], stime=usage[1], maxrss=usage[2])
        super().tell(message, fds)

    # ---- service

    def serve(self) -> None:
        """Whatever turn finds out that the guest is lost, the box is taken down in order."""
        try:
            self._serve()
        except (OSError, Broken) as error:
            self._lost(error)

    def _lost(self, error: Exception) -> NoReturn:
        try:
            self.tell({"ev": "error", "what": "the guest is lost", "why": str(error)})
        finally:
            self.end()

    def _serve(self) -> NoReturn:
        assert self.guest is not None
        own = (self.control.fileno(), self.death, self.signals)
        while True:
            poll = select.poll()
            for fd in (*own, *self.pending):
                poll.register(fd, select.POLLIN)
            for fd, events in self.guest.watched().items():
                poll.register(fd, events)
            for fd, events in poll.poll():
                if fd == self.death:
                    self.end()
                elif fd == own[0]:
                    self.request()
                elif fd == self.signals:
                    self.take_signals()
                elif fd in self.pending:
                    self.settle(fd)
                else:
                    self._of_guest(fd, events)
            self._stand_for_the_rest()

    def _stand_for_the_rest(self) -> None:
        """Have a child while ended commands have processes that run on: a box with such is not idle."""
        assert self.guest is not None
        if self.guest.left and not self.rest:
            own = os.getpid()
            pid = os.fork()
            if pid == 0:
                _wait_with(own)
            self.rest = pid
        elif self.rest and not self.guest.left:
            os.kill(self.rest, signal.SIGKILL)

    def _of_guest(self, fd: int, events: int) -> None:
        assert self.guest is not None
        self.guest.ready(fd, events)

    def answer(self, message: Message, fds: tuple[int, ...]) -> None:
        assert self.guest is not None
        if message.get("op") == "freeze":
            self.guest.freeze(lambda count: self.tell({"ev": "frozen", "count": count}))
        elif message.get("op") == "thaw":
            self.guest.thaw(lambda count: self.tell({"ev": "thawed", "count": count}))
        else:
            super().answer(message, fds)

    def gone(self) -> None:
        if self.guest is not None:
            self.guest.end()
        if self.spec.folder.exists():
            remove(self.spec.folder)


def _wait_with(steward: int) -> None:
    """Nothing tells this process that the box has ended when steward and keeper were killed together."""
    try:
        prctl(monitor.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != steward:
            os._exit(0)
        os.setsid()
        close_from(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        title.replace("left-running", "guest: what ended commands left running")
        while True:
            signal.pause()
    finally:
        os._exit(0)


def _stand_in(session: Session, spawn: Spawn, fds: tuple[int, ...], report: int) -> None:
    """The child: descriptors 0 to 2, the report, what the session keeps, and nothing else."""
    try:
        os.setsid()
        kept = _arrange((*fds, report, *session.keep))
        if spawn.size is not None:
            pty.take_as_controlling(0)
        title.replace(os.path.basename(spawn.argv[0])[:15], f"guest: {' '.join(spawn.argv)}")
        session.run(_REPORT, kept)
    finally:
        os._exit(127)


def _arrange(fds: tuple[int, ...]) -> tuple[int, ...]:
    """Gives ``fds`` the numbers 0, 1, ...; the report closes on exec. Returns those after the report."""
    high = []
    for fd in fds:
        copy = os.dup(fd)
        while copy < len(fds):
            copy = os.dup(copy)
        high.append(copy)
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=target != _REPORT)
    close_from(len(fds))
    return tuple(range(_KEPT, len(fds)))


def _make_raw(terminal: int) -> None:
    """As cfmakeraw(3): the guest's own terminal does what terminals do."""
    mode = termios.tcgetattr(terminal)
    mode[0] &= ~(
        termios.IGNBRK
        | termios.BRKINT
        | termios.PARMRK
        | termios.ISTRIP
        | termios.INLCR
        | termios.IGNCR
        | termios.ICRNL
        | termios.IXON
    )
    mode[1] &= ~termios.OPOST
    mode[2] = mode[2] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    mode[_MODE] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    termios.tcsetattr(terminal, termios.TCSANOW, mode)


def _close(*fds: int) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)
