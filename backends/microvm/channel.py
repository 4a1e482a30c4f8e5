"""The steward's end of the one channel to a guest: commands and connections share it, each with its credit.

Everything that is read here was written by the box. A frame that breaks the rules raises ``Broken``, which
ends the box; nothing of it is buffered beyond fixed sizes.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Mapping

from backends.keeper import init_protocol
from backends.microvm import frames
from backends.microvm.frames import Broken, Credit, Frame, Reader
from backends.microvm.vmm import SHELLS, Command, Observed
from backends.record import NamedTuple

QUEUE = 16 << 20  # bytes that wait for one session's process, headers of tiny frames included
MAX_CONNECTIONS = 128
_BLOCK = 1 << 16
_TO_SESSION = frozenset((frames.DATA, frames.END, frames.CREDIT, frames.SPAWNED, frames.FAILED, frames.EXIT))
_TO_GUEST = frozenset((frames.DATA, frames.END, frames.CREDIT, frames.SIGNAL, frames.RESIZE))
_TEXT = 120


class Usage(NamedTuple):
    """What the guest says a command cost."""

    user: float  # seconds
    system: float
    peak: int  # bytes


class _Session:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader = Reader()
        self.out = bytearray()


class _Connection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.into = Credit()  # to the guest
        self.taken = Credit()  # from the guest
        self.waiting: deque[bytes] = deque()
        self.queued = 0
        self.ended = False  # the guest sends no more
        self.done = False  # the proxy sends no more


class Channel:
    """``sock`` is a stream to the guest's port. ``connect`` makes a connection to the proxy, or refuses."""

    def __init__(self, sock: socket.socket, connect: Callable[[], socket.socket] | None) -> None:
        self._sock = sock
        self._connect = connect
        self._reader = Reader()
        self._out = bytearray()
        self._sessions: dict[int, _Session] = {}
        self._connections: dict[int, _Connection] = {}
        self._by_fd: dict[int, tuple[str, int]] = {}
        self._asked: deque[tuple[int, Callable[[int], None]]] = deque()
        self.usage: dict[int, Usage] = {}
        self.observed: Observed | None = None
        self.trouble = ""
        self.bye = False
        self.left = 0
        sock.setblocking(False)

    # ---- polling

    def watched(self) -> Mapping[int, int]:
        wanted = {self._sock.fileno(): select.POLLIN | (select.POLLOUT if self._out else 0)}
        room = len(self._out) < frames.WINDOW
        for session in self._sessions.values():
            events = (select.POLLOUT if session.out else 0) | (select.POLLIN if room else 0)
            if events:
                wanted[session.sock.fileno()] = events
        for link in self._connections.values():
            events = select.POLLOUT if link.waiting else 0
            if room and not link.done and link.into.left > 0:
                events |= select.POLLIN
            if events:
                wanted[link.sock.fileno()] = events
        return wanted

    def ready(self, fd: int, events: int) -> None:
        """Raises ``Broken`` or ``OSError`` when the guest is lost."""
        if fd == self._sock.fileno():
            if events & select.POLLOUT:
                self._flush()
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._hear()
            return
        kind, number = self._by_fd.get(fd, ("", 0))
        if kind == "session" and number in self._sessions:
            self._on_session(number, self._sessions[number], events)
        elif kind == "connection" and number in self._connections:
            self._on_connection(number, self._connections[number], events)

    def _flush(self) -> None:
        while self._out:
            try:
                sent = self._sock.send(memoryview(self._out)[:_BLOCK], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            del self._out[:sent]

    def _send(self, data: bytes) -> None:
        self._out += data
        self._flush()
        if len(self._out) > QUEUE:
            raise Broken("it asks and does not listen")

    # ---- what the steward asks

    def configure(self, wanted: Mapping[str, object]) -> None:
        self._send(frames.parts(frames.CONFIGURE, 0, json.dumps(wanted).encode()))

    def spawn(self, command: Command) -> socket.socket:
        """Ask for a command; the socket is for the process that stands for it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        ours.setblocking(False)
        self._sessions[command.id] = _Session(ours)
        self._by_fd[ours.fileno()] = ("session", command.id)
        message = {
            "argv": list(command.argv),
            "env": dict(command.env),
            "cwd": command.cwd,
            "pty": list(command.size) if command.size else None,
        }
        self._send(frames.parts(frames.SPAWN, command.id, json.dumps(message).encode()))
        return theirs

    def kill(self, number: int) -> None:
        """The process that stood for it is gone: so must all of it in the guest."""
        session = self._sessions.pop(number, None)
        if session is not None:
            self._by_fd.pop(session.sock.fileno(), None)
            session.sock.close()
        self._send(frames.pack(frames.KILL, number))

    def kill_left(self) -> None:
        self._send(frames.pack(frames.KILL))

    def freeze(self, done: Callable[[int], None]) -> None:
        self._asked.append((frames.FROZEN, done))
        self._send(frames.pack(frames.FREEZE))

    def thaw(self, done: Callable[[int], None]) -> None:
        self._asked.append((frames.THAWED, done))
        self._send(frames.pack(frames.THAW))

    def quit(self) -> None:
        self._send(frames.pack(frames.QUIT))

    def close(self) -> None:
        socks = [one.sock for one in self._sessions.values()]
        for sock in (*socks, *(one.sock for one in self._connections.values())):
            sock.close()
        self._sessions.clear()
        self._connections.clear()
        self._by_fd.clear()
        self._sock.close()

    # ---- what the guest says

    def _hear(self) -> None:
        try:
            data = self._sock.recv(_BLOCK)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError("the guest's channel is closed")
        for frame in self._reader.feed(data):
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        kind = frame.kind
        if frame.channel >= frames.CONNECTIONS:
            self._of_connection(frame)
        elif kind in _TO_SESSION:
            session = self._sessions.get(frame.channel)
            if session is not None:
                if kind == frames.EXIT:
                    self._note_usage(frame)
                session.out += frames.pack(kind, 0, frame.data, frame.stream)
                if len(session.out) > QUEUE:
                    raise Broken("more output than was asked for")
                self._to_session(frame.channel, session)
        elif kind in (frames.FROZEN, frames.THAWED):
            if not self._asked or self._asked[0][0] != kind or len(frame.data) != frames.COUNT.size:
                raise Broken("an answer that nobody asked for")
            self._asked.popleft()[1](frames.COUNT.unpack(frame.data)[0])
        elif kind == frames.READY and self.observed is None:
            try:
                said = init_protocol.decode(frame.data)
            except init_protocol.ProtocolError as error:
                raise Broken(str(error)) from error
            shell = said.get("shell")
            self.observed = Observed(
                _printable(said.get("kernel")),
                _printable(said.get("machine")),
                shell if shell in SHELLS else "",
                said.get("git") is not False,
            )
        elif kind == frames.TROUBLE:
            self.trouble = _printable(frame.data.decode("utf-8", "replace"))
        elif kind == frames.LEFT:
            if len(frame.data) != frames.COUNT.size:
                raise Broken("a count of a wrong size")
            self.left = frames.COUNT.unpack(frame.data)[0]
        elif kind == frames.BYE:
            self.bye = True
        else:
            raise Broken(f"a frame of kind {kind}")

    def _note_usage(self, frame: Frame) -> None:
        if len(frame.data) != frames.EXITED.size:
            raise Broken("an end of a wrong size")
        _, user, system, peak = frames.EXITED.unpack(frame.data)
        if 0 <= user < 1e9 and 0 <= system < 1e9 and peak < 1 << 48:
            self.usage[frame.channel] = Usage(user, system, peak)

    # ---- sessions

    def _on_session(self, number: int, session: _Session, events: int) -> None:
        if events & select.POLLOUT:
            self._to_session(number, session)
        if not events & (select.POLLIN | select.POLLHUP | select.POLLERR) or number not in self._sessions:
            return
        try:
            data = session.sock.recv(_BLOCK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.kill(number)
            return
        for frame in session.reader.feed(data):
            if frame.kind in _TO_GUEST:
                self._out += frames.pack(frame.kind, number, frame.data, frame.stream)
        self._flush()

    def _to_session(self, number: int, session: _Session) -> None:
        while session.out:
            try:
                sent = session.sock.send(memoryview(session.out)[:_BLOCK], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                self.kill(number)
                return
            del session.out[:sent]

    # ---- connections

    def _of_connection(self, frame: Frame) -> None:
        link = self._connections.get(frame.channel)
        if frame.kind == frames.OPEN:
            if link is not None:
                raise Broken("a connection that is there already")
            self._open(frame.channel)
        elif link is None:
            return  # it ended here meanwhile
        elif frame.kind == frames.DATA:
            if not frame.data:
                raise Broken("data without a byte, which no credit counts")
            link.queued += len(frame.data)
            if link.queued > frames.WINDOW:
                raise Broken("more of a connection than was asked for")
            link.waiting.append(frame.data)
            self._feed(frame.channel, link)
        elif frame.kind == frames.END:
            link.ended = True
            self._feed(frame.channel, link)
        elif frame.kind == frames.CREDIT:
            link.into.give(frame.data)
        elif frame.kind == frames.KILL:
            self._drop(frame.channel, link)

    def _open(self, number: int) -> None:
        if self._connect is None or len(self._connections) >= MAX_CONNECTIONS:
            self._send(frames.pack(frames.KILL, number))
            return
        try:
            sock = self._connect()
        except OSError:
            self._send(frames.pack(frames.KILL, number))
            return
        sock.setblocking(False)
        self._connections[number] = _Connection(sock)
        self._by_fd[sock.fileno()] = ("connection", number)
        self._send(frames.pack(frames.CREDIT, number, frames.COUNT.pack(0)))

    def _on_connection(self, number: int, link: _Connection, events: int) -> None:
        if events & select.POLLOUT:
            self._feed(number, link)
        if link.done or number not in self._connections or link.into.left <= 0:
            return
        if not events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            return
        try:
            data = link.sock.recv(min(frames.MOST, link.into.left))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            link.into.spend(len(data))
            self._send(frames.pack(frames.DATA, number, data))
            return
        link.done = True
        self._send(frames.pack(frames.END, number))
        self._part(number, link)

    def _feed(self, number: int, link: _Connection) -> None:
        while link.waiting:
            data = link.waiting[0]
            try:
                sent = link.sock.send(data, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                self._send(frames.pack(frames.KILL, number))
                self._drop(number, link)
                return
            link.queued -= sent
            if sent == len(data):
                link.waiting.popleft()
            else:
                link.waiting[0] = data[sent:]
            back = link.taken.took(sent)
            if back:
                self._send(frames.pack(frames.CREDIT, number, frames.COUNT.pack(back)))
        if link.ended:
            self._part(number, link)

    def _part(self, number: int, link: _Connection) -> None:
        if not link.ended or link.waiting:
            return
        if link.done:
            self._drop(number, link)
            return
        try:
            link.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(number, link)

    def _drop(self, number: int, link: _Connection) -> None:
        del self._connections[number]
        self._by_fd.pop(link.sock.fileno(), None)
        link.sock.close()


def _printable(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(one if one.isprintable() and one.isascii() else "?" for one in text[:_TEXT])


def connector(path: str) -> Callable[[], socket.socket]:
    """Connects to the proxy's socket at ``path``."""

    def connect() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.connect(os.fsencode(path))
        except OSError:
            sock.close()
            raise
        return sock

    return connect
