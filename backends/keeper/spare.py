"""The next keeper, forked before anybody asks for one.

It has begun its launch (:class:`backends.tiers.launcher.Builder`) and gone through what a launch computes, so
that the pages this touches are its own by now and no command waits for their copies. It knows no box, and of
the zygote it holds a socket and the log; when the socket closes, it ends, and the process that it began.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import NoReturn

from backends.kernel import title
from backends.kernel.syscalls import close_from
from backends.tiers.launcher import Builder

LIMIT = 65536  # bytes of what it is told
HIGH = 256  # its descriptors stay from here on while all others are closed
Become = Callable[[str, Mapping[str, str], frozenset[str], list[int], Builder], NoReturn]


class Spare:
    """A child that waits to become a keeper. ``fds`` is how many descriptors it is given with the request."""

    def __init__(self, fds: int, become: Become) -> None:
        self._sock, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        if os.fork() == 0:
            _wait(inner, fds, become)
        inner.close()

    def take(self, root: str, environment: Mapping[str, str], intact: frozenset[str], fds: list[int]) -> bool:
        """Have it be the keeper of ``root`` from here on; False when it cannot, or is gone. Only once."""
        words = json.dumps([root, dict(environment), sorted(intact)]).encode()
        try:
            return len(words) < LIMIT and socket.send_fds(self._sock, [words], fds) == len(words)
        except OSError:
            return False
        finally:
            self._sock.close()


def _wait(inner: socket.socket, fds: int, become: Become) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        begun = Builder()  # before all else: see there
        title.replace("cloche-spare", "cloche spare")
        beyond = begun.move(HIGH)
        os.dup2(inner.detach(), beyond, inheritable=False)
        os.closerange(3, HIGH)
        close_from(beyond + 1)
        with socket.socket(fileno=beyond) as told:
            _rehearse()
            data, given, _, _ = socket.recv_fds(told, LIMIT, fds)
        if data and len(given) == fds:
            root, environment, intact = json.loads(data)
            become(root, environment, frozenset(intact), given, begun)
    finally:
        os._exit(0)


def _rehearse() -> None:
    """Compute what every launch computes, of nothing in particular. Reads the host and changes nothing."""
    from backends.kernel import cgroups, mounts, procfs, seccomp
    from backends.kernel.seccomp import FilterSpec
    from backends.tiers import etc, grants, root

    try:
        files = etc.synthesize("box", "/bin/sh", host_network=False, pinned=None)
        grants.plan(
            ("/usr", "/etc", "/bin"), (), ("/etc/shadow",), mounts.mount_points(), files, root.OWN_FOLDERS
        )
        seccomp.build(FilterSpec())
        for controller in (cgroups.PIDS, cgroups.MEMORY):
            cgroups.find(controller)
        procfs.identify(os.getpid())
        json.loads(json.dumps({"rehearsed": [True, 1, "a"]}, sort_keys=True, indent=1))
    except OSError:
        return  # a launch will say what is wrong
