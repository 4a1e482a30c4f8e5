"""Limits that nothing in the kernel holds for us here: look, and end what passed them.

Memory where no control group could be had, and the growth of what the box writes. Between two looks a box may
go past a limit; that is why they are shown as soft. The pace follows how near a limit is. Where control
groups do hold, their counters are read, so that a limit which was hit is counted too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from backends.keeper import census, disk, memory
from backends.keeper.census import Census, Process
from backends.keeper.denials import Refusal
from backends.keeper.log import Log
from backends.keeper.loop import Loop, Timer
from backends.kernel import inotify
from backends.policy.model import Resources
from backends.values import Enforcement, ProcessId

SLOW = 1.0  # seconds between looks at memory below half of the limit
SLOWEST = 8.0  # between looks at a box in which nothing happens, where control groups hold every limit
FAST = 0.1
LOOK_SHARE = 20  # a look at the processes that took t is repeated after 20 t at the earliest
SLICE = 0.004  # seconds that one step of a measurement may take
DISK_FIRST = 1.0
DISK_MOST = 30.0  # seconds between two measurements, unless the file system fills faster
DISK_SHARE = 20  # a measurement that took t is repeated after 20 t at the earliest
# Magic numbers of file systems that count what is written as taken at once (statfs(2)): ext4, tmpfs, XFS.
PROMPT = frozenset((0xEF53, 0x01021994, 0x58465342))
EVENTS = (
    ("memory.events", b"oom_kill", "resources.mem", "memory"),
    ("memory.oom_control", b"oom_kill", "resources.mem", "memory"),
    ("pids.events", b"max", "resources.procs", "processes"),
)
LANE = "keeper"


class Actions(NamedTuple):
    """What the limits may do to the box."""

    deny: Callable[[Refusal, int, str], None]
    kill: Callable[[ProcessId], None]
    kill_everything: Callable[[], None]
    busy: Callable[[], bool]


def described(rows: tuple[Enforcement, ...], resources: Resources) -> tuple[Enforcement, ...]:
    """The tier's rows, with what the keeper does where the tier holds a limit not or only for one process."""
    found = []
    for row in rows:
        if row.key == "resources.mem" and resources.mem is not None and not holds_memory(rows):
            does = (
                f"soft for the sum: looked at every {FAST} to {SLOW} s, the largest processes end beyond it; "
                "of a memory file only what an open descriptor or a mapping shows is counted"
            )
            enforced = does if row.enforced in ("", "not enforced") else f"{row.enforced}; {does}"
            row = row._replace(enforced=enforced, mechanism=_and(row.mechanism, "keeper's poll and SIGKILL"))
        elif row.key == "resources.disk" and resources.disk is not None:
            does = (
                "soft: tree, repository, home and journal are measured, an entry as "
                f"{disk.LEAST // 1024} KiB at least, every process ends beyond it"
            )
            row = row._replace(enforced=does, mechanism=_and(row.mechanism, "keeper's poll and SIGKILL"))
        found.append(row)
    return tuple(found)


def holds_memory(rows: tuple[Enforcement, ...]) -> bool:
    """Whether a control group holds the memory of the whole box, so that nobody has to look."""
    return any(row.key == "resources.mem" and "cgroup" in row.mechanism for row in rows)


def _and(first: str, second: str) -> str:
    return f"{first}, {second}" if first else second


