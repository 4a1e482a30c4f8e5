"""What is timed or weighed: each measure does one act from the outside, as a person or a script would."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path

ENTRY = "import sys; from app.cli import main; sys.exit(main())"
BLOCK = 512  # bytes of a block in stat(2)


def cloche(*words: str) -> list[str]:
    """A command line as a person's shell starts it: the installed script where there is one."""
    script = Path(sys.executable).with_name("cloche")
    start = [str(script)] if script.exists() else [sys.executable, "-P", "-c", ENTRY]
    return [*start, *words]


def takes_command(env: Mapping[str, str]) -> bool:
    """Whether ``cloche new NAME -- CMD`` is known here."""
    done = subprocess.run(cloche("new", "--help"), env=env, capture_output=True, text=True, check=True)
    return "CMD" in done.stdout


def timed(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> float:
    """Seconds from the start of a command to its end, its output thrown away. ``SystemExit`` says why the
    benchmark ends when the command fails.
    """
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        code = subprocess.call(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        spent = time.perf_counter() - begin
        if code != 0:
            errors.seek(0)
            said = errors.read(4096).decode(errors="replace")
            raise SystemExit(f"{' '.join(argv[-6:])} ended with {code}: {said}")
    return spent


def spawned(argv: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """Seconds of a bare posix_spawn(3) of a program and the wait for it, without a line of Python between."""
    begin = time.perf_counter()
    pid = os.posix_spawn(argv[0], list(argv), dict(env or {}))
    _, status = os.waitpid(pid, 0)
    spent = time.perf_counter() - begin
    if status != 0:
        raise SystemExit(f"{' '.join(argv[-6:])} ended with {os.waitstatus_to_exitcode(status)}")
    return spent


def painted(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], mark: bytes, limit: float = 20.0
) -> float:
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


def allocated(folder: Path) -> int:
    """Bytes of the blocks of ``folder`` and all below, as du(1) counts them; links are not followed."""
    total = folder.lstat().st_blocks
    for place, folders, files in os.walk(folder):
        total += sum(os.lstat(os.path.join(place, name)).st_blocks for name in (*folders, *files))
    return total * BLOCK


def pss(pid: int) -> int:
    """Bytes of a process, each shared page counted for its part (smaps_rollup of proc_pid_smaps(5)).

    ``PermissionError`` for a process that may not be looked into.
    """
    for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{pid}/smaps_rollup tells no Pss")


def processor_time(pids: Sequence[int]) -> float:
    """Seconds of processor time that the processes took so far (utime and stime of proc_pid_stat(5))."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def available() -> int:
    """Bytes of memory that can be had without swapping (MemAvailable of proc_meminfo(5))."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo tells no MemAvailable")
