"""The first process of a launch, as its caller has it: forked, waiting to be told what to build."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket

from backends.keeper import init_protocol
from backends.record import NamedTuple
from backends.tiers import boundary, order

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from backends.kernel.cgroups import Groups
    from backends.tiers.launcher import Entering
    from backends.tiers.order import Opening, Order

PATIENCE = 1.0  # seconds that a process gets to end which has nothing left to do
ADOPTION = 10.0  # seconds until one that another process forks has told who it is


class Ends(NamedTuple):
    """One side of what leads to a builder: the socket, the pipe whose end is the box's, and the plan's."""

    control: socket.socket
    death: int
    plan: int

    def close(self) -> None:
        self.control.close()
        os.close(self.death)
        os.close(self.plan)


def ends() -> tuple[Ends, Ends]:
    """The caller's side and the builder's."""
    control, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    death_read, death = os.pipe2(os.O_CLOEXEC)
    plan, plan_write = os.pipe2(os.O_CLOEXEC)
    return Ends(control, death, plan_write), Ends(inner, death_read, plan)


class Builder:
    """The first process of a launch, waiting to be told what to build.

    Forked before its forker has read and decided anything: what that touches of their common memory is no
    longer shared, and the box's init, which comes of this process, would keep it as long as the box lives.
    ``adopted``: the caller's ends of one that another process is asked to fork and to tell of; ``OSError``
    when it does not.
    """

    def __init__(self, adopted: Ends | None = None) -> None:
        self.entering: Entering | None = None
        self._opened = False
        self._own = adopted is None
        if adopted is not None:
            self.control, self.death, self._plan = adopted
            self.pid, self._pidfd = self._introduced()
            return
        outer, inner = ends()
        bare = not os.environ
        self.pid = os.fork()
        if self.pid == 0:
            if not bare:
                os.environ.clear()  # init would have it in its memory
            boundary.descend(inner.plan, inner.control, inner.death)
        inner.close()
        self.control, self.death, self._plan = outer
        self._pidfd = os.pidfd_open(self.pid)

    def _introduced(self) -> tuple[int, int]:
        self.control.settimeout(ADOPTION)
        try:
            message, fds = init_protocol.recv(self.control)
            pid = message.get("pid") if message else None
            if not isinstance(pid, int) or len(fds) != 1:
                init_protocol.close(fds)
                raise OSError("the first process of a launch was not forked")
        except init_protocol.ProtocolError as error:
            raise OSError(str(error)) from error
        self.control.settimeout(None)
        return pid, fds[0]

    def open(self, opening: Opening) -> None:
        """Let the process leave the host's namespaces, while its forker decides the rest.

        Of a process that is gone, or could not, ``launcher.launch`` hears.
        """
        self._opened = True
        self._write(order.encode_opening(opening))

    def enter(self, groups: Groups) -> None:
        """Begin to move the process into the box's control groups; ``launch`` waits for the end of it."""
        from backends.tiers.launcher import Entering

        self.entering = Entering(groups, self.pid)

    def tell(self, opening: Opening, told: Order) -> None:
        """What to build, and ``opening`` where it was not opened; nothing is sent to a process that is gone,
        of which ``launch`` hears."""
        try:
            if not self._opened:
                self.open(opening)
            self._write(order.encode(told))
        finally:
            os.close(self._plan)
            self._plan = -1

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        with contextlib.suppress(BrokenPipeError):  # its last word, or that there is none, is read next
            while left:
                left = left[os.write(self._plan, left) :]

    def move(self, first: int) -> int:
        """Give our descriptors the numbers from ``first`` on, for whoever closes all others; the next number.

        The old ones stay open, as the caller's to close.
        """
        held = (self.control.detach(), self.death, self._plan, self._pidfd)
        for target, fd in enumerate(held, first):
            if target != fd:
                os.dup2(fd, target, inheritable=False)
        self.control = socket.socket(fileno=first)
        self.death, self._plan, self._pidfd = range(first + 1, first + len(held))
        return first + len(held)

    def abandon(self) -> None:
        """Let the process end: nobody will tell it anything."""
        os.close(self._plan)
        os.close(self.death)
        self.control.close()
        self.wait()

    def wait(self) -> None:
        """Until it has ended, which it is about to; one that hangs is killed. Only once."""
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        if not poller.poll(PATIENCE * 1000):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        os.close(self._pidfd)
        if self._own:
            os.waitpid(self.pid, 0)
