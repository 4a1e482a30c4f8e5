"""Processes as proc(5) shows them: one scan of ``/proc/*/stat`` serves every box.

A process belongs to a box when it is in the box's process namespace: double forks, ``setsid`` and a change of
parent do not leave it. Which members a scan saw is told by their descent from init, as the kernel gives
orphans of the namespace to it; :func:`members` asks the namespace itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from backends.values import ProcessId

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
    name = data[opening + 1 : closing].decode("utf-8", "surrogateescape")
    fields = data[closing + 2 :].split()
    return Stat(
        pid=int(data[:opening]),
        name=name,
        state=chr(fields[0][0]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        tty=int(fields[4]),
        utime=int(fields[11]),
        stime=int(fields[12]),
        threads=int(fields[17]),
        start=int(fields[19]),
        rss=int(fields[21]) * PAGE,
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
