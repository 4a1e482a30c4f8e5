"""``python -m bench.profile``: where each millisecond of create plus first command goes.

The points are those of :mod:`backends.trace`. Each line is one point: when it was reached, how long after the
point before it of any process, and of its own process; medians over the rounds. The steps of the third column
add up to the whole; where two processes work at once, a step is told of the one that reached its point first.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from backends import trace
from backends.engine import Engine, Streams
from bench import repository
from bench.acts import made
from bench.measure import takes_command
from bench.peer import TRUE
from bench.place import place
from bench.table import number

COMMAND, INIT, KEEPER = "command", "init", "keeper"
BEGIN, END = "begin", "end"
ALIKE = {  # points that differ in a path alone
    "root: the grant /etc/": "root: grants below /etc",
    "root: the grant ": "root: grants",
    "root: the borrowed objects ": "root: borrowed objects",
}
ENTRY = """
import sys
from backends import trace
trace.point("interpreter")
from app.cli import main
trace.point("command line imported")
code = main()
trace.point("command line done")
sys.exit(code)
"""


class Point(NamedTuple):
    """One line of a trace: nanoseconds of the monotonic clock, the pid as its process sees it, the name."""

    when: int
    pid: int
    name: str


class Step(NamedTuple):
    """One point over all rounds; milliseconds, medians. ``seen`` is in how many rounds it was reached."""

    process: str
    name: str
    at: float
    after: float  # since the point before it of any process
    own: float  # since the point before it of its own process
    seen: int


def read(text: str) -> list[Point]:
    """The points of one trace in the order of time. ``ValueError`` for a line that is none."""
    points = []
    for line in text.splitlines():
        when, pid, name = line.split(" ", 2)
        points.append(Point(int(when), int(pid), name))
    return sorted(points)


def folded(points: list[Point]) -> list[Point]:
    """Until ``end``; of mounts of one kind in a row the last stands for all."""
    out: list[Point] = []
    for point in points:
        kind = next((name for prefix, name in ALIKE.items() if point.name.startswith(prefix)), "")
        if kind and out and out[-1][1:] == (point.pid, kind):
            out.pop()
        out.append(point._replace(name=kind) if kind else point)
        if point.name == END:
            break
    return out


def process(point: Point, commands: frozenset[int]) -> str:
    """Whose point it is: a box's first process knows itself as 1, and what is neither serves the box."""
    if point.pid in commands:
        return COMMAND
    return INIT if point.pid == 1 else KEEPER


def steps(traces: Iterable[list[Point]]) -> list[Step]:
    """Medians for each point of each process, in the order in which they are reached.

    Whoever notes ``begin`` or ``interpreter`` is the command; what comes after ``end`` is left out. A name
    that a process notes several times is told apart by its turn.
    """
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for points in traces:
        opening = (BEGIN, "interpreter")
        commands = frozenset(point.pid for point in points if point.name in opening)
        last: dict[str, int] = {}
        turns: dict[tuple[str, str], int] = {}
        before = start = points[0].when
        for point in folded(points):
            whose = process(point, commands)
            turn = turns[whose, point.name] = turns.get((whose, point.name), 0) + 1
            name = point.name if turn == 1 else f"{point.name} ({turn})"
            own = last.get(whose, before)
            figures = ((point.when - start) / 1e6, (point.when - before) / 1e6, (point.when - own) / 1e6)
            found.setdefault((whose, name), []).append(figures)
            before = last[whose] = point.when
    out = []
    for (whose, name), values in found.items():
        at, after, own = (statistics.median(column) for column in zip(*values, strict=True))
        out.append(Step(whose, name, at, after, own, len(values)))
    return sorted(out, key=lambda step: step.at)


def lines(title: str, found: list[Step], rounds: int) -> list[str]:
    """A profile as text."""
    out = ["", f"{title}: {number(found[-1].at)} ms, median of {rounds} rounds", ""]
    out.append(f"{'at':>8} {'step':>8} {'own':>8}  process  point")
    for step in found:
        rare = f"  (in {step.seen} rounds)" if step.seen != rounds else ""
        cells = " ".join(f"{value:8.2f}" for value in (step.at, step.after, step.own))
        out.append(f"{cells}  {step.process:7}  {step.name}{rare}")
    return out


def command_line(file: Path, argv: list[str], cwd: Path, env: dict[str, str]) -> None:
    """Run one command line with its points."""
    words = [sys.executable, "-P", "-c", ENTRY, *argv]
    traced = {**env, trace.VARIABLE: os.fspath(file)}
    done = subprocess.run(
        words, cwd=cwd, env=traced, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"cloche {' '.join(argv)} failed: {done.stderr.decode(errors='replace')}")


def profiled(
    act: Callable[[Path, str], None], work: Path, rounds: int, remove: Callable[[str], None]
) -> list[Step]:
    """Do ``act`` with a trace file and the name of a box in each round, and take the points together."""
    traces = []
    for turn in range(rounds):
        file, box = work / f"trace-{turn}", f"round-{turn}"
        trace.begin(os.fspath(file))
        os.environ[trace.VARIABLE] = os.fspath(file)  # for the keeper that this process starts
        trace.point(BEGIN)
        act(file, box)
        trace.point(END)
        del os.environ[trace.VARIABLE]
        trace.begin("")
        remove(box)
        traces.append(read(file.read_text()))
        file.unlink()
    return steps(traces)


def main() -> int:
    """Profile both ways on one repository and print them."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--files", type=int, default=repository.GENERATED, help="of the generated repository")
    parser.add_argument("--ahead", action="store_true", help="one more commit before each box")
    options = parser.parse_args()
    with place() as (work, env), open(os.devnull, "r+b") as null:
        repo = repository.generated(work / "subject", options.files).path
        engine = Engine(repo)
        streams = Streams(null.fileno(), null.fileno(), null.fileno())
        made(engine, "kept", streams)
        print(f"{options.files} files, {'one commit ahead of' if options.ahead else 'known'} base")
        commits = itertools.count()

        def remove(box: str) -> None:
            engine.remove(box, force=True)
            if options.ahead:
                repository.ahead(repo, next(commits))

        def created_here(file: Path, box: str) -> None:
            del file  # this process has its points on already
            made(engine, box, streams)

        def again(file: Path, box: str) -> None:
            made(engine, box, streams)
            file.write_bytes(b"")  # the keeper appends to it, too: only what follows counts
            trace.point(BEGIN)
            engine.run(box, [TRUE], streams=streams)

        def new_then_run(file: Path, box: str) -> None:
            for argv in ["new", box], ["run", box, "--", "true"]:
                command_line(file, argv, repo, env)

        def new_with_command(file: Path, box: str) -> None:
            command_line(file, ["new", box, "--", "true"], repo, env)

        cold, title = new_then_run, "cold: cloche new NAME, then cloche run NAME -- true"
        if takes_command(env):
            cold, title = new_with_command, "cold: cloche new NAME -- true"
        for said, act in (
            ("running engine: create, run true", created_here),
            ("running engine: run true, box live", again),
            (title, cold),
        ):
            found = profiled(act, work, options.rounds, remove)
            print("\n".join(lines(said, found, options.rounds)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
