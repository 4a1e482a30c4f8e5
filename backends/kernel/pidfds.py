"""How a process ended, asked of a pidfd that was opened while it lived.

Source: ``include/uapi/linux/pidfd.h`` (``struct pidfd_info``, ``PIDFD_GET_INFO``), ``fs/pidfs.c``. The kernel
keeps the status in the pidfd once the process was collected by its parent, from Linux 6.15 on; nobody else
can have the pid's status, and a reused pid is another pidfd.
"""

from __future__ import annotations

import errno
import fcntl
import struct

SINCE = "Linux 6.15"
PIDFD_INFO_PID = 1 << 0
PIDFD_INFO_EXIT = 1 << 3
_INFO = struct.Struct("=QQ11Ii")  # mask, cgroupid, pid to fsgid, exit_code: PIDFD_INFO_SIZE_VER0, 64 bytes
PIDFD_GET_INFO = (
    3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
)  # _IOWR(PIDFS_IOCTL_MAGIC, 11, struct pidfd_info)
_TRIES = 3  # one that is collected while it is asked about has neither its pid nor its status yet
_UNKNOWN = (errno.ENOTTY, errno.EINVAL)  # Linux before 6.13


class Untold(Exception):
    """This kernel does not tell how a process ended."""


def status(pidfd: int) -> int | None:
    """The status of wait(2) of a process that ended and was collected; ``None`` while it was not.

    Raises :class:`Untold` where it ended and the kernel does not say how, or cannot be asked at all.
    """
    for _ in range(_TRIES):
        info = bytearray(_INFO.size)
        struct.pack_into("=Q", info, 0, PIDFD_INFO_EXIT)
        try:
            fcntl.ioctl(pidfd, PIDFD_GET_INFO, info)
        except ProcessLookupError:
            continue  # collected: in this moment, or before on Linux 6.13 and 6.14
        except OSError as error:
            if error.errno in _UNKNOWN:
                raise Untold from error
            raise
        mask, *_, code = _INFO.unpack(info)
        if mask & PIDFD_INFO_EXIT:
            return int(code)
        if mask & PIDFD_INFO_PID:
            return None
    raise Untold
