"""How much memory a box's processes hold, files that live in memory alone among it.

A file of memfd_create(2) counts in nobody's resident size until it is mapped and touched. It is found by the
descriptors that are open to it; one that waits in a socket, or whose owner closed itself to us, is not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from backends.keeper.census import Process
from backends.record import NamedTuple

MAX_DESCRIPTORS = 20_000  # looked at for one figure; each costs two microseconds
_BLOCK = 512  # unit of st_blocks, stat(2)
_PSS, _SHMEM = b"Pss:", b"Pss_Shmem:"


class File(NamedTuple):
    """A file without a name, in memory: its bytes, and the pids that have it open."""

    size: int
    holders: tuple[int, ...]


def files(processes: Mapping[int, Process]) -> tuple[File, ...]:
    """The memory files that ``processes`` have open."""
    found: dict[int, tuple[int, list[int]]] = {}
    left = MAX_DESCRIPTORS
    device = _device()
    for pid in processes:
        try:
            folder = os.open(f"/proc/{pid}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue  # gone, or closed to us
        try:
            for name in os.listdir(folder)[:left]:
                left -= 1
                try:
                    status = os.stat(name, dir_fd=folder)
                except OSError:
                    continue  # closed meanwhile
                if status.st_dev == device and status.st_blocks:
                    _, holders = found.setdefault(status.st_ino, (status.st_blocks * _BLOCK, []))
                    if pid not in holders[-1:]:
                        holders.append(pid)
        except OSError:
            continue  # gone meanwhile
        finally:
            os.close(folder)
    return tuple(File(size, tuple(holders)) for size, holders in found.values())


_known: list[int] = []


def _device() -> int:
    """The device of the kernel's own tmpfs, where all files of memfd_create(2) are."""
    if not _known:
        fd = os.memfd_create("cloche", os.MFD_CLOEXEC)
        _known.append(os.fstat(fd).st_dev)
        os.close(fd)
    return _known[0]


def shares(processes: Iterable[Process], held: tuple[File, ...]) -> tuple[dict[Process, int], int]:
    """Bytes of each process, what is shared divided by its users, and the sum of all.

    A memory file that is mapped counts once in the sum.
    """
    sizes: dict[Process, int] = {}
    mapped = 0
    by_pid = {}
    for process in processes:
        sizes[process], shared = _share(process)
        mapped += shared
        by_pid[process.pid] = process
    total = sum(sizes.values())
    for file in held:
        for pid in file.holders:
            sizes[by_pid[pid]] += file.size // len(file.holders)
    in_files = sum(file.size for file in held)
    return sizes, total + max(0, in_files - mapped)


def _share(process: Process) -> tuple[int, int]:
    """Bytes of a process, and how much of it is shared memory (smaps_rollup, proc(5))."""
    found = {}
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", "rb", buffering=0) as file:
            for line in file.read(4096).splitlines():
                key, _, value = line.partition(b" ")
                if key in (_PSS, _SHMEM):
                    found[key] = int(value.split()[0]) * 1024
    except OSError:
        return process.rss, 0
    return found.get(_PSS, process.rss), found.get(_SHMEM, 0)
