"""Reading and writing descriptors that belong to a client, without ever waiting and without changing them.

O_NONBLOCK is a flag of the open file description, which a client shares with its shell and terminal: setting
it would break theirs. So each kind of file is asked in its own way not to wait.
"""

from __future__ import annotations

import os
import socket
import stat

BLOCK = 65536
_SHARED_BLOCK = 256  # a terminal that poll(2) calls writable takes this much


class Ended(Exception):
    """Nobody reads (or nothing can be written) at the other side any more."""


class End:
    """One descriptor of a client, owned from now on. ``pollable`` is False for files, which never wait."""

    def __init__(self, fd: int, *, writing: bool) -> None:
        mode = os.fstat(fd).st_mode
        self.fd = fd
        self._socket: socket.socket | None = None
        self._flags = 0  # of preadv2(2) and pwritev2(2)
        self._block = BLOCK
        if stat.S_ISSOCK(mode):
            self._socket = socket.socket(fileno=fd)
        elif stat.S_ISFIFO(mode) and _pipes_can_refuse():
            self._flags = os.RWF_NOWAIT
        elif stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            self._reopen(writing)

    def _reopen(self, writing: bool) -> None:
        # A second open file description of the same file may have its own O_NONBLOCK.
        flags = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (os.O_WRONLY if writing else os.O_RDONLY)
        try:
            own = os.open(f"/proc/self/fd/{self.fd}", flags)
        except OSError:
            self._block = _SHARED_BLOCK  # another user's terminal: rely on poll(2) and small pieces
            return
        os.close(self.fd)
        self.fd = own

    def read(self) -> bytes:
        """What is there, b"" at the end. Raises BlockingIOError when nothing is."""
        try:
            if self._socket is not None:
                return self._socket.recv(self._block, socket.MSG_DONTWAIT)
            if self._flags:
                buffer = bytearray(self._block)
                return bytes(buffer[: os.preadv(self.fd, [buffer], -1, self._flags)])
            return os.read(self.fd, self._block)
        except BlockingIOError:
            raise
        except OSError:
            return b""  # a terminal that hung up or a reset connection has no more input

    def write(self, data: memoryview) -> int:
        """How much was taken. Raises BlockingIOError when nothing can be, Ended when nothing ever will be."""
        try:
            if self._socket is not None:
                return self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            if self._flags:
                return os.pwritev(self.fd, [data], -1, self._flags)
            return os.write(self.fd, data[: self._block])
        except BlockingIOError:
            raise
        except OSError as error:
            raise Ended(error.strerror) from error

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        else:
            os.close(self.fd)


_refuse: list[bool] = []


def _pipes_can_refuse() -> bool:
    """Whether this kernel knows RWF_NOWAIT on pipes."""
    if not _refuse:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            os.preadv(reader, [bytearray(1)], -1, os.RWF_NOWAIT)
        except BlockingIOError:
            _refuse.append(True)
        except OSError:
            _refuse.append(False)
        finally:
            os.close(reader)
            os.close(writer)
    return _refuse[0]
