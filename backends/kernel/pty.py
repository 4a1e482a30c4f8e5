"""Pseudo-terminals of a given devpts instance. Source: pts(4), ioctl_tty(2).

A box's terminals live in its own devpts and never are the workbench's: what is typed into one can reach no
shell outside.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios

TIOCGPTN = 0x80045430
TIOCSPTLCK = 0x40045431
TIOCGPTPEER = 0x5441


def open_master(ptmx: str = "/dev/ptmx") -> int:
    """A new terminal's master end, unlocked and close-on-exec."""
    master = os.open(ptmx, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(master, TIOCSPTLCK, struct.pack("=i", 0))
    except OSError:
        os.close(master)
        raise
    return master


def open_slave(master: int) -> int:
    """The other end, by the master itself (Linux 4.13): no path that could name another terminal."""
    return int(fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))


def set_size(fd: int, rows: int, cols: int) -> None:
    """Sets the window size; the foreground processes of the terminal get SIGWINCH."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("=HHHH", rows & 0xFFFF, cols & 0xFFFF, 0, 0))


def take_as_controlling(slave: int) -> None:
    """Makes ``slave`` the controlling terminal of the calling session leader."""
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
