"""What a workbench costs beside many live boxes: processor time, the answer to a key, the engine's listing.

Each box holds processes that sleep: nothing changes, so all that is spent is spent on looking. The workbench
is a process of its own on a pseudo-terminal and shows the fleet as panes, as it opens.
"""

from __future__ import annotations

import os
import sys
import time
from statistics import median
from typing import NamedTuple

from backends.engine import Engine, NewBox
from backends.keeper import client
from bench.measure import processor_time
from bench.place import place
from bench.repository import generated
from bench.screen import Screen

BOXES, PROCESSES = 20, 40
FILES = 200  # in the repository: trees are not what is measured here
SECONDS = 10.0  # of looking on
KEYS = 100
LISTINGS = 20
FOCUSED = "┏".encode()  # the corner of the pane that has the focus
PAYLOAD = 'i=1; while [ $i -lt "$0" ]; do sleep 3600 & i=$((i+1)); done; wait'


class Figures(NamedTuple):
    """``processor`` is the share of one core; ``keys`` and ``listings`` are seconds."""

    boxes: int
    processes: int
    processor: float
    keys: list[float]
    listings: list[float]


def measure(
    boxes: int = BOXES,
    processes: int = PROCESSES,
    *,
    seconds: float = SECONDS,
    keys: int = KEYS,
    size: tuple[int, int] = (120, 40),
) -> Figures:
    """``boxes`` live boxes with ``processes`` sleeping processes each, looked at for ``seconds``."""
    with place() as (work, env):
        repo = generated(work / "subject", FILES).path
        engine = Engine(repo)
        fill(engine, boxes, processes, env)
        listings = []
        for _ in range(LISTINGS):
            begin = time.perf_counter()
            rows = engine.boxes()
            listings.append(time.perf_counter() - begin)
        screen = Screen(repo, env, size)
        try:
            screen.drawn(FOCUSED)
            screen.rest(3.0)
            before, begin = processor_time([screen.pid]), time.monotonic()
            screen.rest(seconds)
            share = (processor_time([screen.pid]) - before) / (time.monotonic() - begin)
            answers = [answer(screen, b"\x1b[C" if number % 2 == 0 else b"\x1b[D") for number in range(keys)]
        finally:
            screen.close()
        return Figures(boxes, sum(row.processes for row in rows), share, answers, listings)


def fill(engine: Engine, boxes: int, processes: int, env: dict[str, str]) -> None:
    """Make the boxes and start what sleeps in them."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        for number in range(boxes):
            name = f"many-{number:03}"
            engine.create(NewBox(name=name, tier="process"))
            engine.run(name, ["true"])
            with client.connect(engine.find(name)) as keeper:
                argv = ["/bin/sh", "-c", PAYLOAD, str(processes)]
                keeper.call("run", (null,) * 3, argv=argv, env=env, cwd="")
    finally:
        os.close(null)
    end = time.monotonic() + 30
    while sum(row.processes for row in engine.boxes()) < boxes * processes and time.monotonic() < end:
        time.sleep(0.1)


def answer(screen: Screen, key: bytes) -> float:
    """Seconds from a key to the frame of the pane that it leads to."""
    screen.quiet(0.03)
    begin = time.monotonic()
    screen.press(key)
    return screen.drawn(FOCUSED) - begin


def percentile(values: list[float], part: float) -> float:
    """The value that ``part`` of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def main() -> int:
    counts = [int(word) for word in sys.argv[1:3]]
    found = measure(*counts)
    print(
        f"{found.boxes} boxes, {found.processes} processes: {found.processor:.1%} of one core; "
        "key to paint "
        f"median {median(found.keys) * 1000:.0f} ms, p99 {percentile(found.keys, 0.99) * 1000:.0f}; "
        f"listing {median(found.listings) * 1000:.1f} ms"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
