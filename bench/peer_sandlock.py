"""sandlock (PyPI): Landlock and seccomp from Python, in a private environment below the benchmark's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.peer import INSTALL_LIMIT, NOT_INSTALLED, Command, Unavailable, call

# One line in, one line out: the seconds of one confined `true`. The first line is the import's.
SCRIPT = """
import sys, time
begin = time.perf_counter()
from sandlock import Sandbox
print(time.perf_counter() - begin, flush=True)
readable = ["/usr", "/lib", "/lib64", "/bin", "/etc"]
for line in sys.stdin:
    begin = time.perf_counter()
    result = Sandbox(fs_readable=readable).run(["/usr/bin/true"])
    spent = time.perf_counter() - begin
    print(spent if result.success else f"failed: {result.error or result.exit_code}", flush=True)
"""


class Sandlock:
    """A Python process that has imported sandlock and runs ``true`` confined on demand."""

    def __init__(self, python: Path) -> None:
        self.version = call(
            [
                str(python),
                "-c",
                "from importlib.metadata import version; print('sandlock', version('sandlock'))",
            ]
        )
        self._process = subprocess.Popen(
            [str(python), "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
        )
        try:
            self._answer()
            self.once()
        except BaseException:
            self.close()
            raise

    def once(self) -> float:
        """Seconds of one confined ``true``."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> float:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        try:
            return float(line)
        except ValueError:
            raise Unavailable(f"sandlock: {line or 'ended without a word'}") from None

    def close(self) -> None:
        """End the process and wait for it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(10)


def interpreter(cache: Path, *, install: bool) -> Path:
    """The interpreter of a private environment that has sandlock."""
    folder = cache / "sandlock"
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        if not install:
            raise Unavailable(NOT_INSTALLED)
        call([sys.executable, "-m", "venv", "--clear", str(folder)], limit=INSTALL_LIMIT)
        call([str(python), "-m", "pip", "install", "--quiet", "sandlock"], limit=INSTALL_LIMIT)
        (folder / "done").touch()
    return python


def cold(python: Path) -> Command:
    """One interpreter that starts, imports sandlock and runs ``true`` confined, once."""
    once = SCRIPT.replace("for line in sys.stdin:", "for line in '1':")
    code = f"{once}    sys.exit(not result.success)\n"
    return Command((str(python), "-c", code), dict(os.environ), "")
