"""Folders that were given to a box: their owner's rights are given back, whatever the box made of them."""

from __future__ import annotations

import os
import stat

_HANDLE_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def open_up(name: str | bytes, *, dir_fd: int | None = None) -> None:
    """Lets the owner of the folder ``name`` list, enter and change it. What is no folder stays as it is.

    ``OSError`` when there is nothing of that name, or when it is neither ours nor we are root.
    """
    handle = os.open(name, _HANDLE_FLAGS, dir_fd=dir_fd)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            # chmod(2) of an O_PATH descriptor is only possible by its name in proc, which is this very inode.
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | stat.S_IRWXU)
    finally:
        os.close(handle)
