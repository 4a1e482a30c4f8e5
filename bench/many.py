"""What live boxes keep: memory of one and of many, processor time of idle ones, and what they slow down."""

from __future__ import annotations

import os
import time
from pathlib import Path

from backends.boxes import liveness
from backends.engine import Engine
from backends.keeper import client
from bench import rows
from bench.acts import Stage, made, removed
from bench.measure import available, cloche, processor_time, pss, timed

NEEDED = 64 << 20  # bytes for one more box, its payload included, with much to spare
RESERVE = 1 << 30  # bytes that must be left to the host
IDLE = 3.0  # seconds of watching idle boxes
SETTLED = 0.5  # seconds after which a new box does nothing any more
PAYLOAD = ["/usr/bin/sleep", "3600"]
BY_FLEET = (rows.BESIDE, rows.KEY, rows.LISTED)  # bench/fleet.py measures them
ROWS = tuple(row.name for row in rows.ROWS if row.group == rows.SCALE and row.name not in BY_FLEET)


def one(stage: Stage, rounds: int) -> None:
    """Memory of a box that is the only live one."""
    engine = Engine(stage.subject)
    for number in range(rounds):
        box = f"round-memory-{number}"
        made(engine, box, stage.streams)
        time.sleep(SETTLED)
        keeper, init = processes(engine, box)
        _weigh(stage, "memory of its keeper", keeper)
        _weigh(stage, "memory of its init", init)
        zygote = zygotes(Path(stage.env["XDG_RUNTIME_DIR"]))
        if zygote:
            _weigh(stage, "memory of the zygote", *zygote)
        else:
            stage.sampler.miss("memory of the zygote", "no zygote runs")
        engine.remove(box, force=True)


def processes(engine: Engine, box: str) -> tuple[int, int]:
    """The pids of a live box's keeper and init."""
    live = liveness.read(engine.find(box))
    if live.keeper is None or live.init is None or live.kind != "live":
        raise SystemExit(f"box {box} is not live")
    return live.keeper.pid, live.init.pid


def zygotes(folder: Path) -> list[int]:
    """The zygote of the runtime folder ``folder`` and what forks for it: whoever has a file there open."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            if entry.joinpath("comm").read_bytes().strip() not in (
                b"cloche-zygote",
                b"cloche-forker",
                b"cloche-seed",
            ):
                continue
            held = [os.readlink(link) for link in entry.joinpath("fd").iterdir()]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # gone, or somebody else's
        if any(place.startswith(f"{folder}/") for place in held):
            found.append(int(entry.name))
    return found


def _weigh(stage: Stage, row: str, *pids: int) -> int:
    """Add the memory of processes to ``row`` as one figure; 0 where one may not be looked into."""
    try:
        found = sum(map(pss, pids))
    except PermissionError:
        stage.sampler.miss(row, "only root may look into this process: run as root to see it")
        return 0
    stage.sampler.add(row, found)
    return found


def lacking(count: int) -> str:
    """Why ``count`` live boxes are too many for this host, "" when they are not."""
    needed = count * NEEDED + RESERVE
    return f"{count} live boxes need {needed >> 20} MiB of free memory" if available() < needed else ""


def many(stage: Stage, count: int, rounds: int) -> None:
    """``count`` live boxes, each with a process that sleeps."""
    if reason := lacking(count):
        for row in ROWS:
            stage.sampler.miss(row, reason)
        return
    add, engine = stage.sampler.add, Engine(stage.subject)
    boxes = [f"many-{number}" for number in range(count)]
    for box in boxes:
        made(engine, box, stage.streams)
        with client.connect(engine.find(box)) as keeper:
            keeper.call("run", (stage.null,) * 3, argv=PAYLOAD, env=stage.env, cwd="")
    time.sleep(SETTLED)
    pairs = [processes(engine, box) for box in boxes]
    keepers = [_weigh(stage, "a keeper among many", keeper) for keeper, _ in pairs]
    inits = [_weigh(stage, "an init among many", init) for _, init in pairs]
    if all(keepers) and all(inits):
        add("all keepers and inits", sum(keepers) + sum(inits))
    else:
        stage.sampler.miss("all keepers and inits", "only root may look into each of these processes")
    _idle(stage, [pid for pair in pairs for pid in pair])
    for number in range(rounds):
        add("ls with all boxes live", timed(cloche("ls"), stage.subject, stage.env))
        begin = time.perf_counter()
        listed = engine.boxes()
        add("listing with all boxes live", time.perf_counter() - begin)
        if len(listed) < count:
            raise SystemExit(f"{len(listed)} of {count} boxes were listed")
        box = f"round-among-{number}"
        add("create and first command, all boxes live", made(engine, box, stage.streams))
        add("remove, all boxes live", removed(engine, box))
    engine.remove_many(boxes, force=True)


def _idle(stage: Stage, pids: list[int]) -> None:
    before, begin = processor_time(pids), time.perf_counter()
    time.sleep(IDLE)
    stage.sampler.add("idle boxes", (processor_time(pids) - before) / (time.perf_counter() - begin))
