"""Trace points: where the time of one act goes, across all the processes that take part in it.

With ``CLOCHE_TRACE=FILE`` in the environment every :func:`point` appends one line to FILE:

    NANOSECONDS PID NAME

on the clock of ``time.perf_counter_ns`` (clock_gettime(2), CLOCK_MONOTONIC), which all processes of one boot
share. Without it a point is one look at a variable. No descriptor stays open between two points, so that
none can reach a box. What can no longer write, because it has left the host's files or descriptors, calls
:func:`hold` and hands what it noted to its caller (:func:`held`), who writes it down (:func:`carry`).

``python -m bench.profile`` reads such files. Lean: everything that it imports every interpreter has loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from time import perf_counter_ns

VARIABLE = "CLOCHE_TRACE"
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

_file = os.environ.get(VARIABLE, "")
_holding: list[str] | None = None


def on() -> bool:
    """Whether points are noted."""
    return bool(_file)


def begin(file: str) -> None:
    """Note points in ``file`` from now on ("" for none): for a process that serves many callers in turn."""
    global _file, _holding
    _file = file
    _holding = None


def point(name: str) -> None:
    """The act has come this far. ``OSError`` when the file that was asked for cannot be written."""
    if not _file:
        return
    line = f"{perf_counter_ns()} {os.getpid()} {name}"
    if _holding is not None:
        _holding.append(line)
    else:
        _append(line + "\n")


def hold() -> None:
    """Keep points in memory: the file is out of reach from here on, for forks too. Twice is once."""
    global _holding
    if _file and _holding is None:
        _holding = []


def held() -> list[str]:
    """The lines noted since :func:`hold`, each told once; empty while nothing is noted."""
    global _holding
    lines, _holding = _holding or [], [] if _holding is not None else None
    return lines


def keep(lines: Iterable[str]) -> None:
    """Add what a child of ours held to what we hold."""
    if _holding is not None:
        _holding.extend(lines)


def carry(lines: Iterable[object]) -> None:
    """Write down what another process held. Lines that are none are dropped: they may come from a box's init,
    which is not to choose what a file of the host's says.
    """
    if not _file:
        return
    for line in lines:
        if isinstance(line, str) and _is_line(line):
            _append(line + "\n")


def _is_line(line: str) -> bool:
    words = line.split(" ", 2)
    return len(words) == 3 and words[0].isdecimal() and words[1].isdecimal() and words[2].isprintable()


def _append(text: str) -> None:
    fd = os.open(_file, _FLAGS, 0o600)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
