"""The next keeper, forked before anybody asks for one.

It has begun its launch (:class:`backends.tiers.launcher.Builder`) and gone through what a launch computes, so
that the pages this touches are its own by now and no command waits for their copies. It knows no box, and of
the zygote it holds a socket and the log; when the socket closes, it ends, and the process that it began.
Where none waits, one is forked for the request and takes it at once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable, Mapping
from typing import NoReturn

from backends.keeper.seed import Seed
from backends.kernel import title
from backends.kernel.syscalls import close_from
from backends.tiers.builder import Builder, Ends, ends

LIMIT = 65536  # bytes of what it is told
HIGH = 256  # its descriptors stay from here on while all others are closed
SERVED = 3  # the descriptor that a forker is asked through
Become = Callable[[str, Mapping[str, str], frozenset[str], list[int], Builder], NoReturn]


class Forker:
    """A process that does nothing but fork spares.

    It is a copy of the zygote, made once all is loaded. What a process writes after it forked is no longer
    shared with its children: whoever forks and does other things as well leaves them pages of their own that
    they never touched, and a box's init would keep them as long as the box.
    """

    def __init__(self, fds: int, become: Become, seed: Seed) -> None:
        self.seed = seed
        self._sock, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        if os.fork() == 0:
            _serve(inner, fds, become)
        inner.close()

    def fileno(self) -> int:
        """Becomes readable when the process has ended."""
        return self._sock.fileno()

    def spare(self) -> Spare:
        """Have one forked; ``OSError`` when the process is gone."""
        outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        builder, begun = ends()
        try:
            self.seed.begin(begun)
            given = [inner.fileno(), builder.control.fileno(), builder.death, builder.plan]
            socket.send_fds(self._sock, [b"fork"], given)
        except OSError:
            outer.close()
            raise
        finally:
            inner.close()
            builder.close()
        return Spare(outer)


def _serve(inner: socket.socket, fds: int, become: Become) -> NoReturn:
    try:
        title.replace("cloche-forker", "cloche forker")
        os.dup2(inner.detach(), SERVED, inheritable=False)
        close_from(SERVED + 1)
        asked = socket.socket(fileno=SERVED)
        while True:
            data, given, _, _ = socket.recv_fds(asked, 16, 4)
            if not data:
                break
            if os.fork() == 0:
                told, control, death, plan = given
                _wait(
                    socket.socket(fileno=told), Ends(socket.socket(fileno=control), death, plan), fds, become
                )
            for fd in given:
                os.close(fd)
    finally:
        os._exit(0)


class Spare:
    """A child of the forker that waits to become a keeper; ``sock`` leads to it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def take(self, root: str, environment: Mapping[str, str], intact: frozenset[str], fds: list[int]) -> bool:
        """Have it be the keeper of ``root`` from here on; False when it cannot, or is gone. Only once."""
        words = json.dumps([root, dict(environment), sorted(intact)]).encode()
        try:
            return len(words) < LIMIT and socket.send_fds(self._sock, [words], fds) == len(words)
        except OSError:
            return False
        finally:
            self._sock.close()


def _wait(inner: socket.socket, builder: Ends, fds: int, become: Become) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        begun = _begun(builder)
        title.replace("cloche-spare", "cloche spare")
        beyond = begun.move(HIGH)
        os.dup2(inner.detach(), beyond, inheritable=False)
        os.closerange(3, HIGH)
        close_from(beyond + 1)
        with socket.socket(fileno=beyond) as told:
            if not _asked(told):
                _rehearse()
            data, given, _, _ = socket.recv_fds(told, LIMIT, fds)
        if data and len(given) == fds:
            root, environment, intact = json.loads(data)
            become(root, environment, frozenset(intact), given, begun)
    finally:
        os._exit(0)


def _begun(builder: Ends) -> Builder:
    """The launch whose first process the seed forked; where it could not, one that we fork."""
    try:
        return Builder(builder)
    except OSError:
        builder.close()
        return Builder()


def _asked(told: socket.socket) -> bool:
    """Whether its request is there already: then somebody waits."""
    poller = select.poll()
    poller.register(told.fileno(), select.POLLIN)
    return bool(poller.poll(0))


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
