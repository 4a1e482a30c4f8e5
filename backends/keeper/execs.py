"""The journal of what a box executed: each program once, in order, also where its name could not be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from backends.keeper import census
from backends.keeper.budget import Budget, Losses
from backends.keeper.callers import Caller, command_line
from backends.keeper.loop import Loop, Timer
from backends.keeper.watches import Watches
from backends.keeper.words import redacted
from backends.values import ProcessId

MAX_PIDS = 8192  # processes that are remembered at a time
COMMAND = 200  # characters of a command line that is remembered
PATIENCE = 0.03  # seconds after which an exec that could not be read is looked at by what then runs
LOOKS = 100  # how often, while the exec itself still waits for its turn on a busy host


class Execs:
    """``record(kind, data)`` journals; ``init`` is the box's first process, the parent of every session's.

    ``names(path, status)`` says whether a path inside leads to the file that has ``status``.
    """

    def __init__(
        self,
        loop: Loop,
        init: int,
        record: Callable[[str, Mapping[str, object]], None],
        losses: Losses,
        names: Callable[[bytes, os.stat_result], bool],
    ) -> None:
        self._loop = loop
        self._init = init
        self._record = record
        self._losses = losses
        self._names = names
        self._budget = Budget("execs", record)
        self._watches = Watches(loop, record)
        self._first: set[int] = set()  # sessions' first processes whose exec is journalled
        self._unread: dict[int, Caller] = {}  # whose exec could not be read and is not journalled yet
        self._looks: dict[int, int] = {}  # of those: how often they were looked at
        self._timer: Timer | None = None
        self.inside_pids: dict[int, int] = {}  # pid inside to pid of the host, until they end
        self.recent: dict[int, str] = {}  # pids of the host that executed something of late, with what

    def tick(self) -> None:
        """A second has passed."""
        self._budget.tick()

    def close(self) -> None:
        """Nothing of the box is left to look at: what was not looked at is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _ in self._unread:
            self._losses.add("execs")
        self._unread.clear()
        self._budget.tick()

    def end(self) -> None:
        """Every process of the box was collected, and no end of a run can be told any more."""
        self._watches.close()

    def count_up(self) -> None:
        """Journal what is known by now of runs that ended."""
        self._watches.count_up()

    def seen(self, caller: Caller, path: str, words: list[str], same: Callable[[], bool]) -> None:
        """A process executes ``path``; ``same`` says whether it still waits for that."""
        self.catch_up(caller)
        if caller.parent == self._init:
            self._started(caller.pid)
        self._write(caller, path, redacted(words), same)

    def unread(self, caller: Caller) -> None:
        """A process executes something and has its memory closed to us: tell it by what runs then."""
        self.catch_up(caller)
        if len(self._unread) >= MAX_PIDS:
            self._losses.add("execs")
            return
        self._unread[caller.pid] = caller
        if self._timer is None:
            self._timer = self._loop.later(PATIENCE, self._look)

    def catch_up(self, caller: Caller) -> None:
        """What could not be read comes into the journal before what that program executes."""
        for pid in (caller.parent, caller.pid):
            if pid in self._unread:
                self._afterwards(self._unread.pop(pid))

    def executed(self, ident: ProcessId, argv: tuple[str, ...]) -> None:
        """A session's first program runs. Its exec could not be read if it was init's own memory that asked:
        init, and its copy until the exec, is closed to an unprivileged keeper too.
        """
        pid = ident.pid
        if pid in self._first:
            self._first.discard(pid)
            return
        caller = self._unread.pop(pid, None) or Caller(pid, self._init, 0, "", "")
        path = argv[0]
        path = path if "/" in path else _program(pid) or path
        self._write(caller, path, argv, lambda: _identity(pid) == ident)

    def ended(self, inside: int, argv: tuple[str, ...]) -> None:
        """A session's first program has run and is gone already: only the pid that it had inside is known."""
        self._first.discard(self.inside_pids.get(inside, 0))
        for caller in self._unread.values():
            if caller.inside == inside and caller.parent == self._init:
                del self._unread[caller.pid]
                self._write(caller, argv[0], argv, lambda: False)
                return

    def _look(self) -> None:
        self._timer = None
        waiting, self._unread = self._unread, {}
        looks, self._looks = self._looks, {}
        for pid, caller in waiting.items():
            seen = looks.get(pid, 0) + 1
            # Of a session's first program that is gone already init is about to tell.
            to_be_told = caller.parent == self._init and not _program(pid)
            if (to_be_told or _still_closed(pid)) and seen < LOOKS:
                self._unread[pid], self._looks[pid] = caller, seen
            else:
                self._afterwards(caller)
        if self._unread:
            self._timer = self._loop.later(PATIENCE, self._look)

    def _afterwards(self, caller: Caller) -> None:
        path = _program(caller.pid)
        if not path:
            self._losses.add("execs")  # it ended before anybody could look
            return
        argv = command_line(caller.pid)
        if caller.parent == self._init:
            self._started(caller.pid)
        if argv and argv[0].startswith("/") and self._runs(caller.pid, argv[0]):
            path = argv[0]  # the name it was asked by, and true
        self._write(caller, path, argv, lambda: command_line(caller.pid) == argv)

    def _runs(self, pid: int, path: str) -> bool:
        try:
            status = os.stat(f"/proc/{pid}/exe")
        except OSError:
            return False
        return self._names(path.encode("utf-8", "surrogateescape"), status)

    def _started(self, pid: int) -> None:
        if len(self._first) >= MAX_PIDS:
            self._first.clear()
        self._first.add(pid)

    def _write(self, caller: Caller, path: str, argv: tuple[str, ...], same: Callable[[], bool]) -> None:
        if caller.inside:
            self.inside_pids[caller.inside] = caller.pid
        self.recent.pop(caller.pid, None)
        self.recent[caller.pid] = " ".join(argv)[:COMMAND]
        if len(self.recent) > MAX_PIDS:
            del self.recent[next(iter(self.recent))]
        if len(self.inside_pids) > MAX_PIDS:
            del self.inside_pids[next(iter(self.inside_pids))]
        granted = self._budget.take()
        known = self._watches.executed(caller.pid, argv, same if granted else None)
        if granted:
            row = {"pid": caller.pid, "parent": caller.parent, "path": path, "argv": argv}
            self._record("exec", {**row, "comm": caller.name, **known})


def _identity(pid: int) -> ProcessId | None:
    found = census.read(pid)
    return None if found is None else found.ident


def _still_closed(pid: int) -> bool:
    """Whether a process is there and closed to us, as init's copy is until its exec has happened."""
    try:
        os.readlink(f"/proc/{pid}/exe")
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _program(pid: int) -> str:
    """The program that a process runs (proc_pid_exe(5)), "" when it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""
