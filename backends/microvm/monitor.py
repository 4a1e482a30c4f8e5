"""Starting a monitor's process so that it is the keeper's child and ends with it, whoever dies first.

The steward's children are what the keeper takes for the box's processes, so the monitor must not be one: it
is forked twice, and the keeper, the nearest subreaper (prctl(2), PR_SET_CHILD_SUBREAPER), adopts it. Only
then it asks to be killed when its parent dies (PR_SET_PDEATHSIG). The keeper ends what is still below it when
the steward is gone, so each of the three may be killed at any moment and nothing is left.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from backends.kernel.syscalls import PR_SET_NO_NEW_PRIVS, close_from, prctl
from backends.record import NamedTuple

PR_SET_PDEATHSIG = 1
_KEPT = 3  # the first descriptor that ``keep`` may name
_DEFAULTS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


class Monitor(NamedTuple):
    pid: int
    pidfd: int


def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: str,
    *,
    owner: tuple[int, int] | None = None,
    keep: Sequence[int] = (),
    cwd: str = "/",
    confine: Callable[[], None] | None = None,
) -> Monitor:
    """Starts ``argv`` (its first word a path). ``keep`` become its descriptors 3, 4, ... in that order.

    ``confine`` is called in the child before it becomes another user, with all descriptors still open.
    ``owner``: the uid and gid to run as, for root; without supplementary groups. What it prints goes to the
    file ``log``. ``OSError``: it could not be executed, or was gone at once.
    """
    told, telling = os.pipe2(os.O_CLOEXEC)
    leave, go = os.pipe2(os.O_CLOEXEC)
    failed, report = os.pipe2(os.O_CLOEXEC)
    between = os.fork()
    if between == 0:
        _between(argv, env, log, owner, keep, cwd, confine, telling, leave, report)
    for fd in (telling, leave, report):
        os.close(fd)
    try:
        os.waitpid(between, 0)
        text = os.read(told, 16)
        pid = int(text) if text else 0
        if pid <= 0:
            raise OSError(errno.EAGAIN, f"the monitor could not be forked: {os.strerror(errno.EAGAIN)}")
        pidfd = os.pidfd_open(pid)  # it waits for us, so the number is its own
        os.write(go, b"\n")
        word = os.read(failed, 4096)
        if word:
            os.close(pidfd)
            code, _, what = word.decode("utf-8", "replace").partition(":")
            raise OSError(int(code), f"{what}: {os.strerror(int(code))}")
        return Monitor(pid, pidfd)
    finally:
        for fd in (told, go, failed):
            os.close(fd)


def _between(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: str,
    owner: tuple[int, int] | None,
    keep: Sequence[int],
    cwd: str,
    confine: Callable[[], None] | None,
    telling: int,
    leave: int,
    report: int,
) -> NoReturn:
    try:
        pid = os.fork()
        if pid:
            os.write(telling, b"%d" % pid)
            os._exit(0)
        _monitor(argv, env, log, owner, keep, cwd, confine, leave, report)
    finally:
        os._exit(1)


def _monitor(
    argv: Sequence[str],
    env: Mapping[str, str],
    log: str,
    owner: tuple[int, int] | None,
    keep: Sequence[int],
    cwd: str,
    confine: Callable[[], None] | None,
    leave: int,
    report: int,
) -> None:
    word = "start"
    try:
        os.setsid()
        if os.read(leave, 1) != b"\n":
            os._exit(1)  # the steward is gone already
        word = log
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        if confine is not None:
            word = "its confinement"
            confine()
        report = _order((null, out, out, *keep), report)
        for number in _DEFAULTS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if owner is not None:
            word = "another user"
            os.setgroups([])
            os.setresgid(owner[1], owner[1], owner[1])
            os.setresuid(owner[0], owner[0], owner[0])
        parent = os.getppid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which clears it
        if os.getppid() != parent:
            os._exit(1)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        word = cwd
        os.chdir(cwd)
        word = argv[0]
        os.execve(argv[0], list(argv), dict(env))  # noqa: S606
    except OSError as error:
        os.write(report, f"{error.errno or 0}:{word}".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(127)


def _order(fds: Sequence[int], report: int) -> int:
    """Gives ``fds`` the numbers 0, 1, ... and ``report`` the one after, which closes on exec."""
    beyond = len(fds) + 1
    high = []
    for fd in (*fds, report):
        copy = os.dup(fd)
        while copy < beyond:
            copy = os.dup(copy)
        high.append(copy)
    for target, fd in enumerate(high[:-1]):
        os.dup2(fd, target)
    os.dup2(high[-1], len(fds), inheritable=False)
    close_from(beyond)
    return len(fds)


def send(monitor: Monitor, number: int) -> None:
    """Signal it; whoever waits for its end polls the pidfd."""
    try:
        signal.pidfd_send_signal(monitor.pidfd, number)
    except ProcessLookupError:
        return


def kill(monitor: Monitor) -> None:
    """SIGKILL; whoever waits for its end polls the pidfd."""
    send(monitor, signal.SIGKILL)
