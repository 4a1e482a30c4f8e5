"""The ``.git`` that a box's tree has on disk: a valid repository of nothing, which belongs to the host.

The box's own repository is mounted over it, so the box never writes there. It must be one that Git accepts:
Git passes over an empty ``.git`` and takes the folder around it for a bare repository when that looks like
one (gitrepository-layout(5)); its configuration, the box's, then names programs that a prompt starts.
"""

from __future__ import annotations

import contextlib
import os
import stat

NAME = ".git"
FOLDERS = ("objects", "refs")
FILES = {
    "HEAD": b"ref: refs/heads/box\n",
    "config": b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
}

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER, _CLOSED, _FILE = 0o755, 0o555, 0o444


def make(tree: int) -> None:
    """Make it in the tree open on descriptor ``tree``, or complete what is there.

    ``OSError`` when a link or a file has its name, or when it cannot be written.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(NAME, _FOLDER, dir_fd=tree)
    fd = os.open(NAME, _FOLDER_FLAGS, dir_fd=tree)
    try:
        if _complete(fd):
            return
        for name in FOLDERS:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, _CLOSED, dir_fd=fd)
        for name, content in FILES.items():
            _write(fd, name, content)
    finally:
        os.close(fd)


def _complete(fd: int) -> bool:
    try:
        held = all(stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode) for name in FOLDERS)
        return held and all(_read(fd, name) == content for name, content in FILES.items())
    except FileNotFoundError:
        return False


def _read(fd: int, name: str) -> bytes:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def _write(fd: int, name: str, content: bytes) -> None:
    """Whole or not at all: half a HEAD would be no repository."""
    fresh = f".{name}-{os.urandom(8).hex()}"
    file = os.open(
        fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE, dir_fd=fd
    )
    try:
        os.write(file, content)
        os.fchmod(file, _FILE)
    finally:
        os.close(file)
    os.rename(fresh, name, src_dir_fd=fd, dst_dir_fd=fd)
