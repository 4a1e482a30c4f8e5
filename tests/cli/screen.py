"""A user's terminal for tests: ``cloche`` runs on the slave, the test reads and types on the master."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from types import TracebackType

from tests.support import cloche_argv


class Screen:
    """One command on a pseudo-terminal of its own session, as a login shell would start it."""

    def __init__(self, cwd: Path, *args: str, rows: int = 24, cols: int = 80) -> None:
        self.master, self._slave = pty.openpty()
        self.resize(rows, cols, tell=False)
        self.before = termios.tcgetattr(self._slave)
        self.output = b""
        self.process = subprocess.Popen(
            cloche_argv(*args),
            cwd=cwd,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)

    def resize(self, rows: int, cols: int, tell: bool = True) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def type(self, data: bytes) -> None:
        os.write(self.master, data)

    def read(self, wait: float = 0.05) -> bytes:
        """Everything that came within ``wait`` seconds of silence."""
        got = b""
        while select.select([self.master], [], [], wait)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            if not data:
                break
            got += data
        self.output += got
        return got

    def until(self, text: bytes, timeout: float = 60.0, *, after: int = 0) -> bytes:
        """Read until ``text`` came, behind the first ``after`` bytes; all output since the start."""
        end = time.monotonic() + timeout
        while text not in self.output[after:]:
            self.read()
            if time.monotonic() > end:
                raise AssertionError(f"{text!r} did not come; seen: {self.output[-2000:]!r}")
        return self.output

    def wait(self, timeout: float = 60.0) -> int:
        """The exit code, once the command ended."""
        end = time.monotonic() + timeout
        while self.process.poll() is None:
            self.read()
            if time.monotonic() > end:
                raise AssertionError(f"it does not end; seen: {self.output[-2000:]!r}")
        self.read()
        return self.process.returncode

    def mode(self) -> list[object]:
        """The terminal's attributes as they are now (termios(3))."""
        return termios.tcgetattr(self._slave)
