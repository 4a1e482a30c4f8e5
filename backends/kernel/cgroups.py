"""Control groups: limits on a whole process tree, in version 1 and 2, where we may make a group.

Source: cgroups(7), ``Documentation/admin-guide/cgroup-v2.rst`` and ``cgroup-v1/``. A group that cannot be had
is an answer, not an error: the caller says what is missing.
"""

from __future__ import annotations

import errno
import os
import time

from backends import injected
from backends.kernel.mounts import mount_points
from backends.record import NamedTuple

PREFIX = "cloche-"
STALE = 600.0  # seconds after which an empty group is one that its keeper could not remove
PIDS = "pids"
MEMORY = "memory"


class Hierarchy(NamedTuple):
    """Where a controller's groups can be made: the parent folder and the version, 1 or 2."""

    controller: str
    version: int
    parent: str


class Groups(NamedTuple):
    """The groups of one box. ``held`` names the controllers whose limit is set."""

    folders: tuple[str, ...]
    held: tuple[tuple[str, str], ...]  # (controller, mechanism)
    missing: tuple[tuple[str, str], ...]  # (controller, why)


def own_groups() -> dict[str, str]:
    """Our own group by controller; ``""`` is version 2 (``/proc/self/cgroup``)."""
    groups: dict[str, str] = {}
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            for controller in controllers.split(","):
                groups[controller] = path
    return groups


def find(controller: str) -> Hierarchy | str:
    """Where a group with ``controller`` can be made by us, or the reason why nowhere."""
    if injected.how("delegation"):
        return f"no cgroup above us hands on the {controller} controller (no delegation){injected.MARK}"
    groups = own_groups()
    roots = [point for point in mount_points() if point.kind in ("cgroup", "cgroup2")]
    if controller in groups:
        for point in roots:
            root = os.fsdecode(point.target)
            if point.kind == "cgroup" and controller in os.path.basename(root).split(","):
                parent = root + groups[controller].rstrip("/")
                if os.access(parent, os.W_OK):
                    return Hierarchy(controller, 1, parent)
                return f"the cgroup {parent} is not ours to write (no delegation)"
        return f"the {controller} hierarchy is not mounted"
    for point in roots:
        if point.kind == "cgroup2":
            return _find_v2(controller, os.fsdecode(point.target), groups.get("", "/"))
    return "no cgroup file system is mounted"


def _find_v2(controller: str, root: str, own: str) -> Hierarchy | str:
    """The nearest ancestor that hands the controller on and lets us both make a group and move into it."""
    if controller not in _words(f"{root}/cgroup.controllers"):
        return f"the kernel offers no {controller} controller here"
    path = own.rstrip("/")
    while True:
        folder = root + path
        if controller in _words(f"{folder}/cgroup.subtree_control"):
            if os.access(folder, os.W_OK) and os.access(f"{folder}/cgroup.procs", os.W_OK):
                return Hierarchy(controller, 2, folder)
            return f"the cgroup {folder} is not ours to write (no delegation)"
        if not path:
            return f"no cgroup above us hands on the {controller} controller (no delegation)"
        path = path.rpartition("/")[0]


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


def create(name: str, *, procs: int | None, memory: int | None) -> Groups:
    """Makes the groups of one box under ``cloche-<name>`` with those limits that are asked for."""
    folders: list[str] = []
    held: list[tuple[str, str]] = []
    missing: list[tuple[str, str]] = []
    for controller, value in ((PIDS, procs), (MEMORY, memory)):
        if value is None:
            continue
        where = find(controller)
        if isinstance(where, str):
            missing.append((controller, where))
            continue
        folder = f"{where.parent}/{PREFIX}{name}"
        try:
            if folder not in folders:
                os.mkdir(folder)
                folders.append(folder)
            _limit(folder, where, value)
        except OSError as error:
            missing.append((controller, f"{folder}: {os.strerror(error.errno or 0)}"))
        else:
            held.append((controller, f"cgroup v{where.version} {controller}"))
    return Groups(tuple(folders), tuple(held), tuple(missing))


def _limit(folder: str, where: Hierarchy, value: int) -> None:
    if where.controller == PIDS:
        _put(f"{folder}/pids.max", value)
    elif where.version == 2:
        _put(f"{folder}/memory.max", value)
        _put_if_there(f"{folder}/memory.swap.max", 0)
    else:
        _put(f"{folder}/memory.limit_in_bytes", value)
        # Memory and swap together, or swapping dodges the limit; absent without swap accounting.
        _put_if_there(f"{folder}/memory.memsw.limit_in_bytes", value)


def _put(path: str, value: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def _put_if_there(path: str, value: int) -> None:
    if os.path.exists(path):
        _put(path, value)


def enter(groups: Groups, pid: int) -> None:
    """Moves a process (its later children follow) into the groups."""
    for folder in groups.folders:
        _put(f"{folder}/cgroup.procs", pid)


def sweep(folders: tuple[str, ...]) -> None:
    """Removes the empty groups beside ``folders``, of boxes whose keeper was killed.

    A young one may be about to be entered. Some milliseconds where a host has many groups: for a caller whom
    nobody waits for.
    """
    for parent in {os.path.dirname(folder) for folder in folders}:
        _sweep(parent)


def _sweep(parent: str) -> None:
    for name in os.listdir(parent):
        folder = f"{parent}/{name}"
        if not name.startswith(PREFIX):
            continue
        try:
            if time.time() - os.stat(folder).st_mtime > STALE:
                os.rmdir(folder)
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOENT, errno.EACCES, errno.EPERM):
                raise


def remove(folders: tuple[str, ...], *, patience: float = 1.0) -> tuple[str, ...]:
    """Removes empty groups, waiting up to ``patience`` seconds for the last processes to leave.

    Returns the folders that are still there.
    """
    left = []
    deadline = time.monotonic() + patience
    for folder in folders:
        while True:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    left.append(folder)
                    break
                time.sleep(0.005)
            else:
                break
    return tuple(left)
