"""Making a folder of an overlay tree one that can be moved, from inside, with the box's own rights.

The kernel moves a folder only when nothing of it lies in a lower layer (overlayfs.rst, "renaming
directories"). A fresh folder beside it gets a hard link to each file, which makes the file the box's own and
keeps its times, and whoever has it open; then the old names go, and the fresh folder is renamed
over the emptied one. At every moment each file has a name in one of the two, also if the box is killed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat

PREFIX = b".cloche-move-"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SECONDS = 110  # of one folder; then the call gets the kernel's answer
ROUNDS = 8  # of taking along what other processes make in the folder meanwhile
DEEPEST = 256


def make_movable(paths: list[bytes]) -> None:
    """Makes each of the folders movable that is not. ``OSError`` where that is impossible."""
    signal.alarm(SECONDS)
    for path in paths:
        head, _, name = path.rpartition(b"/")
        parent = os.open(head or b"/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _one(parent, name)
        finally:
            os.close(parent)


def _one(parent: int, name: bytes) -> None:
    old = os.open(name, FOLDER, dir_fd=parent)
    fresh = PREFIX + os.urandom(6).hex().encode()
    try:
        os.mkdir(fresh, 0o700, dir_fd=parent)
        try:
            new = os.open(fresh, FOLDER, dir_fd=parent)
            try:
                if not _refused(parent, name, fresh, new):
                    return
                _take_along(old, new, 0)
                _change_places(parent, name, fresh, old, new)
            finally:
                os.close(new)
        finally:
            _remove(parent, fresh)
    finally:
        os.close(old)


def _refused(parent: int, name: bytes, fresh: bytes, new: int) -> bool:
    """Whether the kernel will not move the folder: asked by a move onto a folder that is not empty."""
    os.mkdir(b"x", 0o700, dir_fd=new)
    try:
        os.rename(name, fresh, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError as error:
        return error.errno == errno.EXDEV
    finally:
        os.rmdir(b"x", dir_fd=new)
    return False


def _take_along(old: int, new: int, depth: int) -> None:
    """Gives everything in ``old`` a name in ``new`` too."""
    if depth > DEEPEST:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    with os.scandir(old) as listing:
        entries = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in listing]
    for name, is_folder in entries:
        if not is_folder:
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.link(name, name, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
            continue
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=new)
        below, copy = os.open(name, FOLDER, dir_fd=old), os.open(name, FOLDER, dir_fd=new)
        try:
            _take_along(below, copy, depth + 1)
            _as_before(below, copy)
        finally:
            os.close(below)
            os.close(copy)


def _as_before(old: int, new: int) -> None:
    """Mode, times and attributes of one folder to another."""
    status = os.fstat(old)
    for key in os.listxattr(old):
        with contextlib.suppress(OSError):  # one that may not be set stays behind
            os.setxattr(new, key, os.getxattr(old, key))
    os.fchmod(new, stat.S_IMODE(status.st_mode) & 0o1777)
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


def _change_places(parent: int, name: bytes, fresh: bytes, old: int, new: int) -> None:
    """Empties the old folder and puts the fresh one in its place, with what came into it meanwhile."""
    status = os.fstat(old)
    _as_before(old, new)
    os.fchmod(new, 0o700)
    try:
        for _ in range(ROUNDS):
            _empty(old, new)
            try:
                os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                _take_along(old, new, 0)
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    except BaseException:
        _take_along(new, old, 0)  # nothing is lost: back to where it was
        raise
    finally:
        os.fchmod(new, stat.S_IMODE(status.st_mode) & 0o1777)
        with contextlib.suppress(OSError):
            os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


def _empty(old: int, new: int) -> None:
    """Takes away the names in ``old`` that mean the same file in ``new``."""
    with os.scandir(old) as listing:
        entries = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in listing]
    for name, is_folder in entries:
        if is_folder:
            below, copy = os.open(name, FOLDER, dir_fd=old), os.open(name, FOLDER, dir_fd=new)
            try:
                _empty(below, copy)
            finally:
                os.close(below)
                os.close(copy)
            with contextlib.suppress(OSError):  # something came into it: taken along in the next round
                os.rmdir(name, dir_fd=old)
            continue
        here = os.stat(name, dir_fd=old, follow_symlinks=False)
        there = os.stat(name, dir_fd=new, follow_symlinks=False)
        if _moment(here) != _moment(there):
            # Replaced meanwhile (a file written anew and renamed): the newer one is what counts.
            os.unlink(name, dir_fd=new)
            os.link(name, name, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
        os.unlink(name, dir_fd=old)


def _moment(status: os.stat_result) -> tuple[int, ...]:
    """Equal for two names of one file. Not the inode: an overlay may number a file anew that it copied up."""
    return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _remove(parent: int, name: bytes) -> None:
    """Removes what is left of the fresh folder; gone is what it should be."""
    try:
        fd = os.open(name, FOLDER, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        os.fchmod(fd, 0o700)
        with os.scandir(fd) as listing:
            entries = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in listing]
        for below, is_folder in entries:
            if is_folder:
                _remove(fd, below)
            else:
                os.unlink(below, dir_fd=fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)
