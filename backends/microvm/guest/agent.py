"""The first process of a guest: builds the sessions' root, then starts, feeds, signals and reaps commands.

It speaks :mod:`backends.microvm.frames` on one virtio-serial port and nothing else. Its own end is the
guest's: the kernel panics, and the monitor, told not to reboot, ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from typing import Any, NoReturn

from backends.keeper import init_session
from backends.kernel.rlimits import Limits
from backends.microvm import frames
from backends.microvm.frames import Frame, Reader
from backends.microvm.guest import kernel, root
from backends.microvm.guest.connections import Connections
from backends.microvm.guest.session import INPUT, KNOWN_SIGNALS, OUTPUT, Account, Session, waiting_in, write

PORT = "/dev/virtio-ports/cloche"
_PORTS = "/sys/class/virtio-ports"
_BLOCK = frames.MOST
_PATIENCE = 5.0  # seconds for the port to appear, and for a freeze


def main() -> NoReturn:
    """Never returns; whatever goes wrong before the guest is ready is told on the port, or the console."""
    try:
        root.early()
        with open("/modules/order") as file:
            for name in file.read().split():
                kernel.insert_module(f"/modules/{name}")
        Agent(_port()).run()
    except BaseException as error:  # noqa: BLE001 (the last place: the console is all that is left)
        os.write(2, f"cloche guest: {type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    finally:
        kernel.restart()
        os._exit(1)


def _port() -> int:
    """The port named ``cloche`` (no udev is here to make its link)."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        for name in os.listdir(_PORTS) if os.path.isdir(_PORTS) else ():
            with open(f"{_PORTS}/{name}/name") as file:
                if file.read().strip() == "cloche":
                    return os.open(f"/dev/{name}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        time.sleep(0.005)
    raise OSError("no port of the host is here")


class Agent:
    def __init__(self, port: int) -> None:
        self.port = port
        self.reader = Reader()
        self.out = bytearray()
        self.parts: dict[tuple[int, int], bytearray] = {}
        self.sessions: dict[int, Session] = {}
        self.results: dict[int, Session] = {}
        self.pids: dict[int, Session] = {}
        self.lingering: list[Session] = []  # ended, with processes left in their group
        self.told = 0  # how many of them the host knows of
        self.wall = 0
        self.account = Account(0, 0, Limits())
        self.connections: Connections | None = None
        self.ready = False
        signals = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.woken = signals[0]
        self._kept = signals
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(signals[1].fileno(), warn_on_full_buffer=False)

    # ---- the loop

    def run(self) -> None:
        while True:
            poll = select.poll()
            for fd, events in self.watched().items():
                poll.register(fd, events)
            # A port whose host is not there hangs up at once: no reason to spin.
            for fd, events in poll.poll(200 if self.lingering else None):
                if fd == self.port:
                    self.on_port(events)
                elif fd == self.woken.fileno():
                    self.woken.recv(4096)
                    self.reap()
                elif fd in self.results:
                    self.settle(fd)
                else:
                    self.on_stream(fd, events)
            self.look_after()
            self.flush()

    def look_after(self) -> None:
        """What ended commands left: it may run as long as its session might have."""
        self.lingering = [one for one in self.lingering if not one.remove()]
        for one in self.lingering:
            if self.wall and time.monotonic() - one.born > self.wall:
                one.kill()
        if len(self.lingering) != self.told:
            self.told = len(self.lingering)
            self.tell(frames.LEFT, 0, frames.COUNT.pack(self.told))

    def watched(self) -> dict[int, int]:
        wanted = {self.port: select.POLLIN | (select.POLLOUT if self.out else 0)}
        wanted[self.woken.fileno()] = select.POLLIN
        wanted.update(dict.fromkeys(self.results, select.POLLIN))
        room = len(self.out) < frames.WINDOW
        for one in self.sessions.values():
            for stream, fd in one.fds.items():
                events = 0
                if stream == INPUT:
                    events = select.POLLOUT if one.waiting else 0
                elif room and one.credit[stream].left > 0:
                    events = select.POLLIN
                if fd >= 0 and events:
                    wanted[fd] = wanted.get(fd, 0) | events
        if self.connections is not None:
            wanted.update(self.connections.watched(room))
        return wanted

    def tell(self, kind: int, channel: int = 0, data: bytes = b"", stream: int = 0) -> None:
        self.out += frames.pack(kind, channel, data, stream)

    def flush(self) -> None:
        while self.out:
            try:
                sent = os.write(self.port, memoryview(self.out)[: 1 << 16])
            except BlockingIOError:
                return
            del self.out[:sent]

    def on_port(self, events: int) -> None:
        if events & select.POLLIN:
            try:
                data = os.read(self.port, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                raise OSError("the host closed the port")
            for frame in self.reader.feed(data):
                self.hear(frame)
        elif events & select.POLLHUP:
            time.sleep(0.01)

    # ---- what the host asks

    def hear(self, frame: Frame) -> None:
        if frame.kind in (frames.CONFIGURE, frames.SPAWN):
            self.collect(frame)
        elif frame.kind == frames.FREEZE:
            self.tell(frames.FROZEN, 0, frames.COUNT.pack(self.freeze(True)))
        elif frame.kind == frames.THAW:
            self.tell(frames.THAWED, 0, frames.COUNT.pack(self.freeze(False)))
        elif frame.kind == frames.KILL and not frame.channel:
            for one in self.lingering:
                one.kill()
        elif frame.kind == frames.QUIT:
            write(f"{root.GROUPS}/box/cgroup.kill", "1")
            os.sync()
            self.tell(frames.BYE)
        elif frame.channel in self.sessions:
            self.to_session(self.sessions[frame.channel], frame)
        elif self.connections is not None and frame.channel in self.connections.all:
            self.connections.take(frame)

    def collect(self, frame: Frame) -> None:
        buffer = self.parts.setdefault((frame.kind, frame.channel), bytearray())
        buffer += frame.data
        if frame.data:
            return
        del self.parts[frame.kind, frame.channel]
        value = json.loads(bytes(buffer))
        if frame.kind == frames.CONFIGURE:
            self.configure(value)
        else:
            self.spawn(frame.channel, value)

    def configure(self, wanted: dict[str, Any]) -> None:
        try:
            socket.sethostname(wanted["name"])
            kernel.loopback_up()
            root.build(wanted)
            self.wall = int(wanted["wall"])
            self.account = Account(wanted["uid"], wanted["gid"], Limits(*wanted["limits"]))
            if wanted["proxy"]:
                self.connections = Connections(wanted["proxy"], self.tell)
            seen = os.uname()
            said = {"kernel": seen.release, "machine": seen.machine, **root.found(wanted["shells"])}
            self.tell(frames.READY, 0, json.dumps(said).encode())
        except (OSError, KeyError, TypeError) as error:
            self.tell(frames.TROUBLE, 0, f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:4096])

    def spawn(self, channel: int, message: dict[str, Any]) -> None:
        try:
            one = Session(init_session.parse({**message, "id": channel}), self.account)
        except (OSError, ValueError) as error:
            code = error.errno if isinstance(error, OSError) else 22
            why = f"the guest cannot start another process: {os.strerror(code or 0)}"
            self.failed(channel, code or 0, why)
            return
        self.sessions[channel] = self.pids[one.pid] = self.results[one.result] = one

    def failed(self, channel: int, code: int, why: str) -> None:
        self.tell(frames.FAILED, channel, json.dumps({"errno": code, "why": why[:2000]}).encode())

    def settle(self, result: int) -> None:
        """Its exec succeeded (end of the pipe) or failed (its errno), as in backends.keeper.init."""
        one = self.results.pop(result)
        report = os.read(result, 8192)
        os.close(result)
        if report:
            code, _, word = report.decode("utf-8", "surrogateescape").partition(":")
            self.failed(one.id, int(code), f"{word}: {os.strerror(int(code))}")
            self.forget(one)
        else:
            self.tell(frames.SPAWNED, one.id)

    def to_session(self, one: Session, frame: Frame) -> None:
        if frame.kind == frames.DATA:
            one.waiting.append(frame.data)
            self.give_back(one, one.feed())
        elif frame.kind == frames.END and frame.stream == INPUT:
            one.ending = True
            self.give_back(one, one.feed())
        elif frame.kind == frames.END and not one.terminal:
            one.close(frame.stream)  # whoever read it outside has gone: the command gets SIGPIPE
            self.finish(one)
        elif frame.kind == frames.CREDIT and frame.stream in one.credit:
            one.credit[frame.stream].give(frame.data)
        elif frame.kind == frames.SIGNAL and frame.data and frame.data[0] in KNOWN_SIGNALS:
            one.signal(frame.data[0])
        elif frame.kind == frames.RESIZE and len(frame.data) == frames.SIZE.size:
            one.resize(*frames.SIZE.unpack(frame.data))
        elif frame.kind == frames.KILL:
            one.kill()

    def give_back(self, one: Session, took: int) -> None:
        back = one.credit[INPUT].took(took)
        if back:
            self.tell(frames.CREDIT, one.id, frames.COUNT.pack(back), INPUT)

    def freeze(self, wanted: bool) -> int:
        """Freeze or thaw all sessions by their control group; how many processes there are."""
        write(f"{root.GROUPS}/box/cgroup.freeze", "1" if wanted else "0")
        until = time.monotonic() + _PATIENCE
        state = f"frozen {int(wanted)}\n"
        while time.monotonic() < until:
            with open(f"{root.GROUPS}/box/cgroup.events") as file:
                if state in file.read():
                    break
            time.sleep(0.001)
        if wanted:
            os.sync()
        with open(f"{root.GROUPS}/box/pids.current") as file:
            return int(file.read())

    # ---- what the box's processes do

    def on_stream(self, fd: int, events: int) -> None:
        for one in list(self.sessions.values()):
            if fd in one.fds.values():
                if events & select.POLLOUT:
                    self.give_back(one, one.feed())
                if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    self.pump(one, fd)
                return
        if self.connections is not None:
            self.connections.ready(fd, events)

    def pump(self, one: Session, fd: int) -> None:
        stream = next((stream for stream in (OUTPUT, 2) if one.fds[stream] == fd), INPUT)
        if stream == INPUT:
            one.close(INPUT)  # nobody reads it any more
            return
        left = one.credit[stream].left
        if left <= 0:
            return
        try:
            data = os.read(fd, min(_BLOCK, left))
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a terminal whose last user is gone
        if data:
            one.credit[stream].spend(len(data))
            self.tell(frames.DATA, one.id, data, stream)
        else:
            self.tell(frames.END, one.id, b"", stream)
            if one.terminal:
                one.close(INPUT)
            one.close(stream)
        self.finish(one)

    def reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            one = self.pids.pop(pid, None)
            if one is None:
                continue
            if one.result in self.results:
                self.settle(one.result)
            if one.id in self.sessions:
                one.exit = (status, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * 1024)
                self.finish(one)

    def finish(self, one: Session) -> None:
        """Tell the end once all that was printed before it is on its way."""
        if one.exit is None or one.id not in self.sessions:
            return
        for stream in (OUTPUT, 2):
            if one.fds[stream] >= 0 and waiting_in(one.fds[stream]):
                return
        self.tell(frames.EXIT, one.id, frames.EXITED.pack(*one.exit))
        self.forget(one)

    def forget(self, one: Session) -> None:
        self.sessions.pop(one.id, None)
        if not one.remove():
            self.lingering.append(one)
