"""What is timed: each measure does one act from the outside, as a person or a script would."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path

ENTRY = "import sys; from app.cli import main; sys.exit(main())"


def cloche(*words: str) -> list[str]:
    return [sys.executable, "-P", "-c", ENTRY, *words]


def timed(argv: Sequence[str], cwd: Path, env: dict[str, str]) -> float:
    """Seconds from the start of a command to its end; a failure ends the benchmark."""
    begin = time.perf_counter()
    done = subprocess.run(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True)
    spent = time.perf_counter() - begin
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(argv[-6:])} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
        )
    return spent


def spawned(path: str) -> float:
    """Seconds of a bare posix_spawn(3) of a program and the wait for it."""
    begin = time.perf_counter()
    pid = os.posix_spawn(path, [path], {})
    os.waitpid(pid, 0)
    return time.perf_counter() - begin


def painted(argv: Sequence[str], cwd: Path, env: dict[str, str], mark: bytes, limit: float = 20.0) -> float:
    """Seconds until a program on a terminal of 120x40 has drawn ``mark``."""
    begin = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(argv[0], list(argv), {**env, "TERM": "xterm-256color"})
    ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen = b""
    try:
        while mark not in seen:
            if not select.select([master], [], [], max(0.0, begin + limit - time.perf_counter()))[0]:
                raise SystemExit(f"the workbench did not draw {mark!r} within {limit} s")
            try:
                seen += os.read(master, 65536)
            except OSError as error:  # EIO: the program ended and its terminal with it
                raise SystemExit(f"the workbench ended before it drew {mark!r}: {seen[-2000:]!r}") from error
        return time.perf_counter() - begin
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)
