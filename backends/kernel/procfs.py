"""Processes as proc(5) shows them: one scan of ``/proc/*/stat`` serves every box.

A process belongs to a box when it is in the box's process namespace: double forks, ``setsid`` and a change of
parent do not leave it. Which members a scan saw is told by their descent from init, as the kernel gives
orphans of the namespace to it; :func:`members` asks the namespace itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from backends.record import NamedTuple
from backends.values import ProcessId

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from backends.snapshots import ProcessRow

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Stat(NamedTuple):
    """The fields of proc_pid_stat(5) that Cloche shows; times in clock ticks, ``rss`` in bytes."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    tty: int
    utime: int
    stime: int
    threads: int
    start: int
    rss: int

    @property
    def ident(self) -> ProcessId:
        return ProcessId(self.pid, self.start)


def parse_stat(data: bytes) -> Stat:
    """One line of ``/proc/<pid>/stat``. The name may hold spaces and brackets: it ends at the last one."""
    opening, closing = data.index(b"("), data.rindex(b")")
    # One scan parses thousands of these: no field behind the last one wanted is split off.
    (
        state,
        parent,
        group,
        session,
        tty,
        _,
        _,
        _,
        _,
        _,
        _,
        utime,
        stime,
        _,
        _,
        _,
        _,
        threads,
        _,
        start,
        _,
        rss,
    ) = data[closing + 2 :].split(None, 22)[:22]
    return Stat(
        int(data[:opening]),
        data[opening + 1 : closing].decode("utf-8", "surrogateescape"),
        chr(state[0]),
        int(parent),
        int(group),
        int(session),
        int(tty),
        int(utime),
        int(stime),
        int(threads),
        int(start),
        int(rss) * PAGE,
    )


def read_stat(pid: int | str) -> Stat | None:
    """The process, or ``None`` when it is gone."""
    data = _read(f"/proc/{pid}/stat")
    return parse_stat(data) if data else None


def _read(path: str, limit: int = 4096) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    try:
        return os.read(fd, limit)
    except ProcessLookupError:
        return b""
    finally:
        os.close(fd)


def identify(pid: int) -> ProcessId | None:
    found = read_stat(pid)
    return found.ident if found else None


def alive(ident: ProcessId) -> bool:
    """Whether that very process still runs (a zombie does not)."""
    found = read_stat(ident.pid)
    return found is not None and found.start == ident.start and found.state not in "ZX"


class Scan(NamedTuple):
    """All processes of the host at one moment."""

    time: float  # seconds after boot
    stats: Mapping[int, Stat]
    children: Mapping[int, tuple[int, ...]]


def scan() -> Scan:
    stats: dict[int, Stat] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name[0] in "123456789":
            found = read_stat(name)
            if found:
                stats[found.pid] = found
                children.setdefault(found.parent, []).append(found.pid)
    return Scan(uptime(), stats, {parent: tuple(sorted(pids)) for parent, pids in children.items()})


def near(init: int) -> dict[int, Stat] | None:
    """What is below ``init`` by the kernel's lists of children (proc_pid_task_children(5)), by pid.

    Costs what the box has and not what the host has, so many boxes do not cost their square. The lists are
    exact only of processes that stand still: they are read until they tell nothing new, and a process that is
    born meanwhile may still be left out. For figures, not for ending a box. ``None`` where the kernel was
    built without such lists.
    """
    root = read_stat(init)
    if root is None:
        return {}
    found: dict[int, Stat] = {}
    threads = {init: root.threads}
    for _ in range(NEAR_PASSES):
        waiting = list(threads)
        grown = False
        while waiting:
            pid = waiting.pop()
            children = _children(pid, threads[pid])
            if children is None:
                return None
            for child in children:
                if child not in threads and (stat := read_stat(child)) is not None:
                    found[child], threads[child] = stat, stat.threads
                    waiting.append(child)
                    grown = True
        if not grown:
            break
    return found


NEAR_PASSES = 4


