"""Mounts: the few forms that a box's root is built of, and the move into it.

Source: mount(2), mount_setattr(2), pivot_root(2), ``Documentation/filesystems/overlayfs.rst``. Where a target
lies in a folder that a box could change, pass a descriptor of it: the path could lead elsewhere.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Sequence

from backends.kernel.syscalls import syscall
from backends.record import NamedTuple

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
MOUNT_ATTR_IDMAP = 0x00100000
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
AT_EMPTY_PATH = 0x1000
_OPEN_TREE_CLONE = 0x1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOVE_MOUNT_T_SYMLINKS = 0x10  # a descriptor's name in proc is a link to its folder

_PAGE = 4096
_INODES_BASE = 1024
TERMINALS = 256  # of one box; the host has 3072 for all of its instances but its own

Target = str | int


def _name(target: Target) -> bytes:
    return os.fsencode(f"/proc/self/fd/{target}" if isinstance(target, int) else target)


def mount(source: Target, target: Target, kind: str, flags: int = 0, data: str = "") -> None:
    """mount(2); ``OSError`` names the target."""
    try:
        syscall(
            "mount",
            _name(source) + b"\0",
            _name(target) + b"\0",
            kind.encode() + b"\0",
            flags,
            os.fsencode(data) + b"\0",
        )
    except OSError as error:
        raise OSError(
            error.errno, f"mount {kind or 'bind'} on {target}: {os.strerror(error.errno or 0)}"
        ) from error


def set_attributes(target: Target, attributes: int, *, recursive: bool = False) -> None:
    """Adds ``MOUNT_ATTR_*`` to a mount; what is set stays set (mount_setattr(2), Linux 5.12)."""
    flags = AT_RECURSIVE if recursive else 0
    syscall(
        "mount_setattr", AT_FDCWD, _name(target) + b"\0", flags, struct.pack("=QQQQ", attributes, 0, 0, 0), 32
    )


def writable(path: Target) -> int:
    """A descriptor to write a file whose mount is read-only, or is about to be made so.

    It is opened through a copy of the mount that has no place in any tree (open_tree(2)) and ends with the
    descriptor; for whoever owns this mount namespace, before another one locks its mounts.
    """
    copy = syscall("open_tree", AT_FDCWD, _name(path) + b"\0", _OPEN_TREE_CLONE | os.O_CLOEXEC)
    try:
        clear = struct.pack("=QQQQ", 0, MOUNT_ATTR_RDONLY, 0, 0)
        syscall("mount_setattr", copy, b"\0", AT_EMPTY_PATH, clear, len(clear))
        return os.open(f"/proc/self/fd/{copy}", os.O_WRONLY | os.O_CLOEXEC)
    finally:
        os.close(copy)


def unmount(target: Target) -> None:
    """umount2(2) with MNT_DETACH: the mount leaves the tree at once, what holds it keeps it."""
    syscall("umount2", _name(target) + b"\0", MNT_DETACH)


def make_private() -> None:
    """No mount made from here on reaches the namespace we came from, nor the other way round."""
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def bind(source: Target, target: Target, attributes: int) -> None:
    """Shows ``source``, with what is mounted below it, also at ``target``; never without its attributes.

    A copy of the mounts is made, restricted, then attached (open_tree(2), move_mount(2)): a descriptor of the
    target from before means the folder below the new mount and could not name it afterwards.
    """
    flags = _OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC
    copy = syscall("open_tree", AT_FDCWD, _name(source) + b"\0", flags)
    try:
        set_attributes(copy, attributes, recursive=True)
        how = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_SYMLINKS
        syscall("move_mount", copy, b"\0", AT_FDCWD, _name(target) + b"\0", how)
    finally:
        os.close(copy)


def tmpfs(
    target: Target, size: int, mode: int, *, noexec: bool = False, owner: tuple[int, int] | None = None
) -> None:
    """An empty file system in memory, bounded in bytes and in files (an empty file costs a kilobyte too)."""
    options = f"size={size},nr_inodes={size // _PAGE + _INODES_BASE},mode={mode:o}"
    if owner:
        options += f",uid={owner[0]},gid={owner[1]}"
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV | (MS_NOEXEC if noexec else 0), options)


def overlay(top: Target, source: Target, target: Target) -> None:
    """``source`` with ``top`` laid over it, read-only: a look at a folder of the host.

    Not a bind: through a bind, connect(2) reaches the sockets that host processes listen on, and neither a
    read-only mount nor Landlock stops it. An overlay has inodes of its own, on which nobody listens; also for
    sockets made later. A whiteout in ``top`` hides what lies below its name. Pass descriptors of the folders:
    no character of a path can then be taken for an option, and no path is followed twice.
    """
    lower = f"lowerdir={os.fsdecode(_name(top))}:{os.fsdecode(_name(source))}"
    mount("overlay", target, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, f"userxattr,{lower}")


def overlay_writable(lowers: Sequence[Target], upper: Target, work: Target, target: Target) -> None:
    """``lowers``, the topmost first, with ``upper`` over them to take every change; ``work`` is its scratch.

    ``userxattr``: the marks are ``user.overlay.*`` attributes, so that a user namespace may make them. With
    it the kernel neither makes nor follows redirects and metadata-only copies: what lies in ``upper`` is
    whole files, marked folders and whiteouts. ``upper`` and ``work`` lie on one file system that has user
    attributes; EINVAL otherwise.
    """
    names = ":".join(os.fsdecode(_name(lower)) for lower in lowers)
    options = f"userxattr,lowerdir={names},upperdir={os.fsdecode(_name(upper))}"
    options += f",workdir={os.fsdecode(_name(work))}"
    mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options)


def bind_as(source: Target, target: Target, namespace: int) -> None:
    """Shows ``source`` at ``target``, read-only, with the owners that the user namespace ``namespace`` maps.

    An idmapped mount (mount_setattr(2), Linux 5.12; below an overlay 5.19): what belongs to an id that the
    namespace calls ``n`` inside is shown as belonging to the id outside. Takes CAP_SYS_ADMIN over the file
    system itself, so the host's root. ``OSError`` EINVAL where the file system cannot.
    """
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
    tree = syscall("open_tree", AT_FDCWD, _name(source) + b"\0", flags)
    try:
        attributes = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
        value = struct.pack("=QQQQ", attributes, 0, 0, namespace)
        syscall("mount_setattr", tree, b"\0", AT_EMPTY_PATH, value, 32)
        syscall("move_mount", tree, b"\0", AT_FDCWD, _name(target) + b"\0", _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(tree)


def whiteout(path: str | bytes, *, dir_fd: int | None = None) -> None:
    """Makes an entry that hides this name in the layers below (a 0:0 device, allowed to anybody)."""
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0), dir_fd=dir_fd)


def proc(target: Target) -> None:
    """A fresh proc(5) of our own process namespace. EPERM where the one we see is partly masked."""
    mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def devpts(target: Target) -> None:
    """An own instance of devpts: terminals of other instances have no name in it.

    Bounded (``max``, Documentation/filesystems/devpts.rst), since all instances draw on one number.
    """
    mount(
        "devpts",
        target,
        "devpts",
        MS_NOSUID | MS_NOEXEC,
        f"newinstance,ptmxmode=0666,mode=0620,max={TERMINALS}",
    )


def enter_root(root: str) -> None:
    """Makes ``root``, a mount, the root of this namespace and forgets the one before."""
    os.chdir(root)
    syscall("pivot_root", b".\0", b".\0")
    unmount(".")  # the old root lies on top of the new one
    os.chdir("/")


class MountPoint(NamedTuple):
    """One line of proc_pid_mountinfo(5)."""

    target: bytes
    kind: str
    read_only: bool


def mount_points() -> tuple[MountPoint, ...]:
    """All mounts that this process sees, in mount order."""
    with open("/proc/self/mountinfo", "rb") as file:
        return tuple(parse_mountinfo(file.read()))


def parse_mountinfo(text: bytes) -> list[MountPoint]:
    out = []
    for line in text.splitlines():
        fields = line.split(b" ")
        dash = fields.index(b"-")
        read_only = b"ro" in fields[5].split(b",") or b"ro" in fields[dash + 3].split(b",")
        out.append(MountPoint(_unescape(fields[4]), fields[dash + 1].decode("ascii", "replace"), read_only))
    return out


def _unescape(field: bytes) -> bytes:
    """Undoes the octal escapes of space, tab, newline and backslash."""
    if b"\\" not in field:
        return field
    head, *rest = field.split(b"\\")
    return head + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in rest)
