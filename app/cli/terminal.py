"""``cloche shell`` and ``cloche attach``: the user's terminal joined to a session's own.

The user's terminal is set raw and carries only bytes (termios(3)); the session has a pseudo-terminal inside
the box, so nothing of the box ever holds the user's. ctrl-] detaches, as in telnet(1).
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from app.cli.context import Context
from app.cli.outputfilter import RESTORE, OutputFilter, terminal_is_utf8
from backends.engine import Terminal
from backends.errors import UsageError

# ctrl-] as a byte, and as the kitty and xterm keyboard protocols write it once a program asked for them.
DETACH = (b"\x1d", b"\x1b[93;5u", b"\x1b[27;5;93~")
PENDING_LIMIT = 1 << 16  # bytes typed ahead into a session that does not read
ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class _Ended(Exception):
    """A signal asks us to go; the session stays."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def split_detach(data: bytes) -> tuple[bytes, bool]:
    """What was typed before a detach key in ``data``, and whether there is one."""
    found = [at for at in (data.find(key) for key in DETACH) if at >= 0]
    return (data[: min(found)], True) if found else (data, False)


@contextmanager
def raw(fd: int) -> Iterator[None]:
    """Set the terminal raw; restore its mode, screen and pen afterwards whatever happens."""
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)
        os.write(1, RESTORE)


@contextmanager
def _signals() -> Iterator[int]:
    """A descriptor that becomes readable when the window's size changed; SIGTERM and SIGHUP raise."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def resized(_number: int, _frame: FrameType | None) -> None:
        os.write(writer, b"r")

    def ended(number: int, _frame: FrameType | None) -> None:
        raise _Ended(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGWINCH, *ENDINGS)}
    signal.signal(signal.SIGWINCH, resized)
    for number in ENDINGS:
        signal.signal(number, ended)
    try:
        yield reader
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def join(terminal: Terminal) -> bool:
    """Carry bytes between the user's terminal and the session; True when detached, False at its end."""
    screen = OutputFilter(terminal_is_utf8())
    pending = bytearray()
    os.set_blocking(terminal.fd, False)
    with _signals() as resized:
        poller = select.poll()
        poller.register(0, select.POLLIN)
        poller.register(resized, select.POLLIN)
        while True:
            poller.register(terminal.fd, select.POLLIN | (select.POLLOUT if pending else 0))
            for fd, events in poller.poll():
                if fd == resized:
                    os.read(resized, 4096)
                    size = os.get_terminal_size(1)
                    terminal.resize(size.lines, size.columns)
                elif fd == 0:
                    typed = os.read(0, 65536)
                    typed, leave = split_detach(typed)
                    pending += typed[: max(0, PENDING_LIMIT - len(pending))]
                    if leave or not (typed or events & select.POLLIN):
                        _flush(terminal.fd, pending)
                        return True
                    if not typed:
                        return True
                else:
                    if events & select.POLLOUT:
                        _flush(terminal.fd, pending)
                    if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                        data = _read(terminal.fd)
                        if data == b"":
                            return False
                        _write_all(1, screen.feed(data or b""))


def _flush(fd: int, pending: bytearray) -> None:
    if pending:
        try:
            del pending[: os.write(fd, pending)]
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            return


def _read(fd: int) -> bytes | None:
    """What came; b"" at the end, None when nothing waits after all."""
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return None
    except ConnectionResetError:
        return b""


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _size() -> tuple[int, int]:
    size = os.get_terminal_size(1)
    return (size.lines or 24, size.columns or 80)


def _require_terminal(verb: str) -> None:
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError(
            f"cloche {verb} needs a terminal",
            "standard input or output is not one",
            "run a single command instead: cloche run BOX -- CMD...",
            code="no-terminal",
        )


def _drive(context: Context, box: str, terminal: Terminal) -> int:
    key = context.engine.find(box).key
    ended_by: int | None = None
    sys.stdout.flush()
    try:
        with raw(0):
            try:
                detached = join(terminal)
            except _Ended as end:
                detached, ended_by = True, end.number
        code = None if detached else terminal.wait().exit
    finally:
        terminal.close()
    if context.json:
        value = {
            "schema": context.verb.schema,
            "box": key,
            "session": terminal.session,
            "detached": detached,
            "exit": code,
        }
        sys.stderr.write(json.dumps(value) + "\n")
    elif detached:
        context.note(f"detached; session {terminal.session} goes on: cloche attach {box} {terminal.session}")
    if ended_by is not None:
        return 128 + ended_by
    return code or 0


def shell(context: Context, args: argparse.Namespace) -> int:
    """``cloche shell BOX [-- CMD...]``."""
    _require_terminal("shell")
    rows, cols = _size()
    return _drive(context, args.box, context.engine.open_shell(args.box, args.command, rows, cols))


def attach(context: Context, args: argparse.Namespace) -> int:
    """``cloche attach BOX [SESSION]``."""
    _require_terminal("attach")
    number: int | None = None
    if args.session is not None:
        if not args.session.isdecimal():
            raise UsageError(
                f"{args.session!r} is no session",
                "a session has a number",
                f"cloche log {args.box}",
                code="usage",
            )
        number = int(args.session)
    rows, cols = _size()
    return _drive(context, args.box, context.engine.attach(args.box, number, rows, cols))
