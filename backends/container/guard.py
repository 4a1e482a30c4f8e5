"""Runs a command without a network and ends it, with all that it started, when whoever wanted it is gone.

Run as a file, inside the namespaces that the command needs: ``python -I -S guard.py PROGRAM ARGUMENT...``.
Its standard input is a pipe that its starter holds open: at its end, however that came, everything that the
command started is killed. Orphans of the command come to this process, which is a subreaper (prctl(2)).

The network namespace is an empty one: Podman's own options hold the commands of a build, and Podman itself
would still fetch what an ``ADD`` names, from the host's loopback too.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress

_FAILED = 125
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNET = 0x40000000


def main(words: list[str]) -> int:
    """The exit code of the command, 128 + 9 when it was ended."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        sys.stderr.write(f"no network namespace: {os.strerror(ctypes.get_errno())}\n")
        return _FAILED
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the pipe tells; a signal to the group must not end only this
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        pid = os.posix_spawnp(
            words[0],
            words,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, null, 0)],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
        )
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        return _FAILED
    ended = os.pidfd_open(pid)
    status = None
    while status is None:
        ready, _, _ = select.select([0, ended], [], [])
        if ended in ready:
            status = os.waitpid(pid, 0)[1]
        elif not os.read(0, 1):
            break
    _end_all()
    return 128 + signal.SIGKILL if status is None else _code(status)


def _end_all() -> None:
    """Kill every descendant: children of those that end become ours, until none is left."""
    with suppress(ChildProcessError):
        while True:
            for child in _children():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> list[int]:
    """Our children, ended ones included (proc_pid_stat(5): the fourth field is the parent)."""
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[1]) == own:
                    found.append(int(name))
    return found


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
