"""How init starts one session: a child of its own session and process group, descriptors 0 to 2 only.

Between fork and exec the child is still a copy of init, and like init not dumpable: nothing in the box can
look into it. After exec it is an ordinary process of the box.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Mapping

from backends.kernel import pty, rlimits
from backends.kernel.rlimits import Limits
from backends.kernel.syscalls import close_from
from backends.record import NamedTuple

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from typing import NoReturn

_DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_SHELL = "/bin/sh"


class Spawn(NamedTuple):
    """One request to start a session."""

    id: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    size: tuple[int, int] | None  # rows and columns; None: three descriptors instead of a terminal


class Started(NamedTuple):
    """A child that was forked. ``result`` is a pipe: empty when exec succeeded, else the errno and a word."""

    pid: int
    pidfd: int
    master: int  # -1 without a terminal
    result: int


def parse(message: Mapping[str, object]) -> Spawn:
    """The request in a packet; ``ValueError`` when it is not one."""
    ident, argv, env = message.get("id"), message.get("argv"), message.get("env")
    cwd, size = message.get("cwd"), message.get("pty")
    if not isinstance(ident, int) or not isinstance(cwd, str):
        raise ValueError("a spawn request needs an id and a cwd")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise ValueError("a spawn request needs an argv of texts")
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise ValueError("a spawn request needs an env of texts")
    shape: tuple[int, int] | None = None
    if size is not None:
        if not isinstance(size, list) or len(size) != 2 or not all(isinstance(n, int) for n in size):
            raise ValueError("pty is [rows, columns]")
        shape = (size[0], size[1])
    if any("\0" in text for text in [*argv, *env, *env.values(), cwd]) or any("=" in name for name in env):
        raise ValueError("a text of a spawn request cannot be given to execve")
    return Spawn(ident, tuple(argv), env, cwd, shape)


def find(name: str, path: str) -> str:
    """The file that ``name`` means, searched in ``path`` (a PATH) unless it has a slash.

    By stat and access, so that only one execve is tried: each is journalled. Raises ``OSError`` as the exec
    would: ENOENT, or EACCES when something of that name cannot be executed.
    """
    if "/" in name:
        return name
    code = errno.ENOENT
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{name}"
        try:
            if not stat.S_ISREG(os.stat(candidate).st_mode):
                continue
        except OSError:
            continue
        if os.access(candidate, os.X_OK):
            return candidate
        code = errno.EACCES
    raise OSError(code, f"{name}: {os.strerror(code)}")


def start(spawn: Spawn, fds: tuple[int, ...], limits: tuple[int | None, ...]) -> Started:
    """Forks the child. ``fds`` (stdin, stdout, stderr) stay the caller's. ``OSError``: nothing started."""
    master = slave = -1
    if spawn.size:
        master = pty.open_master()
        try:
            slave = pty.open_slave(master)
            pty.set_size(slave, *spawn.size)
        except OSError:
            _close(master, slave)
            raise
    result, report = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError:
        _close(master, slave, result, report)
        raise
    if pid == 0:
        _child(spawn, (slave, slave, slave) if spawn.size else fds, report, limits)
    _close(slave, report)
    return Started(pid, os.pidfd_open(pid), master, result)


def _close(*fds: int) -> None:
    for fd in fds:
        if fd >= 0:
            os.close(fd)


def _child(spawn: Spawn, fds: tuple[int, ...], report: int, limits: tuple[int | None, ...]) -> NoReturn:
    word = "start"
    try:
        os.setsid()
        prepare(fds, report, terminal=spawn.size is not None)
        word = spawn.cwd
        os.chdir(spawn.cwd)
        word = "limits"
        rlimits.apply(Limits(*limits))
        word = spawn.argv[0]
        file = find(spawn.argv[0], spawn.env.get("PATH", os.defpath))
        execute(file, spawn.argv, spawn.env)
    except OSError as error:
        os.write(REPORT, f"{error.errno or 0}:{word}".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(127)


REPORT = 3


def prepare(fds: tuple[int, ...], report: int, *, terminal: bool) -> None:
    """Leaves the caller with 0, 1, 2 and the report pipe, which closes on exec; signals as at birth."""
    # First out of the way: a source may lie where another one's copy is about to be.
    moved = [os.dup(fd) for fd in fds]
    while report <= REPORT + 2:
        report = os.dup(report)
    spare = [_above(fd) for fd in moved]
    for target, fd in enumerate(spare):
        os.dup2(fd, target)
    os.dup2(report, REPORT, inheritable=False)
    close_from(REPORT + 1)
    if terminal:
        pty.take_as_controlling(0)
    for number in _DEFAULTS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _above(fd: int) -> int:
    while fd <= REPORT + 2:
        fd = os.dup(fd)
    return fd


def execute(file: str, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
    """execve(2); a file without an interpreter line goes to the shell, as execvp(3) does it."""
    try:
        os.execve(file, argv, env)  # noqa: S606
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve(_SHELL, (_SHELL, file, *argv[1:]), env)  # noqa: S606
