"""One direction of a relayed connection: bytes from one socket to another, never more than the other takes.

What cannot be written yet is held, and nothing is read meanwhile: a reader that is slow makes the sender wait
(TCP's own flow control, RFC 9293, section 3.8.6). All flows together hold at most ``MAX_HELD`` bytes; above
that a flow looks at what has come (MSG_PEEK), writes what fits and only then takes that much from the queue
(MSG_TRUNC, tcp(7)), so that it holds nothing at all.

Bytes are copied through one buffer. splice(2) through a pipe moves them with less work of the processor, and
was measured to be slower all the same: it hands on single pages, which the kernel then sends and receives in
smaller portions. ``bench/relay.py`` has the figures.
"""

from __future__ import annotations

import errno
import mmap
import socket
from collections.abc import Callable

BLOCK = 4 << 20  # bytes that one read may bring: few and large ones carry the most
PEEK = 64 << 10  # bytes at a time while much is held
CHECKED = 16 << 10  # bytes at a time of a direction that is checked
MAX_HELD = 32 << 20  # bytes that all flows of a relay hold together
_ROUNDS = 2  # reads in one turn of the loop; others wait meanwhile

_NOTHING = memoryview(b"")
_OVER = (
    errno.EPIPE,
    errno.ECONNRESET,
    errno.ETIMEDOUT,
    errno.ENOTCONN,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
)


class Scratch:
    """The buffer of all flows of a relay, others that flows keep for a while, and how much all hold."""

    __slots__ = ("_spare", "held", "view")

    def __init__(self) -> None:
        self.view = _buffer()
        self.held = 0  # bytes
        self._spare: memoryview | None = None

    def lend(self) -> memoryview:
        """The buffer as it is, for a flow to keep; another one is used from now on."""
        lent, self.view, self._spare = self.view, self._spare or _buffer(), None
        return lent

    def back(self, lent: memoryview) -> None:
        """Take a buffer back and use it next: it is the one that the processor still has at hand."""
        self._spare, self.view = self.view, lent


def _buffer() -> memoryview:
    # Mapped and not allocated: it costs memory only as far as it is used.
    return memoryview(mmap.mmap(-1, BLOCK, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


class Flow:
    """From ``source`` to ``sink``, two sockets that do not block, until the source's end or either breaks.

    ``check(data)`` gives the bytes that may go on, b"" while more is needed; what it raises leaves ``move``.
    ``first`` is written before all else.
    """

    __slots__ = (
        "_at_end",
        "_check",
        "_cost",
        "_held",
        "_lent",
        "_scratch",
        "_sink",
        "_source",
        "blocked",
        "ended",
        "moved",
        "paused",
        "reset",
    )

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        scratch: Scratch,
        first: bytes = b"",
        check: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._source = source
        self._sink = sink
        self._check = check
        self._scratch = scratch
        self._held = memoryview(first)
        self._lent: memoryview | None = None  # the buffer that what is held is in
        self._cost = len(first)  # bytes that it keeps from use
        scratch.held += self._cost
        self._at_end = False
        self.paused = False  # nothing is to be read now
        self.moved = 0  # bytes that the sink took
        self.blocked = False  # the sink takes nothing now
        self.ended = False
        self.reset = False  # it ended by an error and not by an end of the stream

    def move(self) -> None:
        """Move what can be moved now, and hand on the source's end once all before it was written."""
        self.blocked = False
        for _ in range(_ROUNDS):
            if self.ended or not self._push():
                return
            if self._at_end or self.paused or not self._pull():
                break
        if not (self.ended or self.blocked) and self._push() and self._at_end:
            self._finish()

    @property
    def reading(self) -> bool:
        """Whether the source is to be watched for more."""
        return not (self.ended or self.blocked or self.paused or self._at_end)

    def resume(self, data: bytes) -> None:
        """Go on after a pause, and write ``data`` first."""
        if self.ended:
            return
        self.paused = False
        self._hold(memoryview(bytes(self._held) + data))

    def uncheck(self) -> None:
        """Let everything go on from now on."""
        self._check = None

    def stop(self) -> None:
        """End at once; what is held is lost."""
        self._release()
        self.ended = True
        self.blocked = False

    def _hold(self, data: memoryview, lent: memoryview | None = None) -> None:
        """Keep ``data``, and the buffer that it is in when it is ``lent``, instead of what is held."""
        self._release()
        self._held, self._lent = data, lent
        self._cost = BLOCK if lent is not None else len(data)
        self._scratch.held += self._cost

    def _release(self) -> None:
        self._scratch.held -= self._cost
        if self._lent is not None:
            self._scratch.back(self._lent)
        self._held, self._lent, self._cost = _NOTHING, None, 0

    def _push(self) -> bool:
        """Write what is held; whether nothing is left."""
        while self._held:
            taken = self._send(self._held)
            if not taken:
                return False
            self._held = self._held[taken:]
        if self._cost:
            self._release()
        return True

    def _send(self, data: memoryview) -> int:
        """Bytes that the sink took; 0 when it takes none now (``blocked``) or never again (``ended``)."""
        try:
            taken = self._sink.send(data)
        except BlockingIOError:
            self.blocked = True
            return 0
        except OSError as error:
            self._broke(error)
            return 0
        self.moved += taken
        return taken

    def _pull(self) -> bool:
        """Read once and write it; whether there may be more to do at once."""
        scratch = self._scratch
        size, flags = BLOCK, 0
        if self._check is not None:
            size = CHECKED
        elif scratch.held + BLOCK > MAX_HELD:
            size, flags = PEEK, socket.MSG_PEEK
        try:
            count = self._source.recv_into(scratch.view, size, flags)
        except BlockingIOError:
            return False
        except OSError as error:
            self._broke(error)
            return False
        if not count:
            self._at_end = True
            return True
        if self._check is not None:
            self._hold(memoryview(self._check(bytes(scratch.view[:count]))))
            return True
        if flags:
            taken = self._send(scratch.view[:count])
            if taken:
                self._source.recv_into(scratch.view, taken, socket.MSG_TRUNC)
            return taken == count
        sent = 0
        while sent < count:
            taken = self._send(scratch.view[sent:count])
            if not taken:
                break
            sent += taken
        if sent < count and not self.ended:
            self._keep(sent, count)
            return False
        return count == size

    def _keep(self, start: int, end: int) -> None:
        """Hold a part of the buffer: a large one with the buffer, instead of copying it."""
        if end - start > PEEK:
            view = self._scratch.lend()
            self._hold(view[start:end], view)
        else:
            self._hold(memoryview(bytes(self._scratch.view[start:end])))

    def _finish(self) -> None:
        self.ended = True
        try:
            self._sink.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._broke(error)

    def _broke(self, error: OSError) -> None:
        if error.errno not in _OVER:
            raise error
        self.reset = True
        self.stop()
