"""The process that the first processes of boxes are forked from, and what a zygote does before it loads.

A box's init keeps, for as long as the box lives, all the memory that it did not share with others when they
ended, and its part of what it shares. So it does not come of the zygote, which loads what keepers need, but
of a process that was forked when nothing was loaded but what a launch runs in the box.
"""

from __future__ import annotations

import _signal as plain  # type: ignore[import-not-found] # see init.py
import gc
import os
import resource
import socket
import time

from backends import injected
from backends.keeper import holes, init_protocol
from backends.kernel import title
from backends.kernel.syscalls import PR_SET_CHILD_SUBREAPER, close_from, prctl
from backends.tiers import boundary
from backends.tiers.builder import Builder, Ends

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from typing import NoReturn

SERVED = 3  # the descriptor that a seed is asked through
_CHILD = int(plain.SIGCHLD)


def main(name: str, listening: int) -> NoReturn:
    """Be the zygote that serves ``listening``, bound to ``name``, detached from our starter."""
    close_from(listening + 2)  # what our starter had open; next to the listener is the lock
    if os.fork():
        os._exit(0)
    began = time.time_ns()
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    title.replace("cloche-zygote", "cloche zygote")
    os.environ.clear()
    gc.collect()
    holes.fill()
    seed = Seed()
    from backends.keeper import zygote

    zygote.main(name, listening, seed, began)


def alone(root: str, ready_fd: int) -> NoReturn:
    """Be the keeper of the box in ``root`` that no zygote forked, detached from our starter and from what it
    had open. The launch is begun first, for the same reason, whatever the tier."""
    close_from(ready_fd + 1)
    detach()
    raise_limits()  # init inherits them
    begun = Builder()
    from backends.keeper import main

    gc.freeze()
    gc.enable()
    title.replace(*main.shown(root))
    main.serve(root, ready_fd, begun=begun)


def detach() -> None:
    """Leave the starter's session for good (credentials(7)): first fork, setsid, second fork, own group."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.setpgid(0, 0)


class Seed:
    """The way to such a process, which is forked here and ends when nobody holds this any more.

    What it forks are its own children, and the inits that these leave behind: it takes their exits.
    """

    def __init__(self) -> None:
        self._sock, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        if os.fork() == 0:
            _serve(inner)
        inner.close()

    def fileno(self) -> int:
        """Becomes readable when the process has ended."""
        return self._sock.fileno()

    def begin(self, inner: Ends) -> None:
        """Have a builder forked that holds ``inner``, which is closed here; ``OSError`` when none can be."""
        try:
            socket.send_fds(self._sock, [b"begin"], [inner.control.fileno(), inner.death, inner.plan])
        finally:
            inner.close()


def _serve(inner: socket.socket) -> NoReturn:
    try:
        gc.freeze()
        title.replace("cloche-seed", "cloche seed")
        os.dup2(inner.detach(), SERVED, inheritable=False)
        close_from(SERVED + 1)
        injected.begin("")  # what we fork finds no environment, and need not look into it
        raise_limits()
        plain.signal(_CHILD, plain.SIG_IGN)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        asked = socket.socket(fileno=SERVED)
        while True:
            data, given, _, _ = socket.recv_fds(asked, 16, 3)
            if not data:
                break
            control, death, plan = given
            child = os.fork()
            if child == 0:
                plain.signal(_CHILD, plain.SIG_DFL)  # it waits for children of its own
                boundary.descend(plan, socket.socket(fileno=control), death)
            _introduce(child, socket.socket(fileno=control))
            os.close(death)
            os.close(plan)
    finally:
        os._exit(0)


def _introduce(child: int, control: socket.socket) -> None:
    """Tell whoever goes on with ``child`` who that is, unless it or they are gone already."""
    with control:
        try:
            pidfd = os.pidfd_open(child)
            try:
                init_protocol.send(control, {"ev": "begun", "pid": child}, [pidfd])
            finally:
                os.close(pidfd)
        except OSError:
            return


def raise_limits() -> None:
    """As many descriptors as we may have, for many sessions and for passing them on: those that wait in the
    sockets of this user's boxes count against the limit of whoever sends one (unix(7), ETOOMANYREFS). Init
    inherits it for the same reason; a session starts with what its policy gives.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
