"""Looking at names as a box sees them, from outside, without following a link out of its root.

Source: openat2(2). Everything here is evidence for the tally: a box may change names while they are read.
"""

from __future__ import annotations

import errno
import os
import stat
import struct

from backends.keeper.reach import normal
from backends.kernel import mounts
from backends.kernel.syscalls import syscall

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_IN_ROOT = 0x10
_HOW = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
_PLAIN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_LINKS = 8
MAX_DEPTH = 64
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG, errno.EXDEV)
# File systems that may wait for somebody else; a keeper never asks them anything.
_REMOTE = ("nfs", "cifs", "smb", "fuse", "9p", "ceph", "afs", "autofs", "virtiofs", "glusterfs")


class Inside:
    """The root that a box's processes have; ``root`` is a descriptor of it, owned from now on."""

    def __init__(self, root: int) -> None:
        self._root = root

    def resolve(self, path: bytes) -> bytes | None:
        """Where ``path`` leads inside, all links followed; None when nothing is there."""
        try:
            fd = syscall("openat2", self._root, path + b"\0", _HOW, len(_HOW))
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        try:
            return os.readlink(b"/proc/self/fd/%d" % fd)
        finally:
            os.close(fd)

    def executable(self, path: bytes) -> bool:
        """Whether an execve(2) of ``path`` finds a file with an execute bit."""
        try:
            fd = syscall("openat2", self._root, path + b"\0", _HOW, len(_HOW))
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise
        try:
            mode = os.fstat(fd).st_mode
        finally:
            os.close(fd)
        return stat.S_ISREG(mode) and bool(mode & 0o111)

    def target(self, path: bytes) -> bytes:
        """The name that ``path`` (absolute, normal) stands for, following links also to what is not there.

        That is how a link to a place outside shows: inside, its target does not exist.
        """
        found = self.resolve(path)
        if found is not None:
            return found
        links = 0
        while True:
            step = self._first_link(path)
            links += 1
            if step is None or links > MAX_LINKS:
                return path
            path = step

    def _first_link(self, path: bytes) -> bytes | None:
        """``path`` with its first link replaced by what the link says; None when no part of it is one."""
        parts = path.split(b"/")[1:]
        fd = os.dup(self._root)
        try:
            for index, part in enumerate(parts[:MAX_DEPTH]):
                try:
                    below = os.open(part, _PLAIN, dir_fd=fd)
                except OSError as error:
                    if error.errno in _ABSENT:
                        return None
                    raise
                os.close(fd)
                fd = below
                if stat.S_ISLNK(os.fstat(fd).st_mode):
                    said = os.readlink(b"", dir_fd=fd)
                    before = b"" if said.startswith(b"/") else b"/" + b"/".join(parts[:index]) + b"/"
                    return normal(before + said + b"/" + b"/".join(parts[index + 1 :]))
            return None
        finally:
            os.close(fd)

    def close(self) -> None:
        os.close(self._root)


class Host:
    """What the host has at a path; remote file systems are not asked."""

    def __init__(self) -> None:
        self._remote = tuple(m.target for m in mounts.mount_points() if m.kind.startswith(_REMOTE))
        self._homes = tuple({b"/root", b"/home", os.fsencode(os.path.expanduser("~"))} - {b"/"})

    def may_have(self, path: bytes) -> bool:
        """Whether the host has something at ``path``, or it cannot be told; always for people's homes.

        Programs try many names that exist nowhere. A name that the host does not have was not refused by the
        boundary; a look into a home is worth a row whether it would have found something or not.
        """
        if any(path == home or path.startswith(home + b"/") for home in self._homes):
            return True
        return self.has(path)

    def has(self, path: bytes) -> bool:
        """Whether the host has something at ``path``, or it cannot be told."""
        if any(path == point or path.startswith(point + b"/") for point in self._remote):
            return True
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True
