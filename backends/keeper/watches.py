"""How test runs end that processes of the box started themselves: each followed by a pidfd from its exec on.

A process is one run, whatever it executes next: ``sh -c pytest``, ``pytest`` and the interpreter of its first
line have one end. What a command line names is all that is known of it. The end is known once the parent has
collected the process (``backends.kernel.pidfds``); where it cannot be had, a record says why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from backends import testruns
from backends.keeper.loop import Loop
from backends.kernel import pidfds
from backends.tiers.protocol import LiveBox
from backends.values import NotObserved

MOST = 512  # runs that are followed at a time
TOO_MANY = f"{MOST} others were followed at that time"
OLD_KERNEL = f"the kernel does not tell, which needs {pidfds.SINCE}"
GONE = "it ended before it could be followed"
UNSEEN = "no program that a process of the box starts is seen at this tier, test runs neither"


class _Run:
    """A process that executed a test command and has not been collected yet."""

    __slots__ = ("argv", "last", "number", "pid", "pidfd")

    def __init__(self, number: int, pid: int, pidfd: int, argv: tuple[str, ...]) -> None:
        self.number = number
        self.pid = pid
        self.pidfd = pidfd
        self.argv = argv  # what it executed as a test, last
        self.last = argv  # what it executed, last

    def then(self, argv: tuple[str, ...], test: bool) -> None:
        """It executes ``argv`` now. What interprets the program that was asked for changes nothing."""
        if testruns.interprets(argv, self.last):
            return
        self.last = argv
        if test:
            self.argv = argv


class Watches:
    """``record(kind, data)`` journals the ends, as ``test-end``."""

    def __init__(self, loop: Loop, record: Callable[[str, Mapping[str, object]], None]) -> None:
        self._loop = loop
        self._record = record
        self._runs: dict[int, _Run] = {}  # by pid
        self._count = 0
        self._untold = False  # this kernel does not tell

    def executed(
        self, pid: int, argv: tuple[str, ...], same: Callable[[], bool] | None
    ) -> Mapping[str, object]:
        """What the record of this exec says of it: its run's number, or why its end will not be known.

        ``same`` is asked after the pidfd was opened: whether ``pid`` is still the process that executes
        ``argv``. ``None``: this exec has no record, so no run begins. Nothing for what is no test run.
        """
        run = self._runs.get(pid)
        if run is not None and self._collected(run):
            run = None
        test = testruns.may_be(argv) and testruns.is_test(argv)
        if run is not None:
            run.then(argv, test)
            return {"test": run.number, "at": _now()} if test else {}
        if same is None or not test:
            return {}
        return {"test": self._follow(pid, argv, same), "at": _now()}

    def _follow(self, pid: int, argv: tuple[str, ...], same: Callable[[], bool]) -> int | str:
        if self._untold:
            return OLD_KERNEL
        if len(self._runs) >= MOST:
            self.count_up()
        if len(self._runs) >= MOST:
            return TOO_MANY
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return GONE
        except OSError as error:  # no descriptor is left, such as EMFILE
            return f"it could not be followed: {os.strerror(error.errno or 0)}"
        try:
            if not same() or pidfds.status(pidfd) is not None:
                os.close(pidfd)
                return GONE
        except pidfds.Untold:
            os.close(pidfd)
            self._untold = True
            return OLD_KERNEL
        self._count += 1
        run = self._runs[pid] = _Run(self._count, pid, pidfd, argv)
        # Readable means that it ended; hung up, which is told without being asked for, that it was collected.
        self._loop.add(pidfd, 0, lambda _events: self._hung_up(run), lambda _error: self._end(run, None))
        return run.number

    def count_up(self) -> None:
        """Journal the ends that are known by now."""
        for run in list(self._runs.values()):
            self._collected(run)

    def close(self) -> None:
        """Nothing of the box is left."""
        self.count_up()
        for run in list(self._runs.values()):
            self._end(run, None, "the box ended, and the kernel told no status")

    def _hung_up(self, run: _Run) -> None:
        self._collected(run)  # not so where the event was of a descriptor that had this number before

    def _collected(self, run: _Run) -> bool:
        """Whether it was, and then its end is journalled."""
        try:
            status = pidfds.status(run.pidfd)
        except pidfds.Untold:
            self._end(run, None)
            return True
        if status is None:
            return False
        self._end(run, status)
        return True

    def _end(self, run: _Run, status: int | None, why: str = OLD_KERNEL) -> None:
        if self._runs.get(run.pid) is not run:
            return
        del self._runs[run.pid]
        self._loop.remove(run.pidfd)
        os.close(run.pidfd)
        row: dict[str, object] = {"test": run.number, "pid": run.pid, "argv": run.argv, "status": status}
        if run.last != run.argv:
            row["ran"] = run.last  # another program by then, whose end it is
        if status is None:
            row["why"] = why
        self._record("test-end", {**row, "at": _now()})


def told(box: LiveBox) -> LiveBox:
    """``box``, and where its execs are not seen that they are not."""
    if box.notify is not None:
        return box
    return box._replace(not_observed=(*box.not_observed, NotObserved("execs", UNSEEN)))


def _now() -> float:
    return round(time.time(), 6)
