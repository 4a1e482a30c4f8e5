"""Looking at names as a box sees them, from outside, without following a link out of its root.

Source: openat2(2), path_resolution(7). A box may change names while they are read: what is found is evidence
for the tally, and where nothing can be told with certainty that is said (``Untold``) instead of guessed.
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
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_IN_ROOT = 0x10
_IN_ROOT = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
_NO_LINKS = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS)
_PLAIN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_LINKS = 40  # as the kernel's own walk
MAX_STEPS = 2000  # names looked up for one path; what needs more costs the keeper too long
MAX_DEPTH = 64
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ENAMETOOLONG, errno.EXDEV)
# The box's own kernel walk ends with the same; EACCES may be one of ours alone (FUSE).
_CERTAIN = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
# File systems that may wait for somebody else; a keeper never asks them anything.
_REMOTE = ("nfs", "cifs", "smb", "fuse", "9p", "ceph", "afs", "autofs", "virtiofs", "glusterfs")


class Untold(Exception):
    """What a name means cannot be told from outside the process that used it."""


class Inside:
    """The root that a box's processes have; ``root`` is a descriptor of it, owned from now on."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._same = os.fstat(root)
        try:
            proc = os.stat(b"proc", dir_fd=root, follow_symlinks=False).st_dev
        except FileNotFoundError:
            proc = self._same.st_dev
        self._proc = None if proc == self._same.st_dev else proc  # the device of procfs, where there is one

    def open(self, name: bytes, base: int = -1) -> int:
        """An O_PATH descriptor of what ``name`` leads to, all links followed; relative ones from ``base``.

        Raises OSError where the kernel's walk would, and Untold for what depends on who asks (links of
        procfs) or takes too many steps.
        """
        absolute = name.startswith(b"/")
        try:
            start, how = (self._root, _IN_ROOT) if absolute else (base, _NO_LINKS)
            return syscall("openat2", start, name + b"\0", how, len(how))
        except OSError:
            # A link of procfs, one that a relative name meets, a rename meanwhile (EAGAIN), or nothing there.
            return self._walk(name, self._root if absolute else base)

    def _walk(self, name: bytes, start: int) -> int:
        """As ``open``, step by step: every folder is held while it is looked into, whoever renames it."""
        todo = name.split(b"/")[::-1]
        here = os.dup(start)
        links = steps = 0
        try:
            while todo:
                part = todo.pop()
                if part in (b"", b"."):
                    continue
                status = os.fstat(here)
                steps += 1
                if status.st_dev == self._proc or steps > MAX_STEPS:
                    raise Untold(os.fsdecode(part))
                if part == b".." and os.path.samestat(status, self._same):
                    continue
                below = os.open(part, _PLAIN, dir_fd=here)
                if stat.S_ISLNK(os.fstat(below).st_mode):
                    try:
                        said = os.readlink(b"", dir_fd=below)
                    finally:
                        os.close(below)
                    links += 1
                    if links > MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    todo += said.split(b"/")[::-1]
                    if not said.startswith(b"/"):
                        continue
                    below = os.dup(self._root)
                os.close(here)
                here = below
        except BaseException:
            os.close(here)
            raise
        return here

    def program(self, name: bytes, base: int = -1) -> int | None:
        """What an execve(2) of ``name`` comes to: 0 for a file with an execute bit, else its errno.

        None when it cannot be told. An empty ``name`` means ``base`` itself (AT_EMPTY_PATH).
        """
        try:
            fd = self.open(name, base) if name else os.dup(base)
        except Untold:
            return None
        except OSError as error:
            return error.errno if error.errno in _CERTAIN else None
        try:
            mode = os.fstat(fd).st_mode
        finally:
            os.close(fd)
        return 0 if stat.S_ISREG(mode) and mode & 0o111 else errno.EACCES

    def resolve(self, path: bytes) -> bytes | None:
        """Where ``path`` leads inside, all links followed; None when nothing is there."""
        try:
            fd = self.open(path)
        except Untold:
            return None
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        try:
            return os.readlink(b"/proc/self/fd/%d" % fd)
        finally:
            os.close(fd)

    def folder(self, path: bytes) -> int:
        """The device of the folder at ``path``, whose last part is not followed; 0 when it is none."""
        how = struct.pack("=QQQ", _PLAIN, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
        try:
            fd = syscall("openat2", self._root, path + b"\0", how, len(how))
        except OSError as error:
            if error.errno in _ABSENT:
                return 0
            raise
        try:
            status = os.fstat(fd)
            return status.st_dev if stat.S_ISDIR(status.st_mode) else 0
        finally:
            os.close(fd)

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
                if os.fstat(fd).st_dev == self._proc:
                    return None  # a link of procfs says something else to everybody
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

    def names(self, path: bytes, status: os.stat_result) -> bool:
        """Whether ``path`` (absolute) leads to the file that has ``status``."""
        try:
            fd = self.open(path)
        except (Untold, OSError):
            return False
        try:
            return os.path.samestat(os.fstat(fd), status)
        finally:
            os.close(fd)

    def link(self, path: bytes) -> bytes:
        """What the link at ``path`` says, itself not followed; raises OSError."""
        return os.readlink(path.lstrip(b"/"), dir_fd=self._root)

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
