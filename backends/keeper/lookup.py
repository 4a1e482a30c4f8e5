"""Names of the internet for a box, asked of the host's own resolver by a helper: the keeper never waits.

The helper (:mod:`backends.keeper.lookup_child`) is started by the first lookup and ends with the keeper. A
name is asked as it is, without the host's search domains, and no packet of a box is ever passed on.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from backends.keeper import lookup_child
from backends.keeper.log import Log
from backends.keeper.loop import READ, Loop

AT_ONCE = 8  # lookups that run
FIRST = 4  # further ones, for what a person asks
WAITING = 256  # lookups that wait for their turn
PATIENCE = 10  # seconds of one lookup; a host whose first name server is dead needs five
_GRACE = 1.0  # seconds more until one counts as lost that its alarm should have ended
_LAST_WORDS = 200  # milliseconds that the helper has to end by itself
_PAUSE = 1.0  # seconds between two starts of the helper


class Found(NamedTuple):
    """What the host said: addresses, or ``error``: ``none`` (no such name), ``again`` (no answer)."""

    addresses: tuple[str, ...]
    error: str = ""


Done = Callable[[Found], None]
AGAIN = Found((), "again")


class _Asked(NamedTuple):
    name: str
    done: Done
    until: float


class Lookups:
    """Runs lookups for one box. ``tick`` is to be called once a second."""

    def __init__(self, loop: Loop, log: Log, patience: int = PATIENCE) -> None:
        self._loop = loop
        self._log = log
        self._patience = patience
        self._socket: socket.socket | None = None
        self._pidfd = -1
        self._started = 0.0
        self._ident = 0
        self._running: dict[int, _Asked] = {}
        self._queue: deque[tuple[str, Done]] = deque()
        self._first: deque[tuple[str, Done]] = deque()

    def ask(self, name: str, done: Done, *, first: bool = False) -> None:
        """Call ``done`` once, later or at once, with the addresses of ``name``.

        ``first``: a person asks, and few names at a time; what a box asks for waits.
        """
        if len(self._running) < (AT_ONCE + FIRST if first else AT_ONCE):
            self._send(name, done)
        elif first:
            self._first.append((name, done))
        elif len(self._queue) < WAITING:
            self._queue.append((name, done))
        else:
            done(AGAIN)

    def _send(self, name: str, done: Done) -> None:
        helper = self._helper()
        self._ident += 1
        try:
            if helper is not None:
                helper.send(b"%d %s" % (self._ident, name.encode("ascii")))
                self._running[self._ident] = _Asked(name, done, time.monotonic() + self._patience + _GRACE)
                return
        except (OSError, UnicodeError) as error:
            self._log.note(f"a name cannot be looked up: {error}", "lookup")
        done(AGAIN)

    def _helper(self) -> socket.socket | None:
        now = time.monotonic()
        if self._socket is None and (not self._started or now > self._started + _PAUSE):
            self._started = now
            try:
                self._start()
            except OSError as error:
                self._log.note(f"the helper for lookups does not start: {error}", "lookup helper")
        return self._socket

    def _start(self) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script = lookup_child.__file__
        # LOCALDOMAIN: no search domain is ever added to a name (resolv.conf(5)).
        environment = {"PATH": os.defpath, "LC_ALL": "C", "LOCALDOMAIN": "."}
        null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), null, (os.POSIX_SPAWN_DUP2, 1, 2)]
        words = [sys.executable, "-I", "-S", script, str(self._patience)]
        with theirs:
            try:
                pid = os.posix_spawn(
                    sys.executable,
                    words,
                    environment,
                    file_actions=actions,
                    setsid=True,
                    setsigmask=(),
                    setsigdef=(signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGALRM),
                )
                self._pidfd = os.pidfd_open(pid)
            except OSError:
                mine.close()
                raise
        mine.setblocking(False)
        self._socket = mine
        self._loop.add(mine.fileno(), READ, self._ready, lambda _error: self._lost())

    def _ready(self, _events: int) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._log.note("the helper for lookups ended", "lookup helper ended")
            self._lost()
            return
        answer = json.loads(data)
        asked = self._running.pop(answer["id"], None)
        if asked is not None:
            self._next()
            asked.done(Found(tuple(answer["addresses"]), answer["error"]))

    def _next(self) -> None:
        while self._first and len(self._running) < AT_ONCE + FIRST:
            self._send(*self._first.popleft())
        while self._queue and len(self._running) < AT_ONCE:
            self._send(*self._queue.popleft())

    def _lost(self) -> None:
        """The helper is no more: what was asked of it has no answer; the next lookup starts another one."""
        self._end_helper()
        lost, self._running = self._running, {}
        for asked in lost.values():
            asked.done(AGAIN)
        self._next()

    def tick(self) -> None:
        """Give up what its alarm ended."""
        now = time.monotonic()
        for ident, asked in list(self._running.items()):
            if asked.until < now:
                del self._running[ident]
                asked.done(AGAIN)
        self._next()

    def _end_helper(self) -> None:
        if self._socket is not None:
            self._loop.remove(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._pidfd >= 0:
            ended = select.poll()
            ended.register(self._pidfd, select.POLLIN)
            if not ended.poll(_LAST_WORDS):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # the keeper may have collected it already
                os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
            os.close(self._pidfd)
            self._pidfd = -1

    def close(self) -> None:
        """End the helper and the lookups that run; what still waits is never answered."""
        self._end_helper()
        self._running.clear()
        self._queue.clear()
        self._first.clear()
