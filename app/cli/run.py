"""``cloche run``: the short path from a person's shell to a command in a box.

Everything imported here is paid for at each command (the aim: below 70 ms in all), so the words are read by
hand and nothing is loaded that only other verbs need.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from backends.engine import Engine, SessionHandle, Streams
from backends.errors import UsageError

# What a person or a supervisor sends to end or prod a command; SIGKILL and SIGSTOP cannot be passed on.
PASSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
PATIENCE = 3  # interrupts in vain before the command is left to itself


class Passing:
    """Passes signals on to the session; before one is asked for, they end us as usual.

    From the request on a command may run, which nobody would end if we ended: what comes before the answer
    is kept for the session, and ends us after all where none began. What comes after its end has nobody to
    go to, and what is done then, such as to write down how it ended, takes but a moment.
    """

    def __init__(self) -> None:
        self._session: SessionHandle | None = None
        self._interrupts = 0
        self._kept: list[int] = []
        self._before = {number: signal.getsignal(number) for number in PASSED}

    def asking(self) -> None:
        """The session is about to be asked for; again, where it was not to be had yet."""
        if self._kept:
            self.restore()
        for number in PASSED:
            # nohup(1) and `trap ''` mean what they say for the command as well.
            if self._before[number] is not signal.SIG_IGN:
                signal.signal(number, self._pass)

    def __call__(self, session: SessionHandle) -> None:
        gc.enable()  # the command may last
        self._session = session
        while self._kept:
            session.signal(self._kept.pop(0))

    def _pass(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > PATIENCE:
                self._kept.clear()
                raise KeyboardInterrupt
        if self._session is None:
            self._kept.append(number)
        else:
            self._session.signal(number)

    def restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        while self._kept:
            signal.raise_signal(self._kept.pop(0))


def _read(words: list[str]) -> tuple[dict[str, Any], str, list[str]]:
    """Options, box and command; options stand before the box, so that the command keeps its own."""
    options: dict[str, Any] = {"json": False, "cwd": ""}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        word = words[at]
        name, equals, value = word.partition("=")
        if word == "--json":
            options["json"] = True
        elif name == "--cwd":
            if not equals:
                at += 1
                if at == len(words):
                    raise _usage("--cwd needs a folder")
                value = words[at]
            options["cwd"] = value
        else:
            raise _usage(f"unknown option {word}")
        at += 1
    rest = words[at:]
    if not rest or rest[0] == "--":
        raise _usage("no box is named")
    box, command = rest[0], rest[1:]
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise _usage("no command is given")
    return options, box, command


def _usage(why: str) -> UsageError:
    return UsageError("cloche run cannot be read", why, "cloche run BOX -- CMD...", code="usage")


def quick(words: list[str]) -> int:
    """``cloche run`` with its words; returns the command's exit code."""
    if words[:1] in (["-h"], ["--help"]):
        from app.cli.dispatch import dispatch

        return dispatch(["run", "--help"])
    options, box, command = _read(words)
    return carry_out(Engine(), box, command, cwd=options["cwd"], as_json=options["json"])


def carry_out(engine: Engine, box: str, command: list[str], *, cwd: str = "", as_json: bool = False) -> int:
    """Run ``command`` in ``box`` between our own streams; returns its exit code."""
    passing = Passing()
    try:
        result = engine.run(
            box, command, streams=own_streams(), on_session=passing, cwd=cwd, on_request=passing.asking
        )
    finally:
        passing.restore()
    if as_json:
        import json

        value = {"schema": "cloche.run/1", "box": engine.find(box).key, **result._asdict()}
        sys.stderr.write(json.dumps(value) + "\n")
    return result.exit


def own_streams() -> Streams:
    """Our own three streams; what goes to a terminal passes the filter, a pipe or file gets every byte."""
    screens: list[Callable[[bytes], bytes] | None] = [None, None]
    for fd in (1, 2):
        if os.isatty(fd):
            from app.cli.outputfilter import OutputFilter, terminal_is_utf8

            screens[fd - 1] = OutputFilter(terminal_is_utf8()).feed
    return Streams(0, 1, 2, *screens)


def main(context: object, args: object) -> int:
    """The table's handler; the words of ``run`` are read by :func:`quick` before it could be reached."""
    raise _usage("options come before BOX")
