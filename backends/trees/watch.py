"""Telling that something in a box's tree changed, without following a link out of it (inotify(7)).

Not by the library for watching files: it resolves paths, so a link to ``/`` in a tree made it watch the host,
and it cannot add a new folder without beginning anew. Here every folder is opened below its parent with
``O_NOFOLLOW`` and watched by that descriptor; what changed is not told, only that a look is due.
"""

from __future__ import annotations

import errno
import os
import select
import struct
from collections import deque
from pathlib import Path
from types import TracebackType

from backends.kernel import inotify
from backends.kernel.inotify import (
    IN_ATTRIB,
    IN_CLOSE_WRITE,
    IN_CREATE,
    IN_DELETE,
    IN_EXCL_UNLINK,
    IN_IGNORED,
    IN_ISDIR,
    IN_MODIFY,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    IN_ONLYDIR,
    IN_Q_OVERFLOW,
)
from backends.trees.names import is_dotgit

MASK = (
    IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
    | IN_ONLYDIR | IN_EXCL_UNLINK
)  # fmt: skip
EVENT = struct.Struct("=iIII")  # struct inotify_event: wd, mask, cookie, len
MOST = 4096  # folders; each watch holds kernel memory that all programs of the user share
DEEPEST = 128
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def of_writes(folder: str) -> int:
    """A descriptor that is readable once a file directly in ``folder`` was written; ``OSError``."""
    fd = inotify.create()
    try:
        inotify.add(fd, os.fsencode(folder), IN_MODIFY | IN_ONLYDIR)
    except OSError:
        os.close(fd)
        raise
    return fd


class TreeWatch:
    """Watches the folders of one tree; for one thread. Costs nothing while nothing happens."""

    def __init__(self, tree: Path, *, most: int = MOST) -> None:
        """Raises ``OSError`` when ``tree`` is no folder or the user has no inotify instance left."""
        self._most = most
        self._folders: dict[int, bytes] = {}  # watch descriptor: path in the tree
        self.complete = True
        """False when folders are left out (too many, or no watches left): then look now and then."""
        self._root = os.open(tree, FOLDER_FLAGS)
        try:
            self._fd = inotify.create()
        except OSError:
            os.close(self._root)
            raise
        try:
            self._scan(b"")
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Readable when :meth:`changed` has something to say."""
        return self._fd

    @property
    def folders(self) -> int:
        """How many folders are watched."""
        return len(self._folders)

    def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds; whether anything changed meanwhile."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(timeout * 1000)) and self.changed()

    def changed(self) -> bool:
        """Take what the kernel queued, watch new folders; whether anything changed since the last call."""
        seen = False
        again: set[bytes] = set()
        while data := self._read():
            at = 0
            while at < len(data):
                wd, mask, _, length = EVENT.unpack_from(data, at)
                name = data[at + EVENT.size : at + EVENT.size + length].rstrip(b"\0")
                at += EVENT.size + length
                if mask & IN_IGNORED:
                    self._folders.pop(wd, None)
                    continue
                seen = True
                if mask & IN_Q_OVERFLOW or (mask & IN_ISDIR and mask & (IN_MOVED_FROM | IN_MOVED_TO)):
                    again.add(b"")  # paths below what moved are no longer what they were
                elif mask & IN_ISDIR and mask & IN_CREATE and wd in self._folders:
                    again.add(_join(self._folders[wd], name))
        for path in {b""} if b"" in again else again:
            self._scan(path)
        return seen

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._root)

    def __enter__(self) -> TreeWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return b""

    def _scan(self, start: bytes) -> None:
        """Watch ``start`` and every folder below, those near the top first."""
        waiting = deque([start])
        while waiting:
            path = waiting.popleft()
            if path.count(b"/") >= DEEPEST:
                self.complete = False
                continue
            fd = self._open(path)
            if fd is None:
                continue
            try:
                if not self._add(fd, path):
                    return
                with os.scandir(fd) as listing:
                    for entry in listing:
                        name = os.fsencode(entry.name)
                        if entry.is_dir(follow_symlinks=False) and not is_dotgit(name):
                            waiting.append(_join(path, name))
            except FileNotFoundError:
                continue  # gone meanwhile, which is an event of its own
            finally:
                os.close(fd)

    def _open(self, path: bytes) -> int | None:
        """A descriptor of a folder of the tree, each step without links; ``None`` when it is none."""
        fd = os.dup(self._root)
        for name in path.split(b"/") if path else ():
            try:
                below = os.open(name, FOLDER_FLAGS, dir_fd=fd)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EMFILE, errno.ENFILE):
                    self.complete = False
                return None
            finally:
                os.close(fd)
            fd = below
        return fd

    def _add(self, fd: int, path: bytes) -> bool:
        """Watch the folder open on ``fd``; False when no more can be watched."""
        if len(self._folders) >= self._most:
            self.complete = False
            return False
        # By its name in proc: inotify has no call that takes a descriptor.
        try:
            wd = inotify.add(self._fd, b"/proc/self/fd/%d" % fd, MASK)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EACCES, errno.ENOMEM):
                raise
            self.complete = False
            return error.errno == errno.EACCES
        self._folders[wd] = path
        return True


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name
