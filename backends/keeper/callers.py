"""Who made a call: thread to process, parent and command, remembered for a moment."""

from __future__ import annotations

import time

from backends.keeper.words import redacted
from backends.record import NamedTuple

LIFE = 1.0  # seconds; a pid is hardly reused within, and only a tally's words would be wrong
MAX_REMEMBERED = 2048
MAX_COMMAND = 200


class Caller(NamedTuple):
    """``pid`` and ``parent`` as the host sees them, ``inside`` as the box does; 0 where not known."""

    pid: int
    parent: int
    inside: int
    name: str
    command: str


class Callers:
    """Answers from memory for threads that call again and again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, Caller]] = {}

    def get(self, thread: int) -> Caller:
        now = time.monotonic()
        known = self._known.get(thread)
        if known is not None and known[0] > now:
            return known[1]
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        caller = _read(thread)
        self._known[thread] = (now + LIFE, caller)
        return caller

    def forget(self, thread: int) -> None:
        """It executes another program."""
        self._known.pop(thread, None)


def _read(thread: int) -> Caller:
    """From proc_pid_status(5) and proc_pid_cmdline(5), both as the process wrote them."""
    pid, parent, inside, name = thread, 0, 0, ""
    for line in _file(f"/proc/{thread}/status").splitlines():
        key, _, value = line.partition(b":\t")
        if key == b"Name":
            name = value.decode("utf-8", "surrogateescape")
        elif key == b"Tgid":
            pid = int(value)
        elif key == b"PPid":
            parent = int(value)
        elif key == b"NStgid":
            inside = int(value.split()[-1])
            break
    argv = command_line(thread)
    return Caller(pid, parent, inside, name, " ".join(argv)[:MAX_COMMAND] if argv else f"[{name}]")


def command_line(pid: int) -> tuple[str, ...]:
    """The redacted argv of a process, empty when it has none or is gone."""
    words = _file(f"/proc/{pid}/cmdline").rstrip(b"\0").split(b"\0")
    argv = [word.decode("utf-8", "surrogateescape") for word in words[:32]]
    return redacted(argv) if argv[0] else ()


def _file(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(4096)
    except (FileNotFoundError, ProcessLookupError):
        return b""
