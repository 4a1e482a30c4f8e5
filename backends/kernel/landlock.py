"""Landlock: rules on paths, TCP ports and scopes that bind a thread and all its descendants for good.

Source: landlock(7) and ``Documentation/userspace-api/landlock.rst``. Constants carry the kernel's names
without ``LANDLOCK_ACCESS_``. A level (ABI) that lacks a right simply does not know it; :func:`restrict`
handles all that the level knows, so what no rule allows is refused.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable

from backends import injected
from backends.kernel.syscalls import PR_SET_NO_NEW_PRIVS, prctl, syscall
from backends.record import NamedTuple

FS_EXECUTE = 1 << 0
FS_WRITE_FILE = 1 << 1
FS_READ_FILE = 1 << 2
FS_READ_DIR = 1 << 3
FS_REMOVE_DIR = 1 << 4
FS_REMOVE_FILE = 1 << 5
FS_MAKE_CHAR = 1 << 6
FS_MAKE_DIR = 1 << 7
FS_MAKE_REG = 1 << 8
FS_MAKE_SOCK = 1 << 9
FS_MAKE_FIFO = 1 << 10
FS_MAKE_BLOCK = 1 << 11
FS_MAKE_SYM = 1 << 12
FS_REFER = 1 << 13  # ABI 2; below it, moving or linking between folders is always refused
FS_TRUNCATE = 1 << 14  # ABI 3
FS_IOCTL_DEV = 1 << 15  # ABI 5

NET_BIND_TCP = 1 << 0  # ABI 4
NET_CONNECT_TCP = 1 << 1

SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0  # ABI 6
SCOPE_SIGNAL = 1 << 1

# The right, by the level that introduced it.
FS_RIGHTS: tuple[tuple[str, int, int], ...] = (
    ("EXECUTE", FS_EXECUTE, 1),
    ("WRITE_FILE", FS_WRITE_FILE, 1),
    ("READ_FILE", FS_READ_FILE, 1),
    ("READ_DIR", FS_READ_DIR, 1),
    ("REMOVE_DIR", FS_REMOVE_DIR, 1),
    ("REMOVE_FILE", FS_REMOVE_FILE, 1),
    ("MAKE_CHAR", FS_MAKE_CHAR, 1),
    ("MAKE_DIR", FS_MAKE_DIR, 1),
    ("MAKE_REG", FS_MAKE_REG, 1),
    ("MAKE_SOCK", FS_MAKE_SOCK, 1),
    ("MAKE_FIFO", FS_MAKE_FIFO, 1),
    ("MAKE_BLOCK", FS_MAKE_BLOCK, 1),
    ("MAKE_SYM", FS_MAKE_SYM, 1),
    ("REFER", FS_REFER, 2),
    ("TRUNCATE", FS_TRUNCATE, 3),
    ("IOCTL_DEV", FS_IOCTL_DEV, 5),
)
NET_RIGHTS = (("BIND_TCP", NET_BIND_TCP, 4), ("CONNECT_TCP", NET_CONNECT_TCP, 4))
SCOPES = (("ABSTRACT_UNIX_SOCKET", SCOPE_ABSTRACT_UNIX_SOCKET, 6), ("SIGNAL", SCOPE_SIGNAL, 6))

FS_ALL = sum(right for _, right, _ in FS_RIGHTS)
FS_READ = FS_READ_FILE | FS_READ_DIR
FS_READ_EXECUTE = FS_READ | FS_EXECUTE
# Everything a program does with its own files; device nodes stay out.
FS_READ_WRITE = FS_ALL & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK)
# The rights that may stand in a rule on something that is not a folder: more is EINVAL.
FS_FILE = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV
SCOPE_ALL = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL

HIGHEST_ABI = 7  # the newest level this module knows; a later kernel is used as this one

# Lowers the level for a test of an older kernel on a newer one; it can never raise it.
ABI_VARIABLE = "CLOCHE_LANDLOCK_ABI"

_CREATE_RULESET_VERSION = 1 << 0
_RESTRICT_SELF_LOG_NEW_EXEC_ON = 1 << 1
_RULE_PATH_BENEATH = 1
_RULE_NET_PORT = 2


class Domain(NamedTuple):
    """What a restriction handles: everything in these masks is refused unless a rule allows it."""

    abi: int
    fs: int
    net: int
    scope: int

    def names(self) -> tuple[str, ...]:
        """The handled rights by kernel name, in the kernel's order."""
        return tuple(
            [name for name, right, _ in FS_RIGHTS if self.fs & right]
            + [name for name, right, _ in NET_RIGHTS if self.net & right]
            + [f"SCOPE_{name}" for name, right, _ in SCOPES if self.scope & right]
        )


