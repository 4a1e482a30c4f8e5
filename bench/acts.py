"""The acts that are timed, one round of each part at a time, so that a busy moment falls on all of them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from backends.engine import Engine, NewBox, Streams
from backends.keeper import client
from bench import rows
from bench.measure import allocated, cloche, painted, spawned, timed
from bench.peer import TRUE
from bench.peers import Peers
from bench.repository import ahead
from bench.results import Sampler

ROUND = "round"  # begins the name of every box of a round
RECORDS = 20  # journal records of one round


class Stage(NamedTuple):
    """Where the acts take place. ``env`` is also this process's environment."""

    work: Path
    subject: Path  # the repository that most rows are about
    moving: Path  # a copy of it, which gets one more commit before each box
    env: dict[str, str]
    sampler: Sampler
    peers: Peers
    null: int  # an open /dev/null

    @property
    def streams(self) -> Streams:
        return Streams(self.null, self.null, self.null)


def command_line(stage: Stage, number: int) -> None:
    """What a person's shell runs, each act a process of its own."""
    add, env, repo = stage.sampler.add, stage.env, stage.subject
    box, tree = f"{ROUND}-{number}", stage.work / f"tree-{number}"
    new = timed(cloche("new", box), repo, env)
    add("disk of a new box", allocated(Engine(repo).find(box).root))
    first = timed(cloche("run", box, "--", "true"), repo, env)
    add("new", new)
    add("run true, first command", first)
    add("new, then run true", new + first)
    add("disk of a box that ran true", allocated(Engine(repo).find(box).root))
    add("run true", timed(cloche("run", box, "--", "true"), repo, env))
    add(rows.WORKTREE, timed(["git", "worktree", "add", "-q", "--detach", str(tree)], repo, env))
    add("git worktree remove", timed(["git", "worktree", "remove", "--force", str(tree)], repo, env))
    add("ls", timed(cloche("ls"), repo, env))
    add("python -c pass", timed([sys.executable, "-c", "pass"], repo, env))
    add("first paint of the workbench", painted(cloche(), repo, env, box.encode()))
    add("import textual.app", timed([sys.executable, "-c", "import textual.app"], repo, env))
    add("rm", timed(cloche("rm", "--force", box), repo, env))


def one_command(stage: Stage, number: int) -> None:
    """``cloche new NAME -- true``: of a known base, of a new one, and where nothing of Cloche runs yet."""
    add, env = stage.sampler.add, stage.env
    box = f"{ROUND}-one-{number}"
    add(rows.ONE, timed(cloche("new", box, "--", "true"), stage.subject, env))
    timed(cloche("rm", "--force", box), stage.subject, env)
    with _nothing_running(stage, number) as alone:
        add(rows.ONE_ALONE, timed(cloche("new", box, "--", "true"), stage.subject, alone))
        timed(cloche("rm", "--force", box), stage.subject, alone)
    ahead(stage.moving, 2 * number)
    add(rows.ONE_AHEAD, timed(cloche("new", box, "--", "true"), stage.moving, env))
    timed(cloche("rm", "--force", box), stage.moving, env)


def host_truth(stage: Stage, number: int) -> None:
    """What the host can enforce: tried now, then told once more."""
    del number
    stage.sampler.add(rows.PROBED, timed(cloche("probe", "--fresh"), stage.subject, stage.env))
    stage.sampler.add(rows.PROBED_BEFORE, timed(cloche("probe"), stage.subject, stage.env))


@contextmanager
def _nothing_running(stage: Stage, number: int) -> Iterator[dict[str, str]]:
    """An environment in which no zygote is found; the one that is made ends when its folder goes."""
    folder = stage.work / f"run-{number}"
    folder.mkdir(mode=0o700)
    yield {**stage.env, "XDG_RUNTIME_DIR": str(folder)}
    shutil.rmtree(folder)


