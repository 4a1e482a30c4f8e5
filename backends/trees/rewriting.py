"""Changing some files of a box's tree from outside: every step below a descriptor, no link followed.

The box decides what lies in its folders, so whatever is there that the change does not account for is refused
before anything is written. In the upper folder of an overlay what goes is hidden by a whiteout, and a folder
that takes a whiteout's place is opaque (``Documentation/filesystems/overlayfs.rst``).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from backends.errors import Busy
from backends.evidence.visible import text_of
from backends.kernel import modes
from backends.trees.checkout import FILE_FLAGS, FOLDER_FLAGS, GITLINK, SYMLINK
from backends.trees.listing import Listing
from backends.trees.upper import OPAQUE, is_whiteout

DEEPEST = 64  # folders below one that is to give way; more of them are something that the box put there


class Change(NamedTuple):
    """One path that is to be otherwise; modes as in git-fast-import(1), 0 for no file."""

    path: bytes
    old: int
    new: int
    oid: str  # of the new content


class Rewriter:
    """Writes below ``root``, a box's files; with ``lower`` it is an overlay's upper folder over that tree."""

    def __init__(self, root: Path, box: str, lower: Listing | None, content: Callable[[str], bytes]) -> None:
        self._root = root
        self._box = box
        self._lower = lower
        self._content = content
        status = root.stat(follow_symlinks=False)
        mine = (os.geteuid(), os.getegid())
        self._owner = (status.st_uid, status.st_gid) if (status.st_uid, status.st_gid) != mine else None

    def write(self, changes: Sequence[Change]) -> None:
        """Make every change. ``Busy`` (code "in-the-way"), and nothing is changed, where something lies that
        no version of the tree has, as an ignored file does.

        Each file is replaced as a whole: after an ``OSError`` in the middle it is as before or as wanted.
        """
        modes.open_up(os.fspath(self._root))
        gone = {one.path for one in changes if one.old}
        for one in changes:
            if one.new:
                self._require_free(one, gone)
        for one in sorted((one for one in changes if not one.new), reverse=True):
            self._remove(one)
        for one in sorted(one for one in changes if one.new):
            self._make(one)

    # ------------------------------------------------------------ what is in the way

    def _require_free(self, change: Change, gone: set[bytes]) -> None:
        *folders, name = change.path.split(b"/")
        at = b""
        with self._top() as stack:
            for part in folders:
                at = at + b"/" + part if at else part
                status = _look(stack[-1], part)
                if status is None or is_whiteout(stack[-1], part, status):
                    return
                if not stat.S_ISDIR(status.st_mode):
                    if at not in gone:
                        raise self._in_the_way(at)
                    return
                self._enter(stack, part)
            status = _look(stack[-1], name)
            if status is None or change.path in gone or is_whiteout(stack[-1], name, status):
                return
            if not stat.S_ISDIR(status.st_mode):
                raise self._in_the_way(change.path)
            if change.new != GITLINK:
                self._require_leaving(stack[-1], name, change.path, gone, 0)

    def _require_leaving(self, fd: int, name: bytes, path: bytes, gone: set[bytes], depth: int) -> None:
        """All that lies in a folder is to go, or is nothing but a mark."""
        if depth > DEEPEST:
            raise self._in_the_way(path)
        modes.open_up(name, dir_fd=fd)
        inner = os.open(name, FOLDER_FLAGS, dir_fd=fd)
        try:
            for entry in os.listdir(inner):
                below = path + b"/" + os.fsencode(entry)
                status = os.stat(entry, dir_fd=inner, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    self._require_leaving(inner, os.fsencode(entry), below, gone, depth + 1)
                elif below not in gone and not is_whiteout(inner, os.fsencode(entry), status):
                    raise self._in_the_way(below)
        finally:
            os.close(inner)

    def _in_the_way(self, path: bytes) -> Busy:
        return Busy(
            f"the files of box {self._box} cannot be changed",
            f"{text_of(path)} is in the way: it is in the box, ignored there, and the branch has a file of "
            "that name; nothing was changed",
            f"move it away: cloche run {self._box} -- mv OLD NEW",
            code="in-the-way",
        )

    # ------------------------------------------------------------ the changes

    def _remove(self, change: Change) -> None:
        *folders, name = change.path.split(b"/")
        below = self._lower is not None and (
            self._lower.get(change.path) is not None or self._lower.holds(change.path)
        )
        with self._top() as stack:
            for part in folders:
                if _look(stack[-1], part) is None and not below:
                    return
                self._enter(stack, part, make=True)
            status = _look(stack[-1], name)
            if status is not None:
                if stat.S_ISDIR(status.st_mode):  # of a submodule, or of an ignored file beside it
                    if change.old == GITLINK:
                        _rmdir(stack[-1], name)
                    return
                os.unlink(name, dir_fd=stack[-1])
            if below:
                os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=stack[-1])
            elif self._lower is None:
                while len(stack) > 1:
                    os.close(stack.pop())
                    if not _rmdir(stack[-1], folders[len(stack) - 1]):
                        return

    def _make(self, change: Change) -> None:
        *folders, name = change.path.split(b"/")
        with self._top() as stack:
            for part in folders:
                self._enter(stack, part, make=True)
            fd = stack[-1]
            if change.new == GITLINK:
                self._enter(stack, name, make=True)
                return
            status = _look(fd, name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                self._empty(fd, name)
                os.rmdir(name, dir_fd=fd)
            data = self._content(change.oid)
            fresh = b".cloche-" + os.urandom(8).hex().encode()  # a name that no box can have made
            try:
                if change.new == SYMLINK:
                    os.symlink(data, fresh, dir_fd=fd)
                else:
                    new = os.open(fresh, FILE_FLAGS, 0o777 if change.new & 0o111 else 0o666, dir_fd=fd)
                    with open(new, "wb") as file:
                        file.write(data)
                self._give(fresh, fd)
                os.rename(fresh, name, src_dir_fd=fd, dst_dir_fd=fd)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(fresh, dir_fd=fd)
                raise

    def _empty(self, fd: int, name: bytes) -> None:
        """Remove the marks and the empty folders below a folder that was looked through before."""
        inner = os.open(name, FOLDER_FLAGS, dir_fd=fd)
        try:
            for entry in os.listdir(inner):
                status = os.stat(entry, dir_fd=inner, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    self._empty(inner, os.fsencode(entry))
                    os.rmdir(entry, dir_fd=inner)
                elif is_whiteout(inner, os.fsencode(entry), status):
                    os.unlink(entry, dir_fd=inner)
        finally:
            os.close(inner)

    # ------------------------------------------------------------ folders

    @contextmanager
    def _top(self) -> Iterator[list[int]]:
        """Descriptors of the folders on the way, from the root on; those that are entered are closed too."""
        stack = [os.open(self._root, FOLDER_FLAGS)]
        try:
            yield stack
        finally:
            for fd in stack:
                os.close(fd)

    def _enter(self, stack: list[int], name: bytes, *, make: bool = False) -> None:
        fd = stack[-1]
        status = _look(fd, name)
        if make and (status is None or is_whiteout(fd, name, status)):
            if status is not None:
                os.unlink(name, dir_fd=fd)
            os.mkdir(name, dir_fd=fd)
            self._give(name, fd)
        modes.open_up(name, dir_fd=fd)
        inner = os.open(name, FOLDER_FLAGS, dir_fd=fd)
        stack.append(inner)
        if make and status is not None and not stat.S_ISDIR(status.st_mode):
            os.setxattr(inner, OPAQUE, b"y")  # what the whiteout hid stays hidden

    def _give(self, name: bytes, fd: int) -> None:
        if self._owner is not None:
            os.chown(name, *self._owner, dir_fd=fd, follow_symlinks=False)


def _look(fd: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _rmdir(fd: int, name: bytes) -> bool:
    try:
        os.rmdir(name, dir_fd=fd)
    except OSError:  # something of the box's own is in it
        return False
    return True
