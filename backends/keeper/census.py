"""Which processes a box has, from one scan of /proc (proc_pid_stat(5)).

Every process of a box descends from its init: orphans are handed to it (pid 1 of a pid namespace, or a child
subreaper). So the box is init's subtree, at every tier, whatever its members call themselves.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

from backends.kernel import procfs
from backends.record import NamedTuple
from backends.values import ProcessId


class Process(NamedTuple):
    """One live process; zombies are left out of a census."""

    pid: int
    start: int  # clock ticks after boot
    parent: int
    group: int
    session: int
    rss: int  # bytes, shared pages counted in each
    threads: int = 1

    @property
    def ident(self) -> ProcessId:
        return ProcessId(self.pid, self.start)


class Census:
    """The processes of one box at one moment, init not among them."""

    def __init__(self, processes: dict[int, Process]) -> None:
        self.processes = processes

    def __len__(self) -> int:
        return len(self.processes)


_beside: list[int] = []


def beside(pids: Iterable[int]) -> None:
    """From which processes the box's descend besides init: where init is a steward of the host, the first
    one inside, to which orphans are handed. It is none of them itself. A keeper has one box."""
    _beside[:] = pids


def take(init: int) -> Census:
    """Scan /proc for everything below ``init``."""
    now = procfs.scan()
    found: dict[int, Process] = {}
    queue = [child for root in (init, *_beside) for child in now.children.get(root, ())]
    while queue:
        pid = queue.pop()
        queue.extend(now.children.get(pid, ()))
        process = _process(now.stats[pid])
        if process is not None:
            found[pid] = process
    return Census(found)


def glance(init: int, known: Iterable[ProcessId] = ()) -> Census:
    """Everything below ``init`` at a cost that does not grow with the host, for figures: a process that was
    born in the moment of the look may be missing. One of ``known`` that lives is not.
    """
    stats = procfs.near(init)
    for root in _beside:
        more = procfs.near(root)
        stats = None if more is None or stats is None else {**stats, **more}
    if stats is None:
        return take(init)
    found = {pid: process for pid, stat in stats.items() if (process := _process(stat)) is not None}
    for ident in known:
        if ident.pid not in found and (process := read(ident.pid)) is not None and process.ident == ident:
            found[ident.pid] = process
    return Census(found)


def read(pid: int) -> Process | None:
    """One process; None when it is gone or a zombie."""
    found = procfs.read_stat(pid)
    return _process(found) if found else None


def _process(stat: procfs.Stat) -> Process | None:
    rss = stat.rss
    if stat.state in "ZX":
        # A process whose first thread ended shows as a zombie without memory while its other threads run.
        if stat.threads <= 1:
            return None
        rss = _rss_of_threads(stat.pid)
    return Process(stat.pid, stat.start, stat.parent, stat.group, stat.session, rss, stat.threads)


def _rss_of_threads(pid: int) -> int:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = (procfs.read_stat(f"{pid}/task/{thread}") for thread in threads[:64])
    return max((stat.rss for stat in found if stat), default=0)


def children(init: int) -> bool:
    """Whether init, which has one thread, has children, zombies included, or what stands beside it has."""
    return any(map(_children, (init, *_beside)))


def _children(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb", buffering=0) as file:
            return bool(file.read(16).strip())
    except (FileNotFoundError, ProcessLookupError):
        return False


def collect(name: str) -> None:
    """Collect ended children of that name; whoever waits for another child finds it still."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        found = procfs.read_stat(ended.si_pid) if ended else None
        if found is None or found.name != name:
            return
        os.waitpid(found.pid, 0)


def send(ident: ProcessId, number: int) -> bool:
    """Signal that very process; False when it is gone."""
    try:
        pidfd = os.pidfd_open(ident.pid)
    except (ProcessLookupError, OSError):
        return False
    try:
        # Only once the descriptor is held can the pid no longer be reused between check and signal.
        found = read(ident.pid)
        if found is None or found.start != ident.start:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True
