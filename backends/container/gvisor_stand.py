"""The process on the host that stands for one command under gVisor: it passes signals on, ends as it ended.

``runsc exec`` waits for the command and knows its streams; a signal ends it and never reaches the command. So
this process leads the session on the host and has ``runsc exec`` below it, in a group of its own, which
ends with it.
"""

from __future__ import annotations

import fcntl
import os
import signal
from typing import NoReturn

from backends.container import joining
from backends.container.plan import INIT, UID
from backends.kernel import pty, title
from backends.kernel.syscalls import close_from, prctl
from backends.record import NamedTuple

PR_SET_PDEATHSIG = 1
FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)
_TRIES = 3
_TOLD = 3  # the descriptor on which the command's number inside comes
_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


class Stand(NamedTuple):
    pid: int
    tell: int  # write the command's number inside here, once; then close it


def start(words: list[str], fds: tuple[int, ...], entering: list[str], name: str, *, terminal: bool) -> Stand:
    """Fork it. ``words``: the ``runsc exec``, with ``fds`` as its streams; a ``terminal`` becomes its own.

    ``entering``: the words of an ``exec`` as another process, up to the container, for signals.
    """
    told, tell = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _stand(words, fds, entering, name, told, terminal)
    os.close(told)
    return Stand(pid, tell)


def _stand(
    words: list[str], fds: tuple[int, ...], entering: list[str], name: str, told: int, terminal: bool
) -> NoReturn:
    code = 127
    try:
        os.setsid()
        given = [*fds, told]
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in given]
        for target, fd in enumerate(high):
            os.dup2(fd, target, inheritable=target != _TOLD)
        close_from(len(high))
        joining.default_signals()
        waited = {signal.SIGCHLD, *FORWARDED}
        signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        title.replace(name[:15], f"gvisor: {name}")
        child = os.fork()
        if child == 0:
            _execute(words, terminal)
        for fd in range(3):
            os.dup2(os.open("/dev/null", os.O_RDWR), fd)  # a pipe is to end with the command, not with us
        code = _serve(child, waited, entering)
    finally:
        os._exit(code)


def _execute(words: list[str], terminal: bool) -> NoReturn:
    try:
        parent = os.getppid()
        # Signals of our group are for the command. Those of a terminal runsc passes on by itself.
        if terminal:
            os.setsid()
            pty.take_as_controlling(0)
        else:
            os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(words[0], words, _ENV)  # noqa: S606
    finally:
        os._exit(127)


def _serve(child: int, waited: set[signal.Signals], entering: list[str]) -> int:
    inner = 0
    while True:
        number = signal.sigwait(waited)
        if number == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            continue
        inner = inner or _number()
        if inner:
            _forward(number, inner, entering)


def _number() -> int:
    text = os.read(_TOLD, 16)
    return int(text) if text.isdigit() else 0


def _forward(number: int, inner: int, entering: list[str]) -> None:
    """To the command's process group, which it leads inside, by a process that has its rights and no more."""
    words = [*entering, INIT, "kill", "-s", str(number), f"-{inner}"]
    for _ in range(_TRIES):
        # Our streams are /dev/null; gVisor may refuse a process in a moment of much work.
        pid = os.posix_spawn(words[0], words, _ENV, setsigmask=())
        if os.waitpid(pid, 0)[1] == 0:
            return


def entering(argv: tuple[str, ...], container: str) -> list[str]:
    """What runs one more program inside, as the box's own user."""
    return [*argv, "exec", "--user", f"{UID}:{UID}", container]
