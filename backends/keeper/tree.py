"""Which session a process belongs to, and ending all of one session's.

A session is the tree below its first process. What left that tree (double fork, ``setsid``) is known by an
earlier census, by its kernel session, or by the variable that every session starts with. A process that
erased all of these belongs to no session, and ends with the first one that has to be ended.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable

from backends.keeper import census
from backends.keeper.census import Census, Process
from backends.keeper.loop import Loop
from backends.snapshots import ProcessId

VARIABLE = "CLOCHE_SESSION"
_MARK = b"\0" + VARIABLE.encode() + b"="
_ENVIRON = 128 * 1024
_ROUND = 0.01  # seconds between two rounds of a kill
_ROUNDS = 300


class Members:
    """Remembers the session of every live process of a box, and the processes' first processes."""

    def __init__(self) -> None:
        self._known: dict[ProcessId, int] = {}
        self._leaders: dict[int, int] = {}  # pid as the host sees it: session

    def leads(self, ident: ProcessId, session: int) -> None:
        self._known[ident] = session
        self._leaders[ident.pid] = session

    def update(self, seen: Census) -> dict[int, int | None]:
        """Pid to session for everything in ``seen``; what is not in it any more is forgotten."""
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
                session = self._leaders.get(one.session) or _marked(one.pid)
            found[one.pid] = session


def _marked(pid: int) -> int | None:
    """The session that a process's first environment names (proc_pid_environ(5))."""
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
