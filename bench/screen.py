"""A workbench on a pseudo-terminal, driven by keys and timed by what it draws."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path

from bench.measure import cloche

LIMIT = 20.0  # seconds after which what is not drawn is a failure
SIZE = (120, 40)  # columns and lines


class Screen:
    """A workbench on a pseudo-terminal: keys in, drawn bytes out."""

    def __init__(self, repo: Path, env: Mapping[str, str], size: tuple[int, int] = SIZE) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(repo)
            argv = cloche()
            os.execve(argv[0], argv, {**env, "TERM": "xterm-256color"})
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.seen = b""

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def drawn(self, mark: bytes, limit: float = LIMIT) -> float:
        """When ``mark`` was drawn (monotonic seconds); what was drawn before it is forgotten."""
        end = time.monotonic() + limit
        while mark not in self.seen:
            if not select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0]:
                raise SystemExit(
                    f"the workbench did not draw {mark!r} within {limit} s: {self.seen[-800:]!r}"
                )
            self.seen = self.seen[-4096:] + os.read(self.master, 65536)
        at = time.monotonic()
        self.seen = b""
        return at

    def rest(self, seconds: float) -> None:
        """Let it draw what it wants for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                self.seen = self.seen[-4096:] + os.read(self.master, 65536)

    def quiet(self, seconds: float, limit: float = LIMIT) -> None:
        """Wait until nothing was drawn for ``seconds``."""
        end = time.monotonic() + limit
        while time.monotonic() < end and select.select([self.master], [], [], seconds)[0]:
            os.read(self.master, 65536)
        self.seen = b""

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)
