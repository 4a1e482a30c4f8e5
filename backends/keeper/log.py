"""The keeper's own diary, ``keeper.log``: one line per cause, never a flood, never the values of locals."""

from __future__ import annotations

import os
import time

MAX_CAUSES = 500  # distinct causes written in a keeper's life; a flood must not fill the disk
_REPEATS = (10, 100, 1000, 10_000, 100_000, 1_000_000)


class Log:
    """Writes to a descriptor. A cause that repeats is written again only at powers of ten."""

    def __init__(self, fd: int = 2) -> None:
        self._fd = fd
        self._seen: dict[str, int] = {}

    def note(self, text: str, cause: str | None = None) -> None:
        """One line. ``cause`` (default: the text) decides what counts as a repeat."""
        key = cause or text
        count = self._seen.get(key, 0) + 1
        if count == 1 and len(self._seen) >= MAX_CAUSES:
            return
        self._seen[key] = count
        if count == 1 or count in _REPEATS:
            times = "" if count == 1 else f" ({count} times)"
            self._write(f"{text}{times}")

    def failure(self, where: str, error: BaseException) -> None:
        """An error that was survived, with where it was raised."""
        place = _place(error)
        self.note(f"{where}: {type(error).__name__}: {error} at {place}", f"{where.split()[0]}:{place}")

    def _write(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        line = f"{stamp} {text}".encode("utf-8", "backslashreplace").replace(b"\n", b"\\n")[:2000]
        try:
            os.write(self._fd, line + b"\n")
        except OSError:
            self._fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)  # a full disk must not end a keeper


def _place(error: BaseException) -> str:
    """Where an error was raised, innermost first; by hand, since ``traceback`` costs 4 ms of every start."""
    frames = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        frames.append(f"{os.path.basename(code.co_filename)}:{step.tb_lineno} {code.co_name}")
        step = step.tb_next
    return " < ".join(reversed(frames[-4:]))
