"""What a name means that a process passed to a system call: its own folder, descriptors and links of procfs.

Names are taken at the process, by its thread id as the host sees it; whoever asks holds its notification, so
that the id stays its own. Source: proc(5), path_resolution(7).
"""

from __future__ import annotations

import errno
import os

from backends.keeper.inside import Inside, Untold
from backends.keeper.reach import normal

AT_FDCWD = 0xFFFFFF9C  # -100, as a register shows it
DEEPER = "/…".encode()  # stands for folders below a path that is too long to be told
_GONE = (errno.ENOENT, errno.ESRCH)
_MAX_CLIMB = 4096
_MAX_LINKS = 8


def anchor(thread: int, dirfd: int) -> bytes:
    """The link of procfs to the folder that relative names start from."""
    number = dirfd & 0xFFFFFFFF
    return b"/proc/%d/cwd" % thread if number == AT_FDCWD else b"/proc/%d/fd/%d" % (thread, number)


def base(thread: int, dirfd: int) -> int:
    """An O_PATH descriptor of that folder (or file). Raises Untold, FileNotFoundError for no descriptor."""
    try:
        return os.open(anchor(thread, dirfd), os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _GONE:
            raise FileNotFoundError(errno.ENOENT, "no such descriptor") from error
        raise Untold("a descriptor that is closed to us") from error


def absolute(thread: int, dirfd: int, name: bytes, inside: Inside | None) -> bytes:
    """``name`` as an absolute, normal path; links are not followed, but for those of procfs.

    Below a folder whose own path is too long, the end of the folder's path is told as an ellipsis. Raises
    Untold, and FileNotFoundError when ``dirfd`` is no descriptor.
    """
    if name.startswith(b"/"):
        return through(thread, normal(name), inside)
    try:
        start = os.readlink(anchor(thread, dirfd))
    except OSError as error:
        if error.errno in _GONE:
            raise FileNotFoundError(errno.ENOENT, "no such descriptor") from error
        if error.errno != errno.ENAMETOOLONG:
            raise Untold("a descriptor that is closed to us") from error
        return _below_long(thread, dirfd, name, inside)
    return through(thread, normal(start + b"/" + name if name else start), inside)


def _below_long(thread: int, dirfd: int, name: bytes, inside: Inside | None) -> bytes:
    """``name`` below a folder whose path does not fit into PATH_MAX."""
    folder, slash, last = name.rpartition(b"/")
    here = base(thread, dirfd)
    try:
        if slash:
            if inside is None:
                raise Untold("the box's root is closed to us")
            try:
                there = inside.open(folder, here)
            except OSError as error:
                raise Untold("a folder on the way") from error
            os.close(here)
            here = there
        ending = b"/" + last
        for _ in range(_MAX_CLIMB):
            try:
                return normal(os.readlink(b"/proc/self/fd/%d" % here) + ending)
            except OSError as error:
                if error.errno != errno.ENAMETOOLONG:
                    raise Untold("a folder on the way") from error
            above = os.open(b"..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = above
            ending = DEEPER + b"/" + last
        raise Untold("a folder that is too deep")
    finally:
        os.close(here)


def through(thread: int, path: bytes, inside: Inside | None) -> bytes:
    """``path`` (absolute, normal) with what its links of procfs stand for: they lead everywhere at once.

    ``/proc/self/root/etc/shadow`` is ``/etc/shadow``, ``/dev/fd/3`` what the caller holds as 3.
    """
    for _ in range(_MAX_LINKS):
        found = _magic(path)
        if found is None:
            return path
        who, link, rest = found
        try:
            if who in (b"self", b"thread-self"):
                said = os.readlink(b"/proc/%d/%s" % (thread, link))
            elif inside is None:
                return path
            else:
                said = inside.link(b"/proc/%s/%s" % (who, link))
        except OSError as error:
            if error.errno in (*_GONE, errno.ENOTDIR, errno.EINVAL):
                return path
            raise Untold("a link of procfs that is closed to us") from error
        if not said.startswith(b"/"):
            return path  # a pipe, a socket, a memfd
        path = normal(said + b"/" + rest)
    raise Untold("links of procfs that lead on and on")


def _magic(path: bytes) -> tuple[bytes, bytes, bytes] | None:
    """(process, link, rest) of a path that goes through a link of procfs to a file or folder."""
    if path.startswith(b"/dev/fd/"):
        path = b"/proc/self/fd/" + path[8:]
    if not path.startswith(b"/proc/"):
        return None
    parts = path.split(b"/")[2:]
    who, parts = parts[0], parts[1:]
    if not who.isdigit() and who not in (b"self", b"thread-self"):
        return None
    if parts[:1] == [b"task"] and len(parts) > 2:
        parts = parts[2:]
    if parts[:1] in ([b"cwd"], [b"root"], [b"exe"]):
        return who, parts[0], b"/".join(parts[1:])
    if parts[:1] == [b"fd"] and len(parts) > 1:
        return who, b"fd/" + parts[1], b"/".join(parts[2:])
    return None
