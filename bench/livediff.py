"""From a write inside a live box to the terminal of a workbench that shows the box's changes.

The writer is a process of the box and says when its write ended, by the clock that all processes of the host
share (``CLOCK_MONOTONIC``). The workbench is a process of its own on a pseudo-terminal; a sample ends when
the new line is among the bytes that it wrote there.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from backends.engine import Engine, NewBox
from bench.measure import cloche, processor_time
from bench.place import place
from bench.repository import generated
from bench.screen import Screen

ROUNDS = 40
FILES = 5000  # in the repository
STILL = 5.0  # seconds in which nothing changes
PAUSE = 0.7  # seconds between two writes, so that one sample does not wait for another
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
    """One box on a repository of ``files`` files, its Changes tab open; ``provider`` as in a policy."""
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
