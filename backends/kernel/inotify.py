"""inotify(7): a descriptor that becomes readable when something at a path changed."""

from __future__ import annotations

import ctypes
import os

from backends.kernel.syscalls import libc

IN_MODIFY = 0x002
IN_ATTRIB = 0x004
IN_CLOSE_WRITE = 0x008
IN_MOVED_FROM = 0x040
IN_MOVED_TO = 0x080
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ONLYDIR = 0x01000000
IN_EXCL_UNLINK = 0x04000000
IN_ISDIR = 0x40000000
IN_NONBLOCK = os.O_NONBLOCK
IN_CLOEXEC = os.O_CLOEXEC

_init = libc.inotify_init1
_init.restype = ctypes.c_int
_init.argtypes = [ctypes.c_int]
_add_watch = libc.inotify_add_watch
_add_watch.restype = ctypes.c_int
_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]


def create() -> int:
    """A descriptor without watches, not blocking and close-on-exec; ``OSError`` where a limit is reached."""
    fd: int = _init(IN_NONBLOCK | IN_CLOEXEC)
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"inotify: {os.strerror(ctypes.get_errno())}")
    return fd


def add(fd: int, path: bytes, mask: int) -> int:
    """Watch ``path`` for the events of ``mask``; the watch's number. ``OSError`` as inotify_add_watch(2)."""
    number: int = _add_watch(fd, path, mask)
    if number < 0:
        raise OSError(ctypes.get_errno(), f"inotify: {os.strerror(ctypes.get_errno())}", os.fsdecode(path))
    return number
