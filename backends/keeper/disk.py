"""How much a folder that a box writes holds, measured in small steps and never through a link.

Folders are opened one below the other by descriptor (O_NOFOLLOW): the box may swap names while they are read,
and what is measured is still inside. Sizes are allocated blocks, so that a sparse file costs what it uses; an
entry without any costs an inode, which a file system has only so many of, and counts as a page does in tmpfs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

MAX_DEPTH = 200  # folders below each other; deeper ones cannot be measured
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512  # unit of st_blocks, stat(2)
LEAST = 4096  # bytes that any entry counts for


class TooDeep(Exception):
    """Folders are nested deeper than a measurement goes."""


def measure(path: str) -> Iterator[int]:
    """Yields the bytes of one entry after the other; whoever sums them may pause in between.

    Files with several links are counted once. Raises TooDeep, OSError for the folder itself.
    """
    seen: set[tuple[int, int]] = set()
    stack: list[tuple[int, Iterator[os.DirEntry[str]]]] = []
    try:
        stack.append(_enter(os.open(path, _FOLDER)))
        while stack:
            fd, entries = stack[-1]
            entry = next(entries, None)
            if entry is None:
                os.close(fd)
                stack.pop()
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                key = (status.st_dev, status.st_ino)
                if key in seen:
                    continue
                seen.add(key)
            yield max(LEAST, status.st_blocks * _BLOCK)
            if stat.S_ISDIR(status.st_mode):
                if len(stack) >= MAX_DEPTH:
                    raise TooDeep(entry.name)
                below = _below(fd, entry.name)
                if below is not None:
                    stack.append(below)
    finally:
        for fd, _ in stack:
            os.close(fd)


def _enter(fd: int) -> tuple[int, Iterator[os.DirEntry[str]]]:
    try:
        return fd, os.scandir(fd)
    except OSError:
        os.close(fd)
        raise


def _below(parent: int, name: str) -> tuple[int, Iterator[os.DirEntry[str]]] | None:
    try:
        return _enter(os.open(name, _FOLDER, dir_fd=parent))
    except OSError:
        return None  # gone, swapped for something else, or closed to us: its entries cost nothing we can see
