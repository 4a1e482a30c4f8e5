"""The process that stands on the host for one command in a guest: its streams, its signals, its end.

The keeper knows it as it knows any process of a box: it signals it, reads its pipes or its terminal, and
takes its wait status for the command's. It speaks :mod:`backends.microvm.frames` with the steward, on a
socket of its own, and ends as the command ended: with its code, or by its signal.
"""

from __future__ import annotations

import fcntl
import os
import resource
import select
import signal
import socket
import struct
import termios
from collections import deque
from typing import NoReturn

from backends.keeper import init_protocol
from backends.microvm import frames
from backends.microvm.frames import Broken, Credit, Frame, Reader

INPUT, OUTPUT, ERRORS = 0, 1, 2
FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGALRM,
)
LOST = int(signal.SIGKILL)  # the wait status where the guest is gone


def run(channel: socket.socket, report: int, *, terminal: bool) -> NoReturn:
    """Serve until the command's end; descriptors 0, 1, 2 are its streams."""
    code = LOST
    try:
        code = _Client(channel, report, terminal).serve()
    except (OSError, Broken):
        code = LOST
    finally:
        _end(code)


def _end(status: int) -> NoReturn:
    """End as a process with that wait status did."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 255)


class _Client:
    def __init__(self, channel: socket.socket, report: int, terminal: bool) -> None:
        self.channel = channel
        self.report = report
        self.terminal = terminal
        self.reader = Reader()
        self.credit = {INPUT: Credit(), OUTPUT: Credit(), ERRORS: Credit()}
        self.out = bytearray()  # to the steward
        self.waiting: dict[int, deque[bytes]] = {OUTPUT: deque(), ERRORS: deque()}
        self.queued = {OUTPUT: 0, ERRORS: 0}
        self.open = {INPUT: True, OUTPUT: True, ERRORS: not terminal}
        self.last = {OUTPUT: False, ERRORS: False}  # the guest sends no more of it
        self.spawned = False
        self.status: int | None = None
        woken, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.woken = woken
        for number in FORWARDED:
            signal.signal(number, lambda _number, _frame: None)
        if terminal:
            signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        channel.setblocking(False)
        for fd in (0, 1, 2):
            os.set_blocking(fd, False)

    def serve(self) -> int:
        while self.status is None or any(self.waiting.values()):
            poll = select.poll()
            for fd, events in self._watched().items():
                poll.register(fd, events)
            for fd, events in poll.poll():
                if fd == self.channel.fileno():
                    if events & select.POLLOUT:
                        self._flush()
                    if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                        self._hear()
                elif fd == self.woken:
                    self._signals()
                else:
                    self._stream(fd, events)
            self._flush()
        return self.status

    def _watched(self) -> dict[int, int]:
        wanted = {self.channel.fileno(): select.POLLIN | (select.POLLOUT if self.out else 0)}
        wanted[self.woken] = select.POLLIN
        if self.status is not None:
            del wanted[self.channel.fileno()]
        elif self.spawned and self.open[INPUT] and self.credit[INPUT].left > 0 and not self.out:
            wanted[INPUT] = select.POLLIN
        for stream, queue in self.waiting.items():
            if queue:
                wanted[stream] = wanted.get(stream, 0) | select.POLLOUT
        return wanted

    def _tell(self, kind: int, data: bytes = b"", stream: int = 0) -> None:
        self.out += frames.pack(kind, 0, data, stream)

    def _flush(self) -> None:
        while self.out and self.status is None:
            try:
                sent = self.channel.send(self.out, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            del self.out[:sent]

    # ---- from the guest

    def _hear(self) -> None:
        try:
            data = self.channel.recv(1 << 16)
        except BlockingIOError:
            return
        if not data:
            self.status = signal.SIGKILL  # the guest is gone, and every process with it
            return
        for frame in self.reader.feed(data):
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        if frame.kind == frames.DATA and frame.stream in self.waiting:
            if not frame.data:
                raise Broken("data without a byte, which no credit counts")
            self.queued[frame.stream] += len(frame.data)
            if self.queued[frame.stream] > frames.WINDOW:
                raise Broken("more output than was asked for")
            self.waiting[frame.stream].append(frame.data)
            self._feed(frame.stream)
        elif frame.kind == frames.END and frame.stream in self.waiting:
            self.last[frame.stream] = True
            self._feed(frame.stream)
        elif frame.kind == frames.CREDIT and frame.stream == INPUT:
            self.credit[INPUT].give(frame.data)
        elif frame.kind == frames.SPAWNED and not self.spawned:
            self.spawned = True
            os.close(self.report)
        elif frame.kind == frames.FAILED and not self.spawned:
            try:
                said = init_protocol.decode(frame.data)
            except init_protocol.ProtocolError as error:
                raise Broken(str(error)) from error
            code, why = said.get("errno"), said.get("why")
            number = code if isinstance(code, int) and 0 < code < 4096 else 5
            # What the guest says is the command's word and its error's text; the number says the latter.
            word = str(why).rpartition(": ")[0][:2000]
            os.write(self.report, f"{number}:{word}".encode("utf-8", "surrogateescape"))
            os._exit(127)
        elif frame.kind == frames.EXIT:
            if len(frame.data) != frames.EXITED.size:
                raise Broken("an end of a wrong size")
            status = frames.EXITED.unpack(frame.data)[0]
            self.status = status if status <= 0xFFFF else 0xFF00

    def _feed(self, stream: int) -> None:
        queue = self.waiting[stream]
        while queue:
            data = queue[0]
            try:
                sent = os.write(stream, data) if self.open[stream] else len(data)
            except BlockingIOError:
                return
            except OSError:
                self.open[stream] = False  # whoever read it has gone: as a closed pipe to the command
                self._tell(frames.END, b"", stream)
                sent = len(data)
            self.queued[stream] -= sent
            if sent == len(data):
                queue.popleft()
            else:
                queue[0] = data[sent:]
            back = self.credit[stream].took(sent)
            if back:
                self._tell(frames.CREDIT, frames.COUNT.pack(back), stream)
        if self.last[stream] and self.open[stream] and not self.terminal:
            self.open[stream] = False
            null = os.open("/dev/null", os.O_RDWR)
            os.dup2(null, stream)
            os.close(null)

    # ---- from the host

    def _stream(self, fd: int, events: int) -> None:
        if fd in self.waiting and events & (select.POLLOUT | select.POLLERR | select.POLLHUP):
            self._feed(fd)
        if fd != INPUT or not self.open[INPUT] or not events & (select.POLLIN | select.POLLHUP):
            return
        try:
            data = os.read(INPUT, min(frames.MOST, self.credit[INPUT].left))
        except BlockingIOError:
            return
        except OSError:
            data = b""  # the terminal hung up
        if data:
            self.credit[INPUT].spend(len(data))
            self._tell(frames.DATA, data, INPUT)
        else:
            self.open[INPUT] = False
            self._tell(frames.END, b"", INPUT)
            if self.terminal:
                self._tell(frames.SIGNAL, bytes([signal.SIGHUP]))

    def _signals(self) -> None:
        for number in os.read(self.woken, 4096):
            if number == signal.SIGWINCH:
                rows, columns = struct.unpack_from("=HH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
                self._tell(frames.RESIZE, frames.SIZE.pack(rows, columns))
            elif number in FORWARDED:
                self._tell(frames.SIGNAL, bytes([number]))
