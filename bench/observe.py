"""What each level of ``observe`` costs: ``python -m bench.observe [ROUNDS]`` prints one table.

One live box for each level, the same work in each, level after level in every round, so that a busy moment
of the machine falls on all of them. Times are taken inside, around the work alone: neither the start of a box
nor that of Python is in them. Boxes lie in a temporary folder and are gone afterwards.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LEVELS = ("none", "writes", "all")
OPENS = 20_000
FILES = 2_000

LOOP = (
    "import os, sys, time; flags = int(sys.argv[2]); path = sys.argv[1]; began = time.perf_counter()\n"
    f"for _ in range({OPENS}): os.close(os.open(path, flags))\n"
    "print(time.perf_counter() - began)"
)
TIMED = (
    "import subprocess, sys, time; began = time.perf_counter(); "
    "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); print(time.perf_counter() - began)"
)
# Name, opens for reading and for writing in it (0: not counted), and the command.
WORK: tuple[tuple[str, int, list[str]], ...] = (
    (f"{OPENS:,} opens for reading", OPENS, ["-c", LOOP, "/etc/localtime", str(os.O_RDONLY)]),
    (f"{OPENS:,} opens for writing", OPENS, ["-c", LOOP, "/work/f0", str(os.O_WRONLY)]),
    (f"`grep -r` over {FILES:,} files", FILES, ["-c", TIMED, "grep", "-rc", "line", "/work/many"]),
    (f"`cp -r` of {FILES:,} files", 2 * FILES, ["-c", TIMED, "sh", "-c", "cp -r many copy && rm -r copy"]),
    ("`compileall` of 3 packages", 0, ["-c", TIMED, "python3", "-m", "compileall", "-qf", "/work/lib"]),
    ("`git status`, 2,000 files", 0, ["-c", TIMED, "git", "status", "--porcelain"]),
)  # fmt: skip


def _repository(path: Path) -> None:
    path.mkdir()
    (path / "f0").write_text("x\n")
    for folder in range(20):
        inner = path / "many" / f"d{folder}"
        inner.mkdir(parents=True)
        for number in range(FILES // 20):
            (inner / f"f{number}").write_text(f"line {number}\n" * 20)
    shutil.copytree("/usr/lib/python3.11/json", path / "lib" / "json")
    shutil.copytree("/usr/lib/python3.11/asyncio", path / "lib" / "asyncio")
    shutil.copytree("/usr/lib/python3.11/email", path / "lib" / "email")
    for level in LEVELS:
        text = f'[profiles.{level}]\nobserve = "{level}"\n'
        with open(path / "cloche.toml", "a") as file:
            file.write(text)
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        ["-c", "user.name=b", "-c", "user.email=b", "commit", "-qm", "b"],
    ):
        subprocess.run(["git", *words], cwd=path, check=True)


def _measure(rounds: int, root: Path) -> dict[tuple[str, str], list[float]]:
    from backends.engine import Engine, NewBox, Streams

    _repository(root / "repo")
    engine = Engine(root / "repo")
    null = os.open(os.devnull, os.O_RDWR)
    samples: dict[tuple[str, str], list[float]] = {}
    try:
        for level in LEVELS:
            engine.create(NewBox(name=level, profile=level))
        for turn in range(rounds + 1):
            for name, _, words in WORK:
                for level in LEVELS:
                    reader, writer = os.pipe()
                    done = engine.run(level, ["python3", *words], streams=Streams(null, writer, 2))
                    os.close(writer)
                    with os.fdopen(reader) as out:
                        said = out.read()
                    if done.exit:
                        raise SystemExit(f"{name} at {level} gave {done.exit}")
                    if turn:  # the first round fills caches
                        samples.setdefault((name, level), []).append(float(said))
    finally:
        for level in LEVELS:
            engine.stop(level)
            engine.remove(level, force=True)
        os.close(null)
    return samples


def main(rounds: int) -> None:
    """Measure and print a table: median and least of each, and from the least what one open costs more.

    The least of many rounds is what the work takes when nobody else has the processor.
    """
    root = Path(tempfile.mkdtemp(prefix="cloche-bench-"))
    os.environ.update(
        XDG_STATE_HOME=f"{root}/s",
        XDG_CONFIG_HOME=f"{root}/c",
        XDG_CACHE_HOME=f"{root}/k",
        XDG_RUNTIME_DIR=f"{root}/r",
    )
    for name in "sckr":
        (root / name).mkdir(mode=0o700)
    try:
        samples = _measure(rounds, root)
    finally:
        shutil.rmtree(root)
    host = f"{os.uname().release}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"# {host}, {rounds} rounds, median (least) in ms")
    print("| work | `none` | `writes` | `all` | one open more |")
    print("|---|---|---|---|---|")
    for name, opens, _ in WORK:
        cells = [
            f"{statistics.median(found) * 1000:.0f} ({min(found) * 1000:.0f})"
            for found in (samples[name, level] for level in LEVELS)
        ]
        more = min(samples[name, "all"]) - min(samples[name, "none"])
        each = f"{max(0.0, more) / opens * 1e6:.0f} µs" if opens else ""
        print(f"| {name} | {' | '.join(cells)} | {each} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
