"""How much a folder that a box writes holds, measured in small steps and never through a link.

Folders are opened one below the other by descriptor (O_NOFOLLOW): the box may swap names while they are read,
and what is measured is still inside. Sizes are allocated blocks, so that a sparse file costs what it uses; an
entry without any costs an inode, which a file system has only so many of, and counts as a page does in tmpfs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from backends.record import NamedTuple

MAX_DEPTH = 200  # folders below each other; deeper ones cannot be measured
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512  # unit of st_blocks, stat(2)
LEAST = 4096  # bytes that any entry counts for


class TooDeep(Exception):
    """Folders are nested deeper than a measurement goes."""


class _Entered(NamedTuple):
    fd: int
    entries: Iterator[os.DirEntry[str]]
    mode: int | None  # that the folder gets back, if it had to be opened up

    def leave(self) -> None:
        if self.mode is not None:
            os.fchmod(self.fd, self.mode)
        os.close(self.fd)


def measure(path: str) -> Iterator[int]:
    """Yields the bytes of one entry after the other; whoever sums them may pause in between.

    Files with several links are counted once. ``path`` may be a file. Raises TooDeep, OSError for ``path``.
    """
    status = os.lstat(path)
    if stat.S_ISREG(status.st_mode):
        yield status.st_blocks * _BLOCK
        return
    seen: set[tuple[int, int]] = set()
    stack: list[_Entered] = []
    try:
        stack.append(_enter(path, None))
        while stack:
            entry = next(stack[-1].entries, None)
            if entry is None:
                stack.pop().leave()
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
                below = _below(stack[-1].fd, entry.name)
                if below is not None:
                    stack.append(below)
    finally:
        for entered in stack:
            entered.leave()


def _below(parent: int, name: str) -> _Entered | None:
    try:
        return _enter(name, parent)
    except OSError:
        return (
            None  # gone, swapped for something else, or another user's: its entries cost nothing we can see
        )


def _enter(name: str, parent: int | None) -> _Entered:
    """Also a folder that its owner, who we may be too, closed: what is in it is on the disk."""
    mode = None
    try:
        fd = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        handle = os.open(name, _HANDLE, dir_fd=parent)
        try:
            mode = _open_up(handle)
            fd = os.open(f"/proc/self/fd/{handle}/.", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(handle)
    try:
        status = os.fstat(fd)
        if mode is None and not status.st_mode & stat.S_IXUSR and status.st_uid == os.geteuid():
            mode = _open_up(fd)  # its names could be read, and no entry looked at
        return _Entered(fd, os.scandir(fd), mode)
    except OSError:
        os.close(fd)
        raise


def _open_up(fd: int) -> int:
    """Let the owner list and search a folder; returns the mode that it had."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    os.chmod(f"/proc/self/fd/{fd}", mode | stat.S_IRUSR | stat.S_IXUSR)  # this very inode, by any descriptor
    return mode
