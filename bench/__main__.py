"""Run every measure in turn, several rounds, save the samples, and print one table."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench import document, fleet, livediff, many, relay, repository, results, rows, table, tiers, viewer
from bench.acts import (
    Stage,
    command_line,
    evidence,
    first_of_size,
    host_truth,
    made,
    one_command,
    running_engine,
    sizes,
)
from bench.measure import cloche, takes_command, timed
from bench.peers import Peers
from bench.place import SOURCE, place
from bench.results import Results, Sampler

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PEERS = RESULTS / "peers"
FIRST_CHANGE = 1 << 20  # beyond the numbers of all rounds
PROCESSES = 40  # in each box, beside a workbench
WORKTREES = 3  # of the large repository: each takes seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="samples of each measure (default: 15)")
    parser.add_argument("--scale", type=int, default=50, help="live boxes of the scale rows, 0 for none")
    parser.add_argument("--large", type=int, default=repository.LARGE, help="files of the large repository")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=tuple(PARTS), help="parts to run")
    parser.add_argument("--no-install", action="store_true", help="fetch no peer from PyPI or npm")
    parser.add_argument(
        "--write-docs", type=Path, metavar="RESULT", help="fill docs/performance.md, run nothing"
    )
    options = parser.parse_args()
    if options.write_docs:
        document.write(HERE.parent / "docs" / "performance.md", results.load(options.write_docs))
        return 0
    done = measure(options)
    saved = results.save(RESULTS, done)
    print(table.headline(done.facts))
    print("\n".join(table.lines(rows.ROWS, done)))
    print(f"\nraw samples: {saved}")
    return 0


def measure(options: argparse.Namespace) -> Results:
    """One run in a state of its own, which is gone afterwards."""
    with place() as (work, env):
        subject = prepare(work)
        sampler = Sampler(rows.NAMES)
        with (
            closing(Peers(PEERS, work, install=not options.no_install)) as peers,
            open(os.devnull, "r+b") as null,
        ):
            for name, reason in peers.absent.items():
                sampler.miss(name, reason)
            facts = results.facts(subject.text, work, peers.versions)
            run(Stage(work, subject.path, work / "moving", env, sampler, peers, null.fileno()), options)
    return sampler.results({**facts, "rounds": options.rounds, "load_after": os.getloadavg()[0]})


def prepare(work: Path) -> repository.Subject:
    """The repository that is measured on, and a copy that will get more commits."""
    SOURCE.mkdir(parents=True, exist_ok=True)
    subject = repository.subject(SOURCE, work)
    repository.git(work, "clone", "-q", "--no-hardlinks", str(subject.path), str(work / "moving"))
    return subject


def run(stage: Stage, options: argparse.Namespace) -> None:
    """Every part that is wanted; rows that nothing measured are told why."""
    say("first boxes")
    warm(stage)
    for name, part in PARTS.items():
        if name in options.only:
            say(name)
            part(stage, options)
    for row in rows.ROWS:
        if not stage.sampler.samples[row.name] and row.name not in stage.sampler.absent:
            stage.sampler.miss(row.name, table.LEFT_OUT)


def say(part: str) -> None:
    """On standard error, so that whoever waits some minutes knows for what."""
    print(f"{time.strftime('%H:%M:%S')} {part}", file=sys.stderr, flush=True)


def command_lines(stage: Stage, options: argparse.Namespace) -> None:
    known = takes_command(stage.env)
    if not known:
        for name in (rows.ONE, rows.ONE_ALONE, rows.ONE_AHEAD):
            stage.sampler.miss(name, "this version's new takes no command")
    in_rounds(options.rounds, command_line, host_truth, *([one_command] if known else []), stage=stage)


def engine(stage: Stage, options: argparse.Namespace) -> None:
    in_rounds(options.rounds, running_engine, evidence, stage=stage)


def every_tier(stage: Stage, options: argparse.Namespace) -> None:
    tiers.measure(stage, min(options.rounds, 5))


def memory(stage: Stage, options: argparse.Namespace) -> None:
    many.one(stage, min(options.rounds, 3))


def two_sizes(stage: Stage, options: argparse.Namespace) -> None:
    small = repository.generated(stage.work / "small", repository.GENERATED).path
    large = repository.generated(stage.work / "large", options.large).path
    first_of_size(stage, small, large, min(options.rounds, WORKTREES))
    in_rounds(options.rounds, lambda stage, number: sizes(stage, small, large, number), stage=stage)


def scale(stage: Stage, options: argparse.Namespace) -> None:
    if options.scale > 0:
        many.many(stage, options.scale, options.rounds)


def beside(stage: Stage, options: argparse.Namespace) -> None:
    """A workbench that shows many live boxes, each with processes that sleep."""
    if options.scale <= 0:
        return
    if lacking := many.lacking(options.scale):
        for name in many.BY_FLEET:
            stage.sampler.miss(name, lacking)
        return
    found = fleet.measure(options.scale, PROCESSES)
    stage.sampler.add(rows.BESIDE, found.processor)
    stage.sampler.add(rows.KEY, *found.keys)
    stage.sampler.add(rows.LISTED, *found.listings)


def changes(stage: Stage, options: argparse.Namespace) -> None:
    """Writes in a box until a workbench shows them."""
    found = livediff.measure(options.rounds)
    stage.sampler.add(rows.DRAWN, *found.seconds)
    stage.sampler.add(rows.WATCHING, found.idle)


def reviewing(stage: Stage, options: argparse.Namespace) -> None:
    """A large diff in the review's viewer; one round there has many samples."""
    viewer.add(stage.sampler, stage.peers.versions, min(options.rounds, 5))


def through_relay(stage: Stage, options: argparse.Namespace) -> None:
    """Transfers and first bytes with the relay between and without."""
    found = relay.sample(options.rounds)
    for name, values in (*found.throughput.items(), *found.latency.items()):
        stage.sampler.add(name, *values)
    pairs = zip(found.latency[relay.FIRST_RELAYED], found.latency[relay.FIRST_DIRECT], strict=True)
    stage.sampler.add(rows.ADDED, *(relayed - direct for relayed, direct in pairs))


PARTS: dict[str, Callable[[Stage, argparse.Namespace], None]] = {
    "command-line": command_lines,
    "engine": engine,
    "tiers": every_tier,
    "memory": memory,
    "sizes": two_sizes,
    "scale": scale,
    "fleet": beside,
    "livediff": changes,
    "review": reviewing,
    "relay": through_relay,
}


def in_rounds(rounds: int, *acts: Callable[[Stage, int], None], stage: Stage) -> None:
    for number in range(rounds):
        for act in acts:
            act(stage, number)


def warm(stage: Stage) -> None:
    """The first boxes of both repositories, which stay: what they share is written by then. Each has a base
    of its own, or the one's files would lie in a layer that belongs to the other.
    """
    from backends.engine import Engine

    stage.sampler.add("new, first box of a base", timed(cloche("new", "kept"), stage.subject, stage.env))
    repository.ahead(stage.moving, FIRST_CHANGE)
    made(Engine(stage.moving), "kept", stage.streams)


if __name__ == "__main__":
    raise SystemExit(main())