class Limits:
    """``wake`` starts watching; it pauses by itself while the box has no process."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        resources: Resources,
        init: ProcessId,
        folders: tuple[str, ...],
        groups: tuple[str, ...],
        actions: Actions,
        *,
        memory_held: bool,
        base: int | None,
    ) -> None:
        self._loop = loop
        self._log = log
        self._init = init
        self._folders = folders
        self._actions = actions
        self._memory = None if memory_held else resources.mem
        self._procs = resources.procs
        self._full_of_processes = False
        self._group = next((path for group in groups if os.path.exists(path := f"{group}/pids.current")), "")
        self._disk = resources.disk
        self.base = base  # bytes in the folders before anything ran, kept from launch to launch
        self._counters = _Counters(groups)
        self._handled = 0
        self._still = 0  # looks in a row without anything between them
        self._timer: Timer | None = None
        self._measuring: Timer | None = None
        self._next_disk = 0.0
        self._places = _one_of_each(folders)
        self._prompt = all(_is_prompt(folder) for folder in self._places)
        self._space: tuple[int, ...] = ()  # left when the last measurement began
        self._measured = float("-inf")  # when that was
        self._free = 0
        self._headroom = 0
        self._used = 0
        if self._disk is not None and base is None:
            self.base = sum(size for folder in folders for size in disk.measure(folder))

    def wake(self) -> None:
        """A session is about to start."""
        if not self._actions.busy():
            self._full_of_processes = False
        if self._timer is None:
            self._timer = self._loop.later(0.0, self._look)

    def close(self) -> None:
        for timer in (self._timer, self._measuring):
            if timer is not None:
                timer.cancel()
        self._timer = self._measuring = None
        self.count_up()

    def _look(self) -> None:
        self._timer = None
        pause = SLOW
        try:
            self.count_up()
            seen = None
            began = time.monotonic()
            if self._memory is not None or (self._procs is not None and not self._group):
                seen = census.glance(self._init.pid)
            took = time.monotonic() - began
            if self._memory is not None and seen is not None:
                pause = self._look_at_memory(self._memory, seen)
            if self._procs is not None:
                # Looking at many processes takes time: not more than a twentieth of it goes there.
                pause = min(pause, max(took * LOOK_SHARE, self._look_at_processes(self._procs, seen)))
            if self._disk is not None:
                pause = min(pause, self._look_at_disk())
            if self._memory is None and self._disk is None and self._group:
                pause = self._longer(pause)
        finally:
            if self._actions.busy():
                self._timer = self._loop.later(pause, self._look)

    def _longer(self, pause: float) -> float:
        """The pause where looking only tells what the kernel refused: longer, the longer nothing happened.

        That programs of a box start, open or connect is seen by the keeper, and is something.
        """
        happened = self._loop.handled != self._handled or pause < SLOW
        self._handled = self._loop.handled
        self._still = 0 if happened else self._still + 1
        return min(pause * 2.0 ** min(self._still, 10), SLOWEST)

    def count_up(self) -> None:
        """Count what control groups refused since the last look."""
        for (_, _, rule, what), count in self._counters.new():
            for _ in range(min(count, 10_000)):
                self._actions.deny(Refusal("limit", what, rule, LANE, "control group"), 0, "")

    # ------------------------------------------------------------ memory

    def _look_at_memory(self, limit: int, seen: Census) -> float:
        files = memory.files(seen.processes)
        total = sum(process.rss for process in seen.processes.values()) + sum(one.size for one in files)
        if total > limit:
            # Resident sizes count a shared page in every process: only when they say "too much" is the
            # exact, slower figure worth reading.
            sizes, total = memory.shares(seen.processes.values(), files)
            if total > limit:
                self._relieve(sizes, total, limit)
        return SLOW if total < limit // 2 else FAST

    def _relieve(self, sizes: dict[Process, int], total: int, limit: int) -> None:
        """End the largest processes until what is left fits, as the kernel's own killer would."""
        for process, size in sorted(sizes.items(), key=lambda item: -item[1]):
            if total <= limit:
                return
            refusal = Refusal("limit", "memory", f"resources.mem = {limit}", LANE, "poll and SIGKILL")
            self._actions.deny(refusal, process.pid, _name(process.pid))
            self._actions.kill(process.ident)
            total -= size

    # ------------------------------------------------------------ processes

    def _look_at_processes(self, limit: int, seen: Census | None) -> float:
        """Count each time that the box came to be full: the kernel tells nobody which forks it refused then.

        A control group's own counter never moves, because RLIMIT_NPROC, which counts init too, refuses first.
        """
        if self._group:
            count = _number(self._group)
        else:
            count = 1 + sum(process.threads for process in seen.processes.values()) if seen else 0
        full = count >= limit
        if full and not self._full_of_processes:
            refusal = Refusal("limit", "processes", f"resources.procs = {limit}", LANE, "RLIMIT_NPROC")
            self._actions.deny(refusal, 0, "")
        self._full_of_processes = full
        return FAST if count > limit // 2 else SLOW

    # ------------------------------------------------------------ disk

    def _look_at_disk(self) -> float:
        now = time.monotonic()
        space = tuple(map(_free, self._places))
        free = min(space)
        # Whoever fills the file system, a drop of half of what is left to the box asks for a measurement.
        fell = self._free - free > max(self._headroom // 2, 1 << 20)
        due = now >= self._next_disk and not self._untouched(space, now)
        if self._measuring is None and (due or fell):
            self._space, self._measured = space, now
            self._free = free
            self._used = 0
            started = time.monotonic()
            steps = (size for folder in self._folders for size in disk.measure(folder))
            self._measure(steps, started)
        return 0.25 if self._headroom < (1 << 30) else SLOW

    def _untouched(self, space: tuple[int, ...], now: float) -> bool:
        """Whether nothing grew, because nothing was taken or given back on the whole file system.

        Whoever puts what counts for a box in place of as much that did not takes no more of the disk, and is
        found at the next change of any file there, or after :data:`DISK_MOST`.
        """
        return self._prompt and space == self._space and now < self._measured + DISK_MOST

    def _measure(self, steps: Iterator[int], started: float) -> None:
        """One slice of a measurement; the rest follows when others had their turn."""
        self._measuring = None
        until = time.monotonic() + SLICE
        try:
            for size in steps:
                self._used += size
                if self._disk is not None and self._used - (self.base or 0) > self._disk:
                    self._full("disk", f"resources.disk = {self._disk}")
                    break
                if time.monotonic() > until:
                    self._measuring = self._loop.later(0.001, lambda: self._measure(steps, started))
                    return
        except disk.TooDeep:
            self._full(f"folders nested deeper than {disk.MAX_DEPTH}", "resources.disk")
        except OSError as error:
            self._log.failure("disk", error)
        now = time.monotonic()
        self._headroom = max(0, (self._disk or 0) + (self.base or 0) - self._used)
        self._next_disk = now + min(DISK_MOST, max(DISK_FIRST, DISK_SHARE * (now - started)))

    def _full(self, what: str, rule: str) -> None:
        refusal = Refusal("limit", what, rule, LANE, "poll and SIGKILL to every process")
        self._actions.deny(refusal, 0, "")
        self._actions.kill_everything()


class _Counters:
    """Counters of control groups (cgroup-v2.rst, cgroup-v1/memory.rst), as growth since the last look."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        self._files = [
            (f"{group}/{row[0]}", row)
            for group in groups
            for row in EVENTS
            if os.path.exists(f"{group}/{row[0]}")
        ]
        self._last: dict[str, int] = {path: _counter(path, row[1]) for path, row in self._files}

    def new(self) -> list[tuple[tuple[str, bytes, str, str], int]]:
        found = []
        for path, row in self._files:
            count = _counter(path, row[1])
            if count > self._last[path]:
                found.append((row, count - self._last[path]))
                self._last[path] = count
        return found


def _counter(path: str, key: bytes) -> int:
    try:
        with open(path, "rb", buffering=0) as file:
            for line in file.read(4096).splitlines():
                words = line.split()
                if len(words) == 2 and words[0] == key:
                    return int(words[1])
    except OSError:
        return 0  # the group went with its box
    return 0


def _number(path: str) -> int:
    try:
        with open(path, "rb", buffering=0) as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return 0  # the group went with its box


def _name(pid: int) -> str:
    found = census.read(pid)
    if found is None:
        return ""
    with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
        return file.read(64).strip().decode("utf-8", "surrogateescape")


def _one_of_each(folders: tuple[str, ...]) -> tuple[str, ...]:
    """One folder of each file system among ``folders``."""
    return tuple({os.stat(folder).st_dev: folder for folder in folders}.values())


def _is_prompt(folder: str) -> bool:
    try:
        return inotify.file_system(os.fsencode(folder)) in PROMPT
    except OSError:
        return False


def _free(folder: str) -> int:
    """Bytes and inodes that are left, as one number that falls when either does."""
    found = os.statvfs(folder)
    return found.f_bfree * found.f_frsize + found.f_ffree * disk.LEAST
