"""Which session a process belongs to, and ending all of one session's.

A session is the tree below its first process. What left that tree (double fork) is known by an earlier
census, or by its kernel session while that is the first process's. Nothing that a process says of itself
counts: one whose session is not proved may be anybody's that began before it, and ends with the first of
those that has to be ended. The variable that every session starts with is only shown.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable

from backends.keeper import census
from backends.keeper.census import Census, Process
from backends.keeper.loop import Loop
from backends.values import ProcessId

VARIABLE = "CLOCHE_SESSION"
_MARK = b"\0" + VARIABLE.encode() + b"="
_ENVIRON = 128 * 1024
_ROUND = 0.01  # seconds between two rounds of a kill
_ROUNDS = 300


class Members:
    """Remembers the session of every live process of a box, and the live sessions' first processes."""

    def __init__(self) -> None:
        self._known: dict[ProcessId, int] = {}
        self._leaders: dict[int, int] = {}  # pid as the host sees it: session

    @property
    def known(self) -> tuple[ProcessId, ...]:
        """The processes whose session is proved, as the last census left them."""
        return tuple(self._known)

    def leads(self, ident: ProcessId, session: int) -> None:
        self._known[ident] = session
        self._leaders[ident.pid] = session

    def ended(self, pid: int, seen: Census) -> None:
        """The first process ``pid`` of a session has ended; its kernel session tells once more.

        When nothing is left of that, the number may become another process's.
        """
        self.update(seen)
        self._leaders.pop(pid, None)

    def update(self, seen: Census) -> dict[int, int | None]:
        """Pid to session for everything in ``seen``, None where it is not proved; the rest is forgotten."""
        found: dict[int, int | None] = {}
        for process in seen.processes.values():
            self._place(process, seen, found)
        self._known = {
            seen.processes[pid].ident: session for pid, session in found.items() if session is not None
        }
        return found

    def _place(self, process: Process, seen: Census, found: dict[int, int | None]) -> None:
        path: list[Process] = []
        session: int | None = None
        at: Process | None = process
        while at is not None and at.pid not in found:
            known = self._known.get(at.ident)
            if known is not None:
                session = found[at.pid] = known
                break
            path.append(at)
            at = seen.processes.get(at.parent)
        else:
            if at is not None:
                session = found[at.pid]
        for one in reversed(path):
            if session is None:
                session = self._leaders.get(one.session)
            found[one.pid] = session


def marked(pid: int) -> int | None:
    """The session that a process's environment names (proc_pid_environ(5)): its own word, to be shown."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            data = b"\0" + file.read(_ENVIRON)
    except OSError:
        return None  # gone, or it closed its memory to us
    at = data.find(_MARK)
    if at < 0:
        return None
    text = data[at + len(_MARK) : at + len(_MARK) + 12].split(b"\0")[0]
    return int(text) if text.isdigit() else None


class Kill:
    """SIGKILL to all that ``choose`` picks from a fresh census, again and again until nothing is left.

    First everything is stopped, so that a process that forks all the time does not outrun the rounds.
    ``done`` gets True when nothing is left, False when rounds ran out.
    """

    def __init__(
        self,
        loop: Loop,
        init: int,
        choose: Callable[[Census], Iterable[Process]],
        done: Callable[[bool], None],
    ) -> None:
        self._loop = loop
        self._init = init
        self._choose = choose
        self._done = done
        self._left = _ROUNDS
        self._turn()

    def _turn(self) -> None:
        chosen = list(self._choose(census.take(self._init)))
        if not chosen:
            self._done(True)
            return
        self._left -= 1
        if self._left < 0:
            self._done(False)
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in chosen:
                census.send(process.ident, number)
        self._loop.later(_ROUND, self._turn)
