"""What one user namespace and one IPC namespace may take of that which the kernel counts for a whole user.

Counts of inotify and the like go up through the user namespaces above (``Documentation/admin-guide/sysctl/
user.rst``), so that without a bound of its own a box could use up all that its user has on the host. System V
memory and queues (sysvipc(7)) belong to no process and are counted by nothing but these settings.
"""

from __future__ import annotations

import errno
import os

from backends.record import NamedTuple

_PAGE = 4096
_FRACTION = 4  # a box gets one in so many of what its user has
_QUEUES = 64  # of messages, 16 KiB each
_SEMAPHORES = b"32000 32000 500 128"  # SEMMSL SEMMNS SEMOPM SEMMNI of proc_sys_kernel(5)
_CANNOT = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.EROFS, errno.EINVAL)


class Share(NamedTuple):
    """One setting below ``/proc/sys``."""

    path: str
    value: bytes
    text: str  # what it bounds, for people


def wanted(shm: int) -> tuple[Share, ...]:
    """The settings of a box whose ``resources.shm`` is ``shm`` bytes."""
    instances = max(16, _host("fs/inotify/max_user_instances", 128) // _FRACTION)
    watches = max(4096, _host("fs/inotify/max_user_watches", 65536) // _FRACTION)
    return (
        Share("user/max_inotify_instances", b"%d" % instances, f"{instances} inotify instances"),
        Share("user/max_inotify_watches", b"%d" % watches, f"{watches} inotify watches"),
        Share("kernel/shmmax", b"%d" % shm, f"{shm} bytes in one System V segment"),
        Share("kernel/shmall", b"%d" % max(1, shm // _PAGE), f"{shm} bytes of System V memory"),
        Share("kernel/msgmni", b"%d" % _QUEUES, f"{_QUEUES} message queues"),
        Share("kernel/sem", _SEMAPHORES, "32000 semaphores"),
    )


def _host(name: str, otherwise: int) -> int:
    try:
        with open(f"/proc/sys/{name}", "rb") as file:
            return int(file.read())
    except FileNotFoundError:
        return otherwise  # a kernel without inotify


def take(proc: str, shares: tuple[Share, ...]) -> tuple[str, ...]:
    """Writes the settings through the proc(5) mounted at ``proc``, which shows our own namespaces.

    Returns the paths of those that this kernel does not let us set (IPC settings: before Linux 6.9).
    """
    missing = []
    for share in shares:
        try:
            fd = os.open(f"{proc}/sys/{share.path}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, share.value)
            finally:
                os.close(fd)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            missing.append(share.path)
    return tuple(missing)