def abi() -> int:
    """The level that the kernel offers, 0 when Landlock is absent, shut off at boot, or not known here.

    The environment variable ``CLOCHE_LANDLOCK_ABI`` lowers the answer (to test older levels), never raises.
    """
    if injected.how("landlock"):
        return 0
    try:
        offered = min(syscall("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION), HIGHEST_ABI)
    except (OSError, NotImplementedError):
        return 0
    forced = os.environ.get(ABI_VARIABLE, "")
    return min(offered, int(forced)) if forced.isascii() and forced.isdigit() else offered


def domain(level: int, *, scope: int = SCOPE_ALL, net: int = 0) -> Domain:
    """What ``level`` can handle of the asked-for scopes and TCP rights, and all file rights it knows."""
    return Domain(
        level,
        sum(right for _, right, since in FS_RIGHTS if since <= level),
        sum(right for _, right, since in NET_RIGHTS if since <= level and net & right),
        sum(right for _, right, since in SCOPES if since <= level and scope & right),
    )


def restrict(
    rules: Iterable[tuple[str | int, int]],
    *,
    abi: int | None = None,
    scope: int = SCOPE_ALL,
    net: int = 0,
    ports: Iterable[tuple[int, int]] = (),
    audited: bool = False,
) -> Domain:
    """Confines the calling thread and all that it will start, and sets no_new_privs.

    ``rules`` and so on are those of :func:`ruleset`, ``audited`` is that of :func:`enter`. Returns what is
    handled now. ``OSError`` as these two: nothing is restricted then.
    """
    handled = _handled(abi, scope, net)
    enter(_made(handled, rules, ports), audited=audited, level=handled.abi)
    return handled


def ruleset(
    rules: Iterable[tuple[str | int, int]],
    *,
    abi: int | None = None,
    scope: int = SCOPE_ALL,
    net: int = 0,
    ports: Iterable[tuple[int, int]] = (),
) -> int:
    """A descriptor (close-on-exec) of rules that :func:`enter` confines to, in this process or another one.

    ``rules`` are pairs of a path (or an open descriptor, best ``O_PATH``) and the access allowed beneath it;
    rights that the level does not know are dropped from a rule, rights of folders from a rule on a file.
    ``net`` is the mask of TCP rights to handle, ``ports`` the (port, access) pairs that stay allowed. ``abi``
    forces a lower level. A path that does not exist raises ``FileNotFoundError``; other failures raise
    ``OSError`` named by the call.
    """
    return _made(_handled(abi, scope, net), rules, ports)


def enter(ruleset: int, *, audited: bool = False, level: int | None = None) -> None:
    """Confines the calling thread and all that it will start to ``ruleset``, which is closed, and sets
    no_new_privs.

    ``audited`` has the kernel log refusals also of programs that are executed later, from ABI 7 on;
    ``level`` is the rules' where it was forced.
    """
    try:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        logged = audited and (abi() if level is None else level) >= 7
        syscall("landlock_restrict_self", ruleset, _RESTRICT_SELF_LOG_NEW_EXEC_ON if logged else 0)
    finally:
        os.close(ruleset)


def _handled(level: int | None, scope: int, net: int) -> Domain:
    offered = abi()
    level = offered if level is None else min(level, offered)
    if level < 1:
        raise OSError(38, "landlock_create_ruleset: Landlock is not available in this kernel")
    return domain(level, scope=scope, net=net)


def _made(handled: Domain, rules: Iterable[tuple[str | int, int]], ports: Iterable[tuple[int, int]]) -> int:
    attributes = struct.pack("=QQQ", handled.fs, handled.net, handled.scope)
    size = 24 if handled.abi >= 6 else 16 if handled.abi >= 4 else 8
    ruleset = syscall("landlock_create_ruleset", attributes, size, 0)
    try:
        for where, access in rules:
            _allow_path(ruleset, where, access & handled.fs)
        for port, access in ports:
            if access & handled.net:
                attributes = struct.pack("=QQ", access & handled.net, port)
                syscall("landlock_add_rule", ruleset, _RULE_NET_PORT, attributes, 0)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _allow_path(ruleset: int, where: str | int, access: int) -> None:
    fd = where if isinstance(where, int) else os.open(where, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= FS_FILE
        if access:  # an empty mask is ENOMSG
            syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", access, fd), 0)
    finally:
        if not isinstance(where, int):
            os.close(fd)
