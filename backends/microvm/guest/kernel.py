"""The few system calls that a guest's first process needs beyond the standard library.

Sources: mount(2), finit_module(2), netdevice(7).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

from backends.kernel.syscalls import libc, syscall

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1

LINUX_REBOOT_CMD_POWER_OFF = 0x4321FEDC
LINUX_REBOOT_CMD_RESTART = 0x01234567


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """mount(2); ``OSError`` with the target in it."""
    encoded = [text.encode("utf-8", "surrogateescape") for text in (source, target, kind, data)]
    if libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount {kind} on {target}: {os.strerror(code)}")


def insert_module(path: str) -> None:
    """finit_module(2); one that is there already is no error."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscall("finit_module", fd, b"\0", 0)
    except FileExistsError:
        return
    finally:
        os.close(fd)


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        asked = struct.pack("=16sh22x", b"lo", 0)
        flags = struct.unpack_from("=h", fcntl.ioctl(sock, SIOCGIFFLAGS, asked), 16)[0]
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("=16sh22x", b"lo", flags | IFF_UP))


def restart() -> None:
    """reboot(2), which the monitor takes for the end."""
    libc.reboot(LINUX_REBOOT_CMD_RESTART)
