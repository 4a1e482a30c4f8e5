"""Deleting a folder that a box owned: by descriptors, never through a link, whatever modes it left.

A box can leave folders without any permission, chains a hundred thousand levels deep and links to anywhere.
Every folder is opened with O_NOFOLLOW, its mode is changed through that descriptor (proc_pid_fd(5)), and
sub-folders are moved up to one level before they are emptied, so depth costs nothing (rule S17, kind H2).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from backends.errors import ClocheError

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HOLD = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OWNER_ALL = stat.S_IRWXU


def delete(folder: Path) -> None:
    """Delete ``folder`` and all below it; gone is fine. ``ClocheError`` naming the first path that stays."""
    try:
        parent = os.open(folder.parent, _ENTER)
    except FileNotFoundError:
        return
    try:
        status = os.stat(folder.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(folder.name, dir_fd=parent)
            return
        _empty(parent, os.fsencode(folder.name))
        os.rmdir(folder.name, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError as error:
        where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else folder.name
        raise ClocheError(
            f"{folder} cannot be removed",
            f"{where}: {error.strerror}",
            "see who holds it: findmnt, lsattr, fuser; then run the command again",
            code="not-removed",
        ) from error
    finally:
        os.close(parent)


def _enter(parent: int, name: bytes) -> int:
    """Open a folder for listing, giving its owner every right first; the descriptor is the caller's."""
    held = os.open(name, _HOLD, dir_fd=parent)
    try:
        if os.fstat(held).st_mode & OWNER_ALL != OWNER_ALL:
            os.chmod(f"/proc/self/fd/{held}", OWNER_ALL)  # noqa: PTH101 (a descriptor, not a path)
        return os.open(".", _ENTER, dir_fd=held)
    finally:
        os.close(held)


def _empty(parent: int, name: bytes) -> None:
    """Empty one folder with every folder below it in reach of one descriptor."""
    top = _enter(parent, name)
    try:
        names, folders = _listed(top)
        for one in names:
            os.unlink(one, dir_fd=top)
        while folders:
            one = folders.pop()
            inner = _enter(top, one)
            try:
                files, below = _listed(inner)
                for file in files:
                    os.unlink(file, dir_fd=inner)
                for folder in below:
                    # Moving a folder to another parent writes its "..": it must be writable itself.
                    os.close(_enter(inner, folder))
                    # A random name: one that a box could guess might be taken by a full folder.
                    moved = b".removing-" + os.urandom(8).hex().encode()
                    os.rename(folder, moved, src_dir_fd=inner, dst_dir_fd=top)
                    folders.append(moved)
            finally:
                os.close(inner)
            os.rmdir(one, dir_fd=top)
    finally:
        os.close(top)


def _listed(folder: int) -> tuple[list[bytes], list[bytes]]:
    """The names in a folder that are no folders, and those that are."""
    files: list[bytes] = []
    folders: list[bytes] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else files).append(os.fsencode(entry.name))
    return files, folders
