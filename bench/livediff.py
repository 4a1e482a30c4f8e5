"""From a write inside a live box to the terminal of a workbench that shows the box's changes.

The writer is a process of the box and says when its write ended, by the clock that all processes of the host
share (``CLOCK_MONOTONIC``). The workbench is a process of its own on a pseudo-terminal; a sample ends when
the new line is among the bytes that it wrote there.
"""

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
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from statistics import median
from typing import NamedTuple

from backends.engine import Engine, NewBox
from bench.measure import cloche, processor_time
from bench.place import place
from bench.repository import generated

ROUNDS = 40
FILES = 5000  # in the repository
STILL = 5.0  # seconds in which nothing changes
LIMIT = 20.0  # seconds after which a write that is not drawn is a failure
PAUSE = 0.7  # seconds between two writes, so that one sample does not wait for another
SIZE = (120, 40)
WRITER = """
import sys, time
for line in sys.stdin:
    with open("live.txt", "w") as file:
        file.write(line)
    print(time.monotonic(), flush=True)
"""


class Samples(NamedTuple):
    """Seconds of each write, and the share of one core that watching takes while nothing changes."""

    seconds: list[float]
    idle: float


class Screen:
    """A workbench on a pseudo-terminal: keys in, drawn bytes out."""

    def __init__(self, repo: Path, env: dict[str, str]) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(repo)
            argv = cloche()
            os.execve(argv[0], argv, {**env, "TERM": "xterm-256color"})
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
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

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)


@contextmanager
def writer(box: str, repo: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process of the box that writes one line to one file whenever it is told to."""
    with subprocess.Popen(
        cloche("run", box, "--", "python3", "-c", WRITER),
        cwd=repo,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def write(process: subprocess.Popen[str], line: str) -> float:
    """Have the box write ``line``; when that was done (monotonic seconds)."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def measure(rounds: int = ROUNDS, files: int = FILES, provider: str = "auto") -> Samples:
    """One box on a repository of ``files`` files, its Changes tab open; ``provider`` is its policy's ``tree``."""
    with place() as (work, env):
        repo = generated(work / "subject", files).path
        (repo / "cloche.toml").write_text(f'[profiles.default]\ntree = "{provider}"\n')
        Engine(repo).create(NewBox(name="live", tier="process"))
        with writer("live", repo, env) as process:
            write(process, "begin")
            screen = Screen(repo, env)
            try:
                screen.drawn(b"running")
                screen.press(b"\r")
                screen.drawn(b"Denials")
                screen.press(b"2")
                screen.drawn(b"begin")
                seconds = []
                for number in range(rounds):
                    screen.rest(PAUSE)
                    mark = f"mark{number:05}x"
                    at = write(process, mark)
                    seconds.append(screen.drawn(mark.encode()) - at)
                screen.rest(1.0)
                before, begin = processor_time([screen.pid]), time.monotonic()
                screen.rest(STILL)
                idle = (processor_time([screen.pid]) - before) / (time.monotonic() - begin)
            finally:
                screen.close()
    return Samples(seconds, idle)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    files = int(sys.argv[2]) if len(sys.argv) > 2 else FILES
    found = measure(rounds, files, sys.argv[3] if len(sys.argv) > 3 else "auto")
    ordered = sorted(found.seconds)
    print(
        f"{files} files, {rounds} writes: median {median(ordered) * 1000:.0f} ms, "
        f"least {ordered[0] * 1000:.0f}, most {ordered[-1] * 1000:.0f}; "
        f"while nothing changes {found.idle:.1%} of one core"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
