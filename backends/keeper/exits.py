"""Limits of one process that ended it: told by how it ended, wherever in the box's tree that was.

Init hears only of its own children; the kernel's process connector tells of all, and is asked where it can be
had. A program that ignores SIGXFSZ, as Python does, goes on with EFBIG, and then nobody is told.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Mapping

from backends.keeper.denials import Refusal
from backends.keeper.limits import Actions
from backends.keeper.log import Log
from backends.keeper.loop import READ, Loop
from backends.kernel import connector
from backends.policy.model import Resources

KERNEL = "kernel"
PER_TURN = 64  # datagrams that are read before others have their turn
LAST_TURNS = 256  # of them, before the socket is closed: more than it holds


class Exits:
    """``namespace`` is the inode of the box's process namespace, ``init`` its first process.

    ``recent`` has the command lines of processes of the box, by pid, as far as they are known.
    """

    def __init__(
        self,
        loop: Loop,
        log: Log,
        resources: Resources,
        init: int,
        namespace: int,
        actions: Actions,
        recent: Mapping[int, str],
    ) -> None:
        self._recent = recent
        self._loop = loop
        self._log = log
        self._init = init
        self._namespace = namespace
        self._actions = actions
        self._sock: socket.socket | None = None
        self._told = False  # the kernel tells of all ends, whenever we listen
        self._limits: dict[int, tuple[str, str, str]] = {}
        if resources.file_size is not None:
            self._limits[signal.SIGXFSZ] = (
                "file size", f"resources.file_size = {resources.file_size}", "RLIMIT_FSIZE",
            )  # fmt: skip
        if resources.cpu is not None:
            self._limits[signal.SIGXCPU] = (
                "processor time", f"resources.cpu = {resources.cpu} s", "RLIMIT_CPU",
            )  # fmt: skip

    def begin(self) -> None:
        """Count from now on, where the kernel tells of ends, while the box has processes."""
        self._told = bool(self._limits and self._namespace and connector.available())
        self.wake()

    def wake(self) -> None:
        """A process is about to start."""
        if self._told and self._sock is None:
            self._sock = connector.listen(self._limits)
            self._loop.add(self._sock.fileno(), READ, self._ready)

    def rest(self) -> None:
        """No process is left: the ends of all others on this host are not worth waking up for."""
        self.close()

    def count_up(self) -> None:
        """Read now what was told so far."""
        if self._sock is not None:
            self._ready(READ)

    def close(self) -> None:
        if self._sock is not None:
            for _ in range(LAST_TURNS):
                if self._read():
                    break
            self._loop.remove(self._sock.fileno())
            self._sock.close()
            self._sock = None

    def reaped(self, pid: int, status: int) -> None:
        """Init tells how a child of its own ended; only heard where the kernel does not tell of all."""
        if not self._told and os.WIFSIGNALED(status):
            self._hit(os.WTERMSIG(status), pid)

    def _ready(self, _events: int) -> None:
        self._read()

    def _read(self) -> bool:
        """Read for one turn; whether nothing is left."""
        assert self._sock is not None
        for _ in range(PER_TURN):
            try:
                message = self._sock.recv(4096)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._log.note("more processes ended than could be read", "ends")
                continue
            for end in connector.ends(message):
                number = end.status & 0x7F
                if number in self._limits and end.pid == end.group and self._ours(end):
                    self._hit(number, end.pid)
        return False

    def _ours(self, end: connector.End) -> bool:
        """Whether it was a process of the box. It has left its namespaces already; its parent may be gone
        too, and then what either of them executed is still known."""
        if end.parent == self._init or end.pid in self._recent or end.parent in self._recent:
            return True
        try:
            return os.stat(f"/proc/{end.parent}/ns/pid").st_ino == self._namespace
        except OSError:
            return False  # gone, or another user's

    def _hit(self, number: int, pid: int) -> None:
        known = self._limits.get(number)
        if known is not None:
            what, rule, by = known
            command = self._recent.get(pid) or _name(pid)
            self._actions.deny(Refusal("limit", what, rule, KERNEL, by), pid, command)


def _name(pid: int) -> str:
    """The name of a process that ended and may not have been collected yet."""
    try:
        with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
            return file.read(64).strip().decode("utf-8", "surrogateescape")
    except OSError:
        return ""