def running_engine(stage: Stage, number: int) -> None:
    """What the workbench does, in this process; then commands in the live box, in turn with the peers'."""
    add = stage.sampler.add
    engine = Engine(stage.subject)
    box = f"{ROUND}-engine-{number}"
    add(rows.LIVE, made(engine, box, stage.streams))
    commands(stage, engine, box)
    add("remove from a running engine", removed(engine, box))
    ahead(stage.moving, 2 * number + 1)
    moving = Engine(stage.moving)
    add(rows.LIVE_AHEAD, made(moving, box, stage.streams))
    moving.remove(box, force=True)


def commands(stage: Stage, engine: Engine, box: str) -> None:
    """Second commands of a live box and of the peers."""
    add = stage.sampler.add
    begin = time.perf_counter()
    engine.run(box, [TRUE], stage.env, stage.streams)
    add("true from a running engine", time.perf_counter() - begin)
    with client.connect(engine.find(box)) as keeper:
        begin = time.perf_counter()
        fds = (stage.null, stage.null, stage.null)
        reply = keeper.call("run", fds, argv=[TRUE], env=stage.env, cwd="")
        keeper.wait_event("exit", session=reply["session"])
        add("true over an open connection", time.perf_counter() - begin)
    add("exec true", spawned([TRUE]))
    for name, seconds in stage.peers.once().items():
        add(name, seconds)


def made(engine: Engine, name: str, streams: Streams, command: str = TRUE) -> float:
    """Seconds of making a box and running one command in it. ``SystemExit`` when the command fails."""
    begin = time.perf_counter()
    engine.create(NewBox(name=name))
    result = engine.run(name, [command], streams=streams)
    spent = time.perf_counter() - begin
    if result.exit != 0:
        raise SystemExit(f"{command} ended with {result.exit} in box {name}")
    return spent


def removed(engine: Engine, name: str) -> float:
    """Seconds of removing a box whose keeper lingers."""
    begin = time.perf_counter()
    engine.remove(name, force=True)
    return time.perf_counter() - begin


def sizes(stage: Stage, small: Path, large: Path, number: int) -> None:
    """Boxes of a repository and of one ten times as large."""
    for repo, name in ((small, rows.LIVE_5), (large, rows.LIVE_50)):
        engine = Engine(repo)
        box = f"{ROUND}-size-{number}"
        stage.sampler.add(name, made(engine, box, stage.streams))
        engine.remove(box, force=True)


def first_of_size(stage: Stage, small: Path, large: Path, worktrees: int) -> None:
    """The first box of each base, which writes its files once; worktrees of the larger one."""
    add = stage.sampler.add
    for repo, name in ((small, ""), (large, rows.FIRST_50)):
        engine = Engine(repo)
        spent = made(engine, "kept-first", stage.streams)  # a base that no box names may be forgotten
        if name:
            add(name, spent)
    for number in range(worktrees):
        tree = stage.work / f"large-{number}"
        argv = ["git", "worktree", "add", "-q", "--detach", str(tree)]
        add(rows.WORKTREE_50, timed(argv, large, stage.env))
        timed(["git", "worktree", "remove", "--force", str(tree)], large, stage.env)


def evidence(stage: Stage, number: int) -> None:
    """Journal records beside plain appends of as many bytes."""
    from backends.evidence.journal import Journal

    add = stage.sampler.add
    path, plain = stage.work / f"journal-{number}.jsonl", stage.work / f"plain-{number}"
    journal = Journal(path)
    data = {"pid": 4711, "inside": 17, "status": 0, "cpu": 0.002021, "peak_rss": 8388608}
    journal.append("exit", data)
    size = path.stat().st_size
    for sync, record, append in (
        (False, "journal record", "append of as many bytes"),
        (True, "journal record, on disk", "append with fsync"),
    ):
        for _ in range(RECORDS):
            begin = time.perf_counter()
            journal.append("exit", data, sync=sync)
            middle = time.perf_counter()
            fd = os.open(plain, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.write(fd, b"x" * size)
            if sync:
                os.fsync(fd)
            os.close(fd)
            end = time.perf_counter()
            add(record, middle - begin)
            add(append, end - middle)
    path.unlink()
    plain.unlink()