def _children(pid: int, threads: int) -> list[int] | None:
    """Children of all threads of a process; none of one that is gone."""
    tasks: Iterable[int | str] = (pid,)
    if threads > 1:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except (FileNotFoundError, ProcessLookupError):
            return []
    found: list[int] = []
    for task in tasks:
        try:
            fd = os.open(f"/proc/{pid}/task/{task}/children", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            if not os.path.exists("/proc/thread-self/children"):
                return None
            continue
        try:
            text = b""
            while data := os.read(fd, 1 << 16):
                text += data
            found += map(int, text.split())
        except ProcessLookupError:
            continue  # gone meanwhile
        finally:
            os.close(fd)
    return found


def uptime() -> float:
    return float(_read("/proc/uptime").split()[0])


def tree(
    now: Scan,
    init: ProcessId,
    before: Scan | None = None,
    sessions: Mapping[int, int] | None = None,
    *,
    commands: bool = True,
) -> tuple[ProcessRow, ...]:
    """The descendants of ``init`` in depth-first order, ``init`` itself not among them.

    CPU is measured against ``before``; ``sessions`` maps the pid of a session's first process to its number,
    which its descendants share. ``commands`` reads each argv, the costly part for long trees.
    """
    from backends.snapshots import ProcessRow  # no keeper needs it

    root = now.stats.get(init.pid)
    if root is None or root.start != init.start:
        return ()
    known = sessions or {}
    rows: list[ProcessRow] = []
    stack: list[tuple[int, int, int | None]] = [
        (pid, 0, None) for pid in reversed(now.children.get(init.pid, ()))
    ]
    while stack:
        pid, depth, session = stack.pop()
        found = now.stats[pid]
        session = known.get(pid, known.get(found.session, session))
        parent = now.stats.get(found.parent)
        rows.append(
            ProcessRow(
                ident=found.ident,
                parent=parent.ident if parent and parent.pid != init.pid else None,
                depth=depth,
                state=found.state,
                cpu=_cpu(found, now, before),
                rss=found.rss,
                age=max(0.0, now.time - found.start / TICKS),
                name=found.name,
                command=command(pid, found.name) if commands else found.name,
                session=session,
            )
        )
        stack.extend((child, depth + 1, session) for child in reversed(now.children.get(pid, ())))
    return tuple(rows)


def _cpu(found: Stat, now: Scan, before: Scan | None) -> float:
    earlier = before.stats.get(found.pid) if before else None
    if before is None or earlier is None or earlier.start != found.start or now.time <= before.time:
        return 0.0
    used = found.utime + found.stime - earlier.utime - earlier.stime
    return max(0.0, 100.0 * used / TICKS / (now.time - before.time))


def command(pid: int, name: str, limit: int = 4096) -> str:
    """argv joined by spaces, ``[name]`` for a process without one. As the process wrote it: untrusted."""
    data = _read(f"/proc/{pid}/cmdline", limit).rstrip(b"\0")
    return data.replace(b"\0", b" ").decode("utf-8", "surrogateescape") if data else f"[{name}]"


class Load(NamedTuple):
    """What the processes of a box come to: how many, percent of one core, resident bytes."""

    processes: int
    cpu: float
    rss: int


def load(now: Scan, init: ProcessId, before: Scan | None = None) -> Load:
    """The figures of :func:`tree` summed up, without making a row of each process."""
    found = descendants(now, init)
    return Load(len(found), sum(_cpu(one, now, before) for one in found), sum(one.rss for one in found))


def descendants(now: Scan, init: ProcessId) -> tuple[Stat, ...]:
    """All below ``init``, without reading more than the scan has."""
    root = now.stats.get(init.pid)
    if root is None or root.start != init.start:
        return ()
    out: list[Stat] = []
    stack = list(now.children.get(init.pid, ()))
    while stack:
        pid = stack.pop()
        out.append(now.stats[pid])
        stack.extend(now.children.get(pid, ()))
    return tuple(out)


def members(namespace: int, pids: Iterable[int] | None = None) -> tuple[int, ...]:
    """The pids (host's view) in the process namespace with inode ``namespace``; all of the host by default.

    Takes the right to look at each process: one's own boxes, or root.
    """
    out = []
    candidates = pids if pids is not None else (int(name) for name in os.listdir("/proc") if name.isdigit())
    for pid in candidates:
        try:
            if os.stat(f"/proc/{pid}/ns/pid").st_ino == namespace:
                out.append(pid)
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
    return tuple(out)
