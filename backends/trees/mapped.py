"""A tree that a virtual machine shares: modes, links and devices of its files are in extended attributes.

The monitor (QEMU, security_model=mapped-xattr) makes every file of the guest's a plain one of mode 0600, and
notes in ``user.virtfs.mode`` what the guest takes it for; a link's target is its content. So nothing that the
guest makes is a link or a device here. What it takes its files for is read as its claim about them, and about
nothing else: a link of it becomes a link of the result, never one that is followed.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from backends.trees import statcache
from backends.trees.walk import FILE_FLAGS, KINDS, WholeWalk, chunks, mode_of

MODE = "user.virtfs.mode"  # 32 bits, little endian (QEMU, hw/9pfs/9p-local.c)
LONGEST = 4095  # bytes of a link's target (PATH_MAX without its end)


def mode(fd: int) -> int | None:
    """The mode that the guest gave the open file ``fd``; ``None`` where it gave none."""
    try:
        value = os.getxattr(fd, MODE)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.EOPNOTSUPP):
            return None
        raise
    return int.from_bytes(value, "little") if len(value) == 4 else None


class MappedWalk(WholeWalk):
    """The walk over a whole tree whose files say in attributes what they are."""

    def plain(self, fd: int, status: os.stat_result) -> bool:
        return super().plain(fd, status) and _kind(mode(fd)) == stat.S_IFREG

    def file(self, fd: int, name: bytes, path: bytes, status: os.stat_result) -> None:
        opened = os.open(name, FILE_FLAGS, dir_fd=fd)
        try:
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                self.skip(path, "it was no longer a regular file when it was opened")
                return
            claimed = mode(opened)
            if _kind(claimed) == stat.S_IFLNK:
                self.link(opened, path, status)
            elif _kind(claimed) == stat.S_IFREG:
                self.contents(opened, path, status, claimed)
            else:
                self.skip(path, f"it is {KINDS.get(_kind(claimed), 'no file')}")
        finally:
            os.close(opened)

    def link(self, fd: int, path: bytes, status: os.stat_result) -> None:
        target = b"".join(chunks(fd, LONGEST + 1))
        if not target or len(target) > LONGEST or b"\0" in target:
            self.skip(path, "it is a symbolic link without a target that could be one")
            return
        self.spend(path, len(target))
        self.out.place(path, b"120000", self.out.blob(target))

    def contents(self, fd: int, path: bytes, status: os.stat_result, claimed: int | None) -> None:
        runs = mode_of(status) if claimed is None else (b"100755" if claimed & stat.S_IXUSR else b"100644")
        cached = self.cache.get(path)
        oid = statcache.known(cached, status, self.settle)
        if oid is not None and cached is not None:
            self.records.append((path, cached))
            self.out.place(path, runs, oid)
            return
        read_at = time.time_ns()
        oid = self.regular(fd, path, status)
        self.out.place(path, runs, oid)
        self.records.append((path, statcache.value(oid, read_at, status)))


def _kind(claimed: int | None) -> int:
    """The type in a mode; a plain file where none is claimed."""
    return stat.S_IFMT(claimed) or stat.S_IFREG if claimed is not None else stat.S_IFREG
