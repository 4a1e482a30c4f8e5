"""Commands in a box: run between the caller's streams, on a terminal of their own, attached, ended."""

from __future__ import annotations

import binascii
import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from backends import trace
from backends.boxes import liveness, store
from backends.boxes.layout import BoxPaths
from backends.errors import Busy, NoSuchBox
from backends.keeper import client as keepers
from backends.keeper import environment
from backends.keeper.client import KeeperClient
from backends.policy import canonical
from backends.values import ProcessId
from backends.verbs.values import RunResult, SessionHandle, Streams, Terminal

Value = TypeVar("Value")
BLOCK = 65536
START_LIMIT = 30.0  # seconds from the request to the command's start
STOP_LIMIT = 15.0  # seconds that a keeper gets to end its box before it is taken to hang, on a busy host
ENDING_LIMIT = 20.0  # seconds that a start waits for a keeper that is ending its box
FROZEN_LIMIT = 60.0  # seconds that a start waits for a snapshot of the box to be taken


class _Session:
    """The handle of a running session: signals are sent without waiting, so that a handler may do it."""

    def __init__(self, keeper: KeeperClient, number: int) -> None:
        self._keeper = keeper
        self._ended = False
        self.id = number

    def signal(self, number: int) -> None:
        """Send a signal to the session's process group inside the box; nothing once the session ended."""
        if not self._ended:
            self._keeper.send("signal", session=self.id, signal=number)

    def end(self) -> None:
        """The session is over, and its connection about to close."""
        self._ended = True


class _Relay:
    """Bytes between the caller's terminals and pipes whose other ends the keeper has.

    A terminal is never handed to the keeper: a person's typing would go to a box that outlives the command,
    and what a box prints has to pass the screen first. Files and pipes are handed over as they are.
    """

    def __init__(self, streams: Streams) -> None:
        self.given: list[int] = []  # for the keeper: stdin, stdout, stderr
        self._made: list[int] = []
        self._input: tuple[int, int] | None = None  # from our terminal, to the box
        self._outputs: dict[int, tuple[int, Callable[[bytes], bytes]]] = {}
        if os.isatty(streams.stdin):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(writer, False)
            self._input = (streams.stdin, writer)
            self._give(reader)
        else:
            self.given.append(streams.stdin)
        for fd, screen in ((streams.stdout, streams.screen_stdout), (streams.stderr, streams.screen_stderr)):
            if screen is None:
                self.given.append(fd)
                continue
            reader, writer = os.pipe2(os.O_CLOEXEC)
            self._outputs[reader] = (fd, screen)
            self._give(writer)

    def _give(self, fd: int) -> None:
        self.given.append(fd)
        self._made.append(fd)

    def handed_over(self) -> None:
        """The keeper has its copies: ours would keep pipes from ending."""
        for fd in self._made:
            os.close(fd)
        self._made = []

    def until_exit(self, keeper: KeeperClient, session: int) -> dict[str, Any]:
        """Carry bytes until the session's exit event came, then what is left."""
        if self._input is None and not self._outputs:
            return keeper.wait_event("exit", session=session)
        poller = select.poll()
        poller.register(keeper.fileno(), select.POLLIN)
        for reader in self._outputs:
            poller.register(reader, select.POLLIN)
        typed = b""
        event = _exit_of(keeper, session)  # it may have come with the answer that it began
        while event is None:
            if self._input is not None:
                source, target = self._input
                if typed:
                    poller.register(target, select.POLLOUT)
                else:
                    poller.register(source, select.POLLIN)
            for fd, _ in poller.poll():
                if fd == keeper.fileno():
                    event = _exit_of(keeper, session)
                    if event is None:
                        keeper.call("hello")  # raises when the readable socket meant that the keeper is gone
                        event = _exit_of(keeper, session)  # which may have come before that answer
                elif fd in self._outputs:
                    if not self._carry(fd):
                        poller.unregister(fd)
                elif self._input is not None and fd == self._input[0]:
                    typed = _read_terminal(fd)
                    poller.unregister(fd)
                    if not typed:
                        self._end_input()
                elif self._input is not None:
                    typed = self._type(typed)
                    poller.unregister(fd)
        self._rest()
        return event

    def _carry(self, reader: int) -> bool:
        """One piece of output; False at its end."""
        fd, screen = self._outputs[reader]
        data = os.read(reader, BLOCK)
        view = memoryview(screen(data))
        while view:
            view = view[os.write(fd, view) :]
        return bool(data)

    def _type(self, typed: bytes) -> bytes:
        assert self._input is not None
        try:
            return typed[os.write(self._input[1], typed) :]
        except BlockingIOError:
            return typed
        except BrokenPipeError:
            self._end_input()
            return b""

    def _end_input(self) -> None:
        if self._input is not None:
            os.close(self._input[1])
            self._input = None

    def _rest(self) -> None:
        """The keeper sends the exit after the last output: it is all in the pipes by now."""
        for reader in self._outputs:
            os.set_blocking(reader, False)
            try:
                while self._carry(reader):
                    continue
            except BlockingIOError:
                continue  # a process that the command left behind still holds the pipe

    def close(self) -> None:
        """Close what is still open of ours; the caller's descriptors stay open."""
        self.handed_over()
        self._end_input()
        for reader in self._outputs:
            os.close(reader)
        self._outputs = {}


