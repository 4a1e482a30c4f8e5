"""Raw checkout: a tree object written to disk byte for byte, without filters, attributes or hooks.

Git's own checkout would run smudge filters and convert line ends by what the tree itself says. Here the bytes
on disk are the blob's bytes; every component is created below a descriptor of its folder, never through a
link, and a path that some system would read as ``.git`` is refused before anything is written.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO, NamedTuple

from backends.errors import Refused
from backends.trees.git import Git, Output, failure
from backends.trees.names import hostile

GITLINK = 0o160000
SYMLINK = 0o120000
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 20
# Seconds that the files' modification time lies before now. An index whose entries are older than the index
# itself is never "racily clean", so the first `git status` inside need not read a single file
# (Documentation/technical/racy-git.txt).
AGE = 2


class Row(NamedTuple):
    """One entry of a tree, as ``git ls-tree -r`` gives it."""

    mode: int
    oid: bytes  # hexadecimal
    path: bytes


class Written(NamedTuple):
    """A row and what lies on disk for it."""

    row: Row
    status: os.stat_result


def listing(data: bytes) -> list[Row]:
    """The rows of ``git ls-tree -r -z``; raises ``Refused`` for a path that must not be written."""
    rows: list[Row] = []
    for record in data.split(b"\0")[:-1]:
        meta, _, path = record.partition(b"\t")
        mode, _, oid = meta.split(b" ")
        rows.append(Row(int(mode, 8), oid, path))
        why = hostile(path)
        if why:
            raise _refused(path, why)
    return rows


def checkout(git: Git, tree: str, dest: Path, *, owner: tuple[int, int] | None = None) -> list[Written]:
    """Write ``tree`` into the folder ``dest``, which exists and holds none of the tree's names.

    Submodules become empty folders. ``owner`` (uid, gid) receives every file and folder made, not ``dest``
    itself. Returns what was written in the tree's order. ``Refused`` names the path that cannot be written,
    also where two names of the tree are one on this file system.
    """
    return write_rows(git, listing(git.run("ls-tree", "-r", "-z", "--full-tree", tree)), dest, owner=owner)


def write_rows(
    git: Git, rows: list[Row], dest: Path, *, owner: tuple[int, int] | None = None
) -> list[Written]:
    """:func:`checkout` of some rows of a tree, in the tree's order."""
    root = os.open(dest, FOLDER_FLAGS)
    try:
        return _write(git, rows, root, owner)
    finally:
        os.close(root)


def _refused(path: bytes, why: str) -> Refused:
    return Refused(
        f"{os.fsdecode(path)!r} cannot be checked out",
        why,
        "choose a revision without that path: cloche new --from REV",
        code="hostile-path",
    )


def _write(git: Git, rows: list[Row], root: int, owner: tuple[int, int] | None) -> list[Written]:
    # The list of wanted blobs lies in memory, so that Git reads it while its answers are read here.
    wanted = os.memfd_create("cloche-blobs", os.MFD_CLOEXEC)
    try:
        with open(wanted, "wb", closefd=False) as file:
            file.write(b"".join(row.oid + b"\n" for row in rows if row.mode != GITLINK))
        os.lseek(wanted, 0, os.SEEK_SET)
        process = git.start("cat-file", "--batch", "--buffer", stdin=wanted)
    finally:
        os.close(wanted)
    with process:
        try:
            assert process.stdout is not None
            return _Writer(process.stdout, root, owner).write(rows)
        except EOFError:
            process.kill()
            _, complaint = process.communicate()
            raise failure(("cat-file", "--batch"), Output(process.returncode, b"", complaint)) from None
        finally:
            process.kill()


class _Writer:
    """Writes rows in tree order, with one open descriptor for each folder on the way to the current one."""

    def __init__(self, blobs: IO[bytes], root: int, owner: tuple[int, int] | None) -> None:
        stamp = (int(time.time()) - AGE) * 10**9
        self._blobs = blobs
        self._owner = owner
        self._times = (stamp, stamp)
        self._stack: list[tuple[bytes, int]] = [(b"", root)]

    def write(self, rows: list[Row]) -> list[Written]:
        written: list[Written] = []
        try:
            for row in rows:
                head, _, name = row.path.rpartition(b"/")
                try:
                    folder = self._folder(head)
                    written.append(Written(row, self._entry(folder, name, row)))
                except FileExistsError:
                    raise _refused(row.path, "another path of the tree is the same name here") from None
                except OSError as error:
                    raise _refused(row.path, str(error.strerror)) from error
        finally:
            for _, fd in self._stack[1:]:
                os.close(fd)
        return written

    def _folder(self, path: bytes) -> int:
        while self._stack[-1][0] and not (path + b"/").startswith(self._stack[-1][0] + b"/"):
            os.close(self._stack.pop()[1])
        at, fd = self._stack[-1]
        if at == path:
            return fd
        for name in path[len(at) + 1 if at else 0 :].split(b"/"):
            at = at + b"/" + name if at else name
            self._make_folder(fd, name)
            fd = os.open(name, FOLDER_FLAGS, dir_fd=fd)
            self._stack.append((at, fd))
        return fd

    def _make_folder(self, fd: int, name: bytes) -> None:
        os.mkdir(name, dir_fd=fd)
        if self._owner:
            os.chown(name, *self._owner, dir_fd=fd, follow_symlinks=False)

    def _entry(self, folder: int, name: bytes, row: Row) -> os.stat_result:
        if row.mode == GITLINK:
            self._make_folder(folder, name)
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        size = self._header(row)
        if row.mode == SYMLINK:
            os.symlink(self._exactly(size), name, dir_fd=folder)
            self._end()
            if self._owner:
                os.chown(name, *self._owner, dir_fd=folder, follow_symlinks=False)
            os.utime(name, ns=self._times, dir_fd=folder, follow_symlinks=False)
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        fd = os.open(name, FILE_FLAGS, 0o777 if row.mode & 0o111 else 0o666, dir_fd=folder)
        try:
            while size > 0:
                part = self._exactly(min(size, CHUNK))
                os.write(fd, part)
                size -= len(part)
            self._end()
            if self._owner:
                os.fchown(fd, *self._owner)
            os.utime(fd, ns=self._times)
            return os.fstat(fd)
        finally:
            os.close(fd)

    def _header(self, row: Row) -> int:
        """``<oid> SP blob SP <size> LF``; anything else (``missing``) ends the checkout."""
        fields = self._blobs.readline().split()
        if len(fields) != 3 or fields[0] != row.oid or fields[1] != b"blob":
            raise _refused(row.path, "its content is missing from the source repository (git fsck)")
        return int(fields[2])

    def _exactly(self, size: int) -> bytes:
        data = self._blobs.read(size)
        if len(data) != size:
            raise EOFError
        return data

    def _end(self) -> None:
        self._exactly(1)
