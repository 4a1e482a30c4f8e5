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

# Magic numbers of statfs(2) of file systems that nobody but this kernel changes. On others, as network file
# systems and FUSE, a change by another host or process is not told (inotify(7), limitations).
LOCAL = frozenset(
    {
        0xEF53,  # ext2, ext3, ext4
        0x58465342,  # xfs
        0x9123683E,  # btrfs
        0xF2F52010,  # f2fs
        0xCA451A4E,  # bcachefs
        0x2FC12FC1,  # zfs
        0x01021994,  # tmpfs
        0x794C7630,  # overlay
    }
)

_statfs = libc.statfs
_statfs.restype = ctypes.c_int
_statfs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
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


def told(path: bytes) -> bool:
    """Whether every change of a file at ``path`` is told: it is on one of :data:`LOCAL`. ``OSError``."""
    return file_system(path) in LOCAL


def file_system(path: bytes) -> int:
    """The kind of file system that ``path`` is on: ``f_type`` of statfs(2). ``OSError``."""
    status = ctypes.create_string_buffer(
        256
    )  # struct statfs has 120 bytes on 64-bit systems; f_type is first
    if _statfs(path, status) < 0:
        raise OSError(ctypes.get_errno(), f"statfs: {os.strerror(ctypes.get_errno())}", os.fsdecode(path))
    return int.from_bytes(status.raw[:8], "little", signed=True) & 0xFFFFFFFF