def _exit_of(keeper: KeeperClient, session: int) -> dict[str, Any] | None:
    """The session's exit event, if it is here by now; others are let go."""
    for event in keeper.events(timeout=0):
        if event.get("event") == "exit" and event.get("session") == session:
            return event
    return None


def _read_terminal(fd: int) -> bytes:
    try:
        return os.read(fd, BLOCK)
    except OSError:
        return b""  # EIO: the terminal hung up, or we are in its background and orphaned (tty_ioctl(4))


def _result(event: Mapping[str, Any]) -> RunResult:
    return RunResult(event["session"], event["exit"], event["wall"], event["cpu"], event["peak_rss"])


def _passed(paths: BoxPaths, env: Mapping[str, str] | None, *, pty: bool) -> dict[str, str]:
    """Of ``env``, or of our own environment, what the box's policy lets through; ``Refused`` without one.

    The keeper judges again. But what it is not sent, nobody finds in its memory, which at the tier
    ``workspace`` lies within reach of what it runs.
    """
    policy = canonical.decode(paths.policy.read_bytes())
    caller = os.environ if env is None else env
    return environment.wanted(policy, caller, pty=pty, confined=policy.tier != "workspace")


def _start(
    keeper: KeeperClient,
    op: str,
    fds: Sequence[int],
    on_request: Callable[[], None] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Ask for a session; while a snapshot keeps the box frozen, wait instead of failing."""
    until = time.monotonic() + FROZEN_LIMIT
    while True:
        if on_request is not None:
            on_request()
        try:
            return keeper.call(op, fds, timeout=START_LIMIT, **fields)
        except Busy as busy:
            if busy.code != "frozen" or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _of_the_next(paths: BoxPaths, act: Callable[[], Value]) -> Value:
    """``act`` of a keeper that was just leaving when it was turned to, as of the one that follows it."""
    from backends.verbs import passage

    until = time.monotonic() + ENDING_LIMIT
    while True:
        try:
            return act()
        except Busy as busy:
            if busy.code != "stopping" or time.monotonic() > until:
                raise
            passage.wait_for_end(paths)


def run(
    paths: BoxPaths,
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    streams: Streams,
    on_session: Callable[[SessionHandle], None] | None,
    cwd: str,
    on_request: Callable[[], None] | None = None,
) -> RunResult:
    """Run a command and wait for it; see ``Engine.run``."""
    return _of_the_next(paths, lambda: _run(paths, argv, env, streams, on_session, cwd, on_request))


def _run(
    paths: BoxPaths,
    argv: Sequence[str],
    env: Mapping[str, str] | None,
    streams: Streams,
    on_session: Callable[[SessionHandle], None] | None,
    cwd: str,
    on_request: Callable[[], None] | None,
) -> RunResult:
    with keepers.start(paths) as keeper:
        trace.point("run: keeper")
        relay = _Relay(streams)
        session: _Session | None = None
        try:
            reply = _start(
                keeper,
                "run",
                relay.given,
                on_request,
                argv=list(argv),
                env=_passed(paths, env, pty=False),
                cwd=cwd,
            )
            trace.point("run: started")
            relay.handed_over()
            session = _Session(keeper, reply["session"])
            if on_session is not None:
                on_session(session)
            event = relay.until_exit(keeper, reply["session"])
            trace.point("run: ended")
            return _result(event)
        finally:
            if session is not None:
                session.end()
            relay.close()


def _terminal(keeper: KeeperClient, op: str, **fields: Any) -> Terminal:
    import socket

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with theirs:
            reply = _start(keeper, op, (theirs.fileno(),), **fields)
    except BaseException:
        ours.close()
        keeper.close()
        raise
    number = reply["session"]
    return Terminal(number, ours, keeper, lambda: _result(keeper.wait_event("exit", session=number)))


def shell(
    paths: BoxPaths, argv: Sequence[str], rows: int, cols: int, env: Mapping[str, str] | None
) -> Terminal:
    """Open a session on a terminal of its own; see ``Engine.open_shell``."""
    return _of_the_next(paths, lambda: _shell(paths, argv, rows, cols, env))


def _shell(
    paths: BoxPaths, argv: Sequence[str], rows: int, cols: int, env: Mapping[str, str] | None
) -> Terminal:
    keeper = keepers.start(paths)
    try:
        passed = _passed(paths, env, pty=True)
    except BaseException:
        keeper.close()
        raise
    return _terminal(keeper, "shell", argv=list(argv), env=passed, rows=rows, cols=cols)


def attach(paths: BoxPaths, session: int | None, rows: int, cols: int) -> Terminal:
    """Attach to a live pty session; see ``Engine.attach``."""
    keeper = keepers.connect(paths)
    try:
        number = newest(paths, keeper) if session is None else session
    except BaseException:
        keeper.close()
        raise
    return _terminal(keeper, "attach", session=number, rows=rows, cols=cols)


def newest(paths: BoxPaths, keeper: KeeperClient) -> int:
    """The live session with a terminal that was started last; ``NoSuchBox`` when there is none."""
    found = [
        row["id"] for row in keeper.call("sessions")["sessions"] if row["pty"] and row["state"] == "running"
    ]
    if not found:
        raise NoSuchBox(
            f"box {paths.name} has no session to attach to",
            "none of its live sessions has a terminal",
            f"open one: cloche shell {paths.name}",
            code="no-such-session",
        )
    return int(max(found))


def output(paths: BoxPaths, session: int | None, limit: int) -> bytes:
    """The tail of what was printed; see ``Engine.output``."""
    if liveness.read(paths).kind != "live":
        return b""
    with keepers.connect(paths) as keeper:
        return binascii.a2b_base64(keeper.call("output", session=session, limit=limit)["data"])


def kill(paths: BoxPaths, process: ProcessId, signal: int) -> None:
    """Signal one process by identity; see ``Engine.kill``."""
    with keepers.connect(paths) as keeper:
        keeper.call("kill", pid=process.pid, start=process.start, signal=signal)


def _once_started(paths: BoxPaths) -> liveness.Liveness:
    """What lives of the box, once a keeper that is being started for somebody else lives or has given up."""
    until = time.monotonic() + START_LIMIT
    while store.starting(paths) and time.monotonic() < until:
        time.sleep(0.02)
    return liveness.read(paths)


def stop(paths: BoxPaths) -> bool:
    """End every process; see ``Engine.stop``. A keeper that does not answer is killed by identity: init
    follows it by the death pipe and ends the tree."""
    from backends.verbs import passage

    live = _once_started(paths)
    if live.kind == "":
        return False
    try:
        with keepers.connect(paths, timeout=STOP_LIMIT) as keeper:
            keeper.call("stop", who=passage.person())
    except NoSuchBox as error:
        if error.code != "not-live":
            raise
    except Busy as busy:
        if busy.code == "keeper-gone":
            passage.wait_for_end(paths)  # it hung up, and may be writing its end
        if live.keeper is not None and not liveness.end(live.keeper):
            raise
    passage.wait_for_end(paths)
    if liveness.read(paths).kind == "lost":
        with passage.holding(paths, "stop"):
            return True  # holding it settles what its keeper left
    return live.kind == "live"
