"""Symbolic links of a tree that a guest is about to share, as the guest's monitor keeps them.

With mapped attributes (qemu(1), security_model=mapped-xattr) a link is a plain file that holds the target
and says in an extended attribute that it is one. A checkout makes real links, which the guest could not read,
and which nobody may follow on the host once the box ran; so before a launch each becomes such a file.

The attribute is written by the guest too; on the host it is a claim (:mod:`backends.trees.mapped`).
"""

from __future__ import annotations

import errno
import os
import stat

from backends.errors import Refused
from backends.trees.mapped import MODE

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 512


def map_links(root: str, owner: tuple[int, int] | None) -> int:
    """Turns every symbolic link below ``root`` into a mapped one; how many. ``owner``: whose they become.

    ``Refused`` where the file system keeps no attributes of users.
    """
    try:
        fd = os.open(root, _FOLDER)
        try:
            os.setxattr(fd, b"user.cloche.probe", b"")
            os.removexattr(fd, b"user.cloche.probe")
            return _folder(fd, owner, 0)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            raise Refused(
                "the box does not start",
                f"the file system of {root} keeps no attributes of users, in which a guest's are kept",
                "set XDG_STATE_HOME to a folder on ext4, XFS or Btrfs",
                code="no-xattr",
            ) from error
        raise


def _folder(fd: int, owner: tuple[int, int] | None, depth: int) -> int:
    links: list[bytes] = []
    folders: list[bytes] = []
    with os.scandir(fd) as listing:
        for entry in listing:
            name = os.fsencode(entry.name)
            if entry.is_symlink():
                links.append(name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(name)
    for name in links:
        _map(fd, name, owner)
    count = len(links)
    for name in folders if depth < _DEEPEST else ():
        try:
            below = os.open(name, _FOLDER, dir_fd=fd)
        except PermissionError:
            continue  # the box closed it to itself; links in it stay unreadable inside
        try:
            count += _folder(below, owner, depth + 1)
        finally:
            os.close(below)
    return count


def _map(fd: int, name: bytes, owner: tuple[int, int] | None) -> None:
    target = os.readlink(name, dir_fd=fd)
    fresh = b".cloche-link-" + os.urandom(8).hex().encode()
    made = os.open(
        fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=fd
    )
    try:
        os.write(made, target)
        os.setxattr(made, MODE, (stat.S_IFLNK | 0o777).to_bytes(4, "little"))
        if owner is not None:
            os.fchown(made, *owner)
        os.rename(fresh, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        os.unlink(fresh, dir_fd=fd)
        raise
    finally:
        os.close(made)
