"""Rows and views: quick, honest about keepers that are slow or dead, the same numbers everywhere."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from backends.boxes import liveness
from backends.boxes.layout import socket_path
from backends.engine import Engine, NewBox, Streams
from backends.snapshots import BoxRow, ProcessId
from backends.verbs import asking
from tests import support

NULL = os.open(os.devnull, os.O_RDWR)
QUIET = Streams(NULL, NULL, NULL)
BACKGROUND = "setsid sleep 300 >/dev/null 2>&1 </dev/null &"


@pytest.fixture
def engine(repo: Path) -> Iterator[Engine]:
    made = Engine(repo)
    yield made
    for row in made.boxes():
        keeper = liveness.read(made.find(row.key)).keeper
        if keeper is not None and liveness.alive(keeper):
            os.kill(keeper.pid, signal.SIGCONT)
        made.remove(row.key, force=True)


def run(engine: Engine, box: str, script: str) -> int:
    return engine.run(box, ["sh", "-c", script], streams=QUIET).exit


def stopped_keeper(engine: Engine, box: str) -> ProcessId:
    keeper = liveness.read(engine.find(box)).keeper
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGSTOP)
    return keeper


def test_a_slow_keeper_shows_as_such_and_delays_nobody(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        engine.create(NewBox(name=name))
        run(engine, name, BACKGROUND)
    for name in ("a", "b"):
        stopped_keeper(engine, name)
    monkeypatch.setattr(asking, "LIMIT", 4.0)
    began = time.monotonic()
    rows = {row.name: row for row in engine.boxes()}
    assert time.monotonic() - began < 2 * asking.LIMIT, "two slow keepers are waited for together"
    assert [rows[n].live for n in "abc"] == ["slow", "slow", "live"]
    assert rows["a"].needs == "its keeper does not answer"
    assert [rows[n].processes for n in "abc"] == [1, 1, 1], "processes are seen without the keeper"
    view = engine.view("a")
    assert view.row.live == "slow" and len(view.processes) == 1 and view.sessions


@pytest.mark.parametrize("look", [lambda engine: engine.boxes()[0], lambda engine: engine.view("a").row])
def test_a_box_that_ends_while_it_is_asked_is_neither_slow_nor_lost(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, look: Callable[[Engine], BoxRow]
) -> None:
    engine.create(NewBox(name="a"))
    run(engine, "a", BACKGROUND)

    def ended(boxes: Mapping[str, object], *_: object, **__: object) -> dict[str, asking.Answers]:
        Engine(engine.cwd).stop("a")
        return dict.fromkeys(boxes, asking.Answers("slow", {}))

    monkeypatch.setattr(asking, "ask", ended)
    row = look(engine)
    assert (row.live, row.needs) == ("", "")


def test_a_dead_keeper_shows_as_lost(engine: Engine) -> None:
    engine.create(NewBox(name="a"))
    run(engine, "a", BACKGROUND)
    keeper = liveness.read(engine.find("a")).keeper
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    support.wait_until(lambda: not liveness.alive(keeper), "the keeper died")
    assert engine.boxes()[0].live == "lost"
    assert engine.view("a").row.needs == "its keeper died"


def test_whoever_answers_nonsense_counts_as_slow(engine: Engine) -> None:
    engine.create(NewBox(name="a"))
    paths = engine.find("a")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(socket_path(paths)))
    listener.listen(8)

    def answer() -> None:
        for said in (b"nonsense\n", b'{"id":1,"ok":true', b"[]\n", b""):
            peer, _ = listener.accept()
            peer.recv(4096)
            peer.sendall(said)
            peer.close()

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(4):
        found = asking.ask({"k": paths}, [("stat", {})], limit=10.0)["k"]
        assert found.replies == {} and found.state != "live"
    thread.join()
    listener.close()
    assert asking.ask({"k": paths}, [("stat", {})], limit=10.0)["k"].state == "gone"
    socket_path(paths).unlink()


def test_a_row_counts_what_the_tally_counts(engine: Engine) -> None:
    engine.create(NewBox(name="a"))
    run(engine, "a", "for i in 1 2 3; do echo x > /usr/no; done 2>/dev/null; exit 4")
    support.wait_until(lambda: engine.tally("a").total == 3, "the refusals are journalled")
    (row,) = engine.boxes()
    assert row.denied == 3 and engine.view("a").tally.total == 3
    assert row.needs == "its last command failed (4)"
    engine.stop("a")
    fresh = Engine(engine.cwd)
    assert fresh.boxes()[0].denied == 3 == fresh.tally("a").total
    assert engine.boxes()[0].denied == 3, "read on, not anew"
    run(engine, "a", "echo x > /usr/no")
    engine.stop("a")
    assert engine.boxes()[0].denied == 4 == engine.view("a").tally.total


def test_a_command_that_ended_because_its_box_was_stopped_did_not_fail(engine: Engine) -> None:
    engine.create(NewBox(name="a"))
    done: list[int] = []
    begun = threading.Event()  # a session that the journal tells of may still be starting

    def go() -> None:
        argv = ["sleep", "300"]
        done.append(engine.run("a", argv, streams=QUIET, on_session=lambda _: begun.set()).exit)

    running = threading.Thread(target=go)
    running.start()
    assert begun.wait(60)
    engine.stop("a")
    running.join()
    assert done == [137]
    codes = [r.data["exit"] for r in engine.journal("a") if r.kind == "session-exit"]
    assert codes == [137]
    for seen in (engine, Engine(engine.cwd)):
        (row,) = seen.boxes()
        assert (row.state, row.needs) == ("idle", "")
    run(engine, "a", "exit 3")
    engine.stop("a")
    assert engine.boxes()[0].needs == "its last command failed (3)"


def test_the_tree_of_processes_has_sessions_depth_and_redacted_commands(engine: Engine) -> None:
    engine.create(NewBox(name="a"))
    script = "(sh -c 'sleep 301 & wait' --token=hunter2secret &) ; setsid sleep 302 & sleep 0.3"
    run(engine, "a", script + " >/dev/null 2>&1 </dev/null")
    support.wait_until(
        lambda: {"sleep 301", "sleep 302"} <= {row.command for row in engine.processes("a")}, "both sleep"
    )
    rows = engine.processes("a")
    by_command = {row.command: row for row in rows}
    sleeper = next(row for row in rows if row.command == "sleep 301")
    assert sleeper.depth == 1 and sleeper.parent is not None
    assert by_command["sleep 302"].session == 1 == sleeper.session, "also after leaving its parent"
    assert not any("hunter2" in row.command for row in rows)
    view = engine.view("a")
    assert {row.ident for row in view.processes} == {row.ident for row in rows}
    assert view.row.processes == len(rows) and view.row.rss == sum(row.rss for row in view.processes)


def test_cpu_is_measured_between_two_looks(engine: Engine) -> None:
    engine.create(NewBox(name="a"))
    run(engine, "a", "sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null &")
    assert engine.processes("a")[0].cpu == 0.0
    support.wait_until(lambda: engine.processes("a")[0].cpu > 10.0, "its work is measured", step=0.5)


def test_a_process_is_ended_by_identity_only(engine: Engine) -> None:
    from backends.errors import NoSuchBox

    engine.create(NewBox(name="a"))
    run(engine, "a", BACKGROUND)
    (row,) = engine.processes("a")
    with pytest.raises(NoSuchBox) as gone:
        engine.kill("a", row.ident._replace(start=row.ident.start + 1), signal.SIGKILL)
    assert gone.value.code == "no-such-process"
    own = ProcessId(os.getpid(), liveness.start_time(os.getpid()) or 0)
    with pytest.raises(NoSuchBox):
        engine.kill("a", own, signal.SIGKILL)
    engine.kill("a", row.ident, signal.SIGKILL)
    support.wait_until(lambda: engine.processes("a") == (), "it is gone")


def test_drift_is_counted_in_every_form_that_a_reference_has(engine: Engine, repo: Path) -> None:
    engine.create(NewBox(name="a"))
    assert engine.boxes()[0].drift == 0
    for number in (1, 2):
        support.git(repo, "commit", "-q", "--allow-empty", "-m", f"later {number}")
        assert engine.boxes()[0].drift == number
    support.git(repo, "pack-refs", "--all")
    assert engine.boxes()[0].drift == 2
    support.git(repo, "checkout", "-q", "--detach")
    support.git(repo, "branch", "-D", "main")
    assert engine.boxes()[0].drift is None, "not told is not zero"


def test_boxes_of_all_repositories_are_listed_from_anywhere(engine: Engine, repo: Path) -> None:
    engine.create(NewBox(name="a"))
    other = Engine(support.make_repo(repo.parent / "other"))
    other.create(NewBox(name="b"))
    other.create(NewBox(name="e", empty=True))
    assert [row.name for row in engine.boxes()] == ["a", "e"], "detached boxes belong to no repository"
    assert [row.name for row in other.boxes()] == ["b", "e"]
    assert [row.name for row in engine.boxes(everywhere=True)] == ["a", "b", "e"]
    outside = Engine(repo.parent)
    assert [row.name for row in outside.boxes()] == ["a", "b", "e"]
    assert outside.find("b") == other.find("b")
    for key in [row.key for row in other.boxes()]:
        outside.remove(key)


def test_a_box_tree_is_no_repository_to_stand_in(engine: Engine) -> None:
    """What a box made below its tree decides nothing for a person who looks around there."""
    engine.create(NewBox(name="a"))
    run(engine, "a", "mkdir -p evil && cd evil && git init -q . && git config core.fsmonitor /tmp/marker")
    assert Engine(engine.find("a").tree / "evil").repository_key is None


def test_the_live_diff_is_remembered_for_the_list(engine: Engine) -> None:
    engine.create(NewBox(name="a"))
    run(engine, "a", "echo x > x")
    assert engine.boxes()[0].stat is None
    diff = engine.snapshot_diff("a")
    assert [change.path for change in diff.changes] == [b"x"]
    stat = engine.boxes()[0].stat
    assert stat is not None and (stat.files, stat.added) == (1, 1)


def test_a_box_is_frozen_while_its_live_diff_is_read(engine: Engine) -> None:
    engine.create(NewBox(name="a"))
    run(
        engine,
        "a",
        "sh -c 'i=0; while :; do i=$((i+1)); echo $i > x; echo $i > y; done' >/dev/null 2>&1 </dev/null &",
    )
    diff = engine.snapshot_diff("a")
    assert {change.path for change in diff.changes} <= {b"x", b"y"}
    (row,) = engine.processes("a")
    support.wait_until(lambda: engine.processes("a")[0].state in "RS", "it goes on afterwards")
    engine.kill("a", row.ident, signal.SIGKILL)


def test_a_command_waits_while_the_box_is_read_instead_of_failing(engine: Engine) -> None:
    from backends.keeper import client

    engine.create(NewBox(name="a"))
    run(engine, "a", "true")
    with client.connect(engine.find("a")) as reader:
        reader.call("freeze")
        done: list[int] = []
        thread = threading.Thread(target=lambda: done.append(run(engine, "a", "exit 3")))
        thread.start()
        time.sleep(0.5)
        assert done == []
    thread.join(60)
    assert done == [3]


def test_a_hundred_boxes_that_are_not_live_are_listed_without_asking_anybody(
    engine: Engine, repo: Path
) -> None:
    from backends.boxes import manifest
    from backends.boxes.layout import BoxPaths

    engine.create(NewBox(name="first"))
    known = manifest.load(engine.find("first"))
    for number in range(100):
        paths = BoxPaths(engine.find("first").root.with_name(f"n{number}"))
        paths.root.mkdir(mode=0o700)
        manifest.save(paths, known._replace(name=paths.name))
    began = time.monotonic()
    rows = engine.boxes()
    assert len(rows) == 101 and time.monotonic() - began < 101 * asking.LIMIT
    for number in range(100):
        import shutil

        shutil.rmtree(engine.find("first").root.with_name(f"n{number}"))
