"""What binds a monitor's process beside its own filter: which files it opens, and no network.

Whoever got out of a guest would be a process of the box's user with the monitor's files open. So the monitor
has a Landlock domain, in which it opens the guest's files, those of its own program and a few devices, and
can make no link, socket or pipe; and a network namespace with nothing in it. What the host lacks is left out,
and told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from backends.kernel import landlock, namespaces
from backends.record import NamedTuple

MINIMUM = 2  # of Landlock: below it, nothing could be renamed between folders of a share
# Of a monitor's program: libraries, firmware, what the dynamic linker and libc read.
_READ = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/kvm")
_DEVICE = landlock.FS_READ_FILE | landlock.FS_WRITE_FILE | landlock.FS_IOCTL_DEV
# Mapped attributes need none of these: what the guest calls a link or a device is a plain file.
_NEVER = (
    landlock.FS_MAKE_SYM
    | landlock.FS_MAKE_SOCK
    | landlock.FS_MAKE_FIFO
    | landlock.FS_EXECUTE
    | landlock.FS_IOCTL_DEV
)
_NAMESPACES = namespaces.CLONE_NEWNET | namespaces.CLONE_NEWIPC | namespaces.CLONE_NEWUTS


class Confinement(NamedTuple):
    """``enter`` is called in the monitor's child before it becomes another user; ``words`` say what holds."""

    enter: Callable[[], None]
    words: str


def plan(readable: Sequence[int], writable: Sequence[int]) -> Confinement:
    """What this host can hold a monitor to that was given these files and folders of the guest, open."""
    level = landlock.abi()
    alone = _tried(_leave_network)
    said = [f"Landlock ABI {level}"] if level >= MINIMUM else []
    said += ["no network"] if alone else []

    def enter() -> None:
        if alone:
            _leave_network()
        if level >= MINIMUM:
            _restrict(readable, writable)

    return Confinement(enter, ", ".join(said) or "nothing of this host's beside its own filter")


def _restrict(readable: Sequence[int], writable: Sequence[int]) -> None:
    rules: list[tuple[str | int, int]] = [
        (path, landlock.FS_READ_EXECUTE) for path in _READ if os.path.exists(path)
    ]
    rules += [(path, _DEVICE) for path in _DEVICES if os.path.exists(path)]
    rules += [(fd, landlock.FS_READ) for fd in readable]
    rules += [(fd, landlock.FS_READ_WRITE & ~_NEVER) for fd in writable]
    landlock.restrict(rules, net=landlock.NET_BIND_TCP | landlock.NET_CONNECT_TCP)


def _leave_network() -> None:
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        namespaces.unshare(_NAMESPACES)
        return
    namespaces.unshare(namespaces.CLONE_NEWUSER | _NAMESPACES)
    namespaces.map_ids(None, ((uid, uid, 1),), ((gid, gid, 1),), setgroups=False)


def _tried(act: Callable[[], None]) -> bool:
    """Whether ``act`` works here, tried in a child of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0
