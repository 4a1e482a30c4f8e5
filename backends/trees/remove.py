"""Removing what a box left: every step below a descriptor, no link followed, no permission in the way.

A box decides what lies in its folders: links that point outside, folders without any permission, a nesting
deeper than descriptors reach. ``shutil.rmtree`` with a handler that changes modes followed such a link once.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from backends.errors import Busy, ClocheError
from backends.kernel import modes

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOUNT_ESCAPES = re.compile(rb"\\([0-7]{3})")
DEEPEST = 64  # folders held open at once; deeper ones are moved up to the top and removed from there


def remove(path: Path) -> None:
    """Remove ``path`` whatever it is; gone already is fine.

    ``Busy`` when something is mounted below, because removal would go on into it; ``ClocheError`` with the
    kernel's reason when something stays.
    """
    try:
        _remove(path)
    except OSError as error:
        raise ClocheError(
            f"{path} cannot be removed",
            f"{os.strerror(error.errno or 0)}: something in it belongs to another user or is held",
            f"look at it: ls -la {path}; then remove it as its owner",
            code="not-removed",
        ) from error


def _remove(path: Path) -> None:
    parent = os.open(path.parent, FOLDER_FLAGS)
    try:
        name = os.fsencode(path.name)
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=parent)
            return
        _refuse_mounts(path)
        top = _open(parent, name)
        try:
            _empty_all(top)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=parent)
    finally:
        os.close(parent)


def _refuse_mounts(path: Path) -> None:
    """Look in proc_pid_mountinfo(5), field 5, for mounts below ``path``."""
    prefix = os.fsencode(path.parent.resolve() / path.name) + b"/"
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        point = MOUNT_ESCAPES.sub(lambda match: bytes([int(match[1], 8)]), line.split(b" ")[4])
        if (point + b"/").startswith(prefix):
            raise Busy(
                f"{path} cannot be removed",
                f"something is mounted at {os.fsdecode(point)}",
                f"umount {os.fsdecode(point)}",
                code="mounted",
            )


def _open(parent: int, name: bytes) -> int:
    """A descriptor of the folder ``name``, made readable and writable first where it is not."""
    modes.open_up(name, dir_fd=parent)
    return os.open(name, FOLDER_FLAGS, dir_fd=parent)


def _empty_all(top: int) -> None:
    moved: list[bytes] = []
    _empty(top, top, 0, moved)
    while moved:
        name = moved.pop()
        fd = _open(top, name)
        try:
            _empty(top, fd, 1, moved)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=top)


def _empty(top: int, fd: int, depth: int, moved: list[bytes]) -> None:
    with os.scandir(fd) as listing:
        entries = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in listing]
    for name, is_folder in entries:
        if not is_folder:
            os.unlink(name, dir_fd=fd)
            continue
        below = _open(fd, name)
        try:
            if depth >= DEEPEST:
                aside = b".removing-" + os.urandom(8).hex().encode()  # a name that no box can have made
                os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=top)
                moved.append(aside)
                continue
            _empty(top, below, depth + 1, moved)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=fd)
