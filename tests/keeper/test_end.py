"""How boxes end: stop, limits, a keeper that dies, an init that dies; nothing survives."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from backends.boxes import liveness, manifest, store
from backends.boxes.layout import BoxPaths
from backends.errors import Busy
from backends.evidence import journal
from backends.keeper import census, client
from backends.snapshots import ProcessId
from tests.conftest import Home
from tests.keeper import boxes
from tests.keeper.boxes import Running, run, sh
from tests.support import mounts_below, wait_until

# A double fork into a new session, one that ignores every polite signal, and a background job.
STUBBORN = (
    "(setsid sh -c 'trap \"\" TERM HUP INT; sleep 300 & sleep 300' > /dev/null 2>&1 &) ; "
    "trap '' TERM HUP INT; sleep 300 & echo up; sleep 300; sleep 300"
)
FORKING = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.environ.clear()
        time.sleep(300)
print("up", flush=True)
time.sleep(300)
"""


def tree(keeper: client.KeeperClient) -> list[ProcessId]:
    init = keeper.call("hello")["init"]["pid"]
    return [one.ident for one in census.take(init).processes.values()]


def survivors(known: list[ProcessId]) -> list[ProcessId]:
    return [one for one in known if liveness.alive(one)]


def keeper_of(paths: BoxPaths) -> ProcessId:
    found = liveness.read(paths).keeper
    assert found is not None
    return found


def init_of(paths: BoxPaths) -> ProcessId:
    found = liveness.read(paths).init
    assert found is not None
    return found


@pytest.mark.boundary
def test_stop_leaves_no_survivor_of_double_forks_and_new_sessions(box: BoxPaths) -> None:
    with boxes.started(box) as keeper:
        Running(keeper, ["/bin/sh", "-c", STUBBORN]).read(b"up\n")
        Running(keeper, ["/usr/bin/python3", "-c", FORKING]).read(b"up\n")
        wait_until(lambda: len(tree(keeper)) >= 9, "all of them run")
        known = tree(keeper)
        keeper.call("stop", why="test", who="somebody")
        with store.lock(box, "test"):
            assert survivors(known) == []
    assert not liveness.alive(init_of(box))
    assert manifest.load(box).state == "idle"
    assert boxes.records(box, "stop") == [{"who": "somebody", "why": "test"}]
    assert not Path(liveness.read(box).facts["socket"]).exists()
    exits = boxes.records(box, "session-exit")
    assert [one["exit"] for one in exits] == [137, 137]


@pytest.mark.boundary
def test_a_killed_keeper_takes_its_box_along_at_once(home: Home, box: BoxPaths) -> None:
    keeper = client.start(box)
    Running(keeper, ["/bin/sh", "-c", STUBBORN]).read(b"up\n")
    known = [*tree(keeper), init_of(box)]
    before = sorted(path.name for path in box.tree.iterdir())
    owner = keeper_of(box)
    os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: survivors(known) == [], "the whole tree is gone", timeout=20)  # they sleep for 300 s
    keeper.close()
    assert liveness.wait_gone(owner, 60)  # its files were closed before it was gone
    assert sorted(path.name for path in box.tree.iterdir()) == before
    assert list(box.mount.iterdir()) == []
    assert mounts_below(box.root) == []
    assert liveness.read(box).kind == "lost"


def test_a_box_whose_keeper_died_starts_again_and_says_so(box: BoxPaths) -> None:
    keeper = client.start(box)
    Running(keeper, ["sleep", "60"])
    dead = keeper_of(box)
    os.kill(dead.pid, signal.SIGKILL)
    keeper.close()
    wait_until(lambda: not liveness.alive(dead), "the keeper is gone")
    with boxes.started(box) as again:
        assert sh(again, "echo back").out == b"back\n"
        assert keeper_of(box) != dead
    assert len(boxes.records(box, "keeper-lost")) == 1
    moves = [(one["from"], one["to"]) for one in boxes.records(box, "transition")]
    assert moves == [("created", "running"), ("running", "idle")] * 1 + [
        ("idle", "running"),
        ("running", "idle"),
    ]
    found = journal.verify(box.journal)
    assert found.problems == ()


def test_the_box_ends_when_its_init_is_killed(box: BoxPaths) -> None:
    with boxes.started(box) as keeper:
        running = Running(keeper, ["sleep", "60"])
        owner = keeper_of(box)
        if os.geteuid() == 0:
            os.kill(init_of(box).pid, signal.SIGKILL)
        else:
            assert liveness.end(init_of(box))
        assert running.finish().exit == 137
        assert liveness.wait_gone(owner, 60)
    assert liveness.read(box).facts["why"] == "init ended"
    assert manifest.load(box).state == "idle"


def test_sigterm_ends_keeper_and_box_in_order(box: BoxPaths) -> None:
    keeper = client.start(box)
    Running(keeper, ["/bin/sh", "-c", STUBBORN]).read(b"up\n")
    known = tree(keeper)
    owner = keeper_of(box)
    os.kill(owner.pid, signal.SIGTERM)
    assert liveness.wait_gone(owner, 60)
    assert survivors(known) == []
    assert "ended" in liveness.read(box).facts
    assert boxes.records(box, "stop")[0]["why"] == "SIGTERM"
    keeper.close()


def test_the_keeper_leaves_some_time_after_the_last_process(
    home: Home, monkeypatch: pytest.MonkeyPatch, box: BoxPaths
) -> None:
    monkeypatch.setenv("CLOCHE_LINGER", "2")
    keeper = client.start(box)
    sh(keeper, "(until [ -e /work/over ]; do sleep 0.05; done &) ; exit 0")
    owner = keeper_of(box)
    time.sleep(2.5)
    assert liveness.alive(owner), "a background process keeps the box alive"
    (box.tree / "over").touch()
    assert liveness.wait_gone(owner, 60)
    assert liveness.read(box).facts["why"] == "nothing ran for a while"
    keeper.close()


def test_wall_limit_gives_124_and_kills_what_the_session_left(home: Home) -> None:
    paths = boxes.make(policy=boxes.limited(wall=5))
    with boxes.started(paths) as keeper:
        running = Running(keeper, ["/bin/sh", "-c", STUBBORN])
        running.read(b"up\n")
        wait_until(lambda: len(tree(keeper)) >= 5, "all of them run")
        known = tree(keeper)
        assert running.finish().exit == 124
        wait_until(lambda: survivors(known) == [], "the session's processes are gone")
        assert sh(keeper, "echo the box lives").out == b"the box lives\n"
        rows = keeper.call("tally")["rows"]
        assert [(one["kind"], one["rule"], one["count"]) for one in rows] == [
            ("limit", "resources.wall = 5 s", 1)
        ]
    assert boxes.records(paths, "session-exit")[0]["exit"] == 124


def test_wall_limit_spares_the_other_sessions(home: Home) -> None:
    paths = boxes.make(policy=boxes.limited(wall=8))
    with boxes.started(paths) as keeper:
        early = Running(keeper, ["/bin/sh", "-c", "(setsid sleep 60 &) ; echo up; sleep 60"])
        early.read(b"up\n")
        wait_until(lambda: len(tree(keeper)) == 3, "both sleep")
        known = tree(keeper)
        time.sleep(4)  # so much later the limit reaches the other one
        script = "(sleep 60 > /dev/null 2>&1 &) ; echo up; read line; echo fine"
        late = Running(keeper, ["/bin/sh", "-c", script])
        late.read(b"up\n")
        spared = [one for one in tree(keeper) if one not in known]
        assert early.finish().exit == 124
        assert survivors(spared) == spared
        assert late.finish(b"\n").out == b"fine\n"
        assert len(spared) == 2 and len(survivors(spared)) == 1, "its daemon is left"
        wait_until(lambda: survivors(known) == [], "nothing of the early one is left")


def test_wall_limit_reaches_a_daemon_whose_session_ended(home: Home) -> None:
    paths = boxes.make(policy=boxes.limited(wall=4))
    with boxes.started(paths) as keeper:
        assert sh(keeper, "(setsid sleep 60 > /dev/null 2>&1 &) ; exit 0").exit == 0
        assert len(tree(keeper)) == 1
        wait_until(lambda: tree(keeper) == [], "the daemon is ended")


def test_a_process_that_hides_its_session_ends_with_the_limit_of_any(home: Home) -> None:
    paths = boxes.make(policy=boxes.limited(wall=4))
    with boxes.started(paths) as keeper:
        hidden = "import ctypes,os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
        hidden += "os.execve('/bin/sleep', ['sleep', '60'], {})\n"
        running = Running(keeper, ["/usr/bin/python3", "-c", hidden])
        running.finish()
        wait_until(lambda: len(tree(keeper)) == 1, "the hidden one runs")
        assert run(keeper, "sleep", "60").exit == 124
        wait_until(lambda: tree(keeper) == [], "it is ended too")


@pytest.mark.parametrize("said", ["77", "2", "1"])
def test_a_process_that_names_another_session_ends_with_its_own(home: Home, said: str) -> None:
    """Only who proves to belong elsewhere is spared; what a process says of itself is no proof."""
    paths = boxes.make(policy=boxes.limited(wall=8))
    with boxes.started(paths) as keeper:
        liar = f"(setsid env CLOCHE_SESSION={said} sleep 60 > /dev/null 2>&1 &); echo up; sleep 60"
        first = Running(keeper, ["/bin/sh", "-c", liar])
        first.read(b"up\n")
        wait_until(lambda: len(tree(keeper)) == 3, "both sleep")
        known = tree(keeper)
        shown = {one["session"] for one in keeper.call("processes")["processes"]}
        time.sleep(4)  # so much later the limit reaches the other one
        other = Running(keeper, ["/bin/sh", "-c", "sleep 60 & echo up; read line; echo fine"])
        other.read(b"up\n")
        spared = [one for one in tree(keeper) if one not in known]
        assert shown <= {1, None}
        assert first.finish().exit == 124
        assert len(spared) == 2 and survivors(spared) == spared, "the other session goes on"
        assert other.finish(b"\n").out == b"fine\n"
        wait_until(lambda: survivors(known) == [], "nothing of the first one is left")


def test_memory_beyond_the_sum_ends_the_largest_process(home: Home) -> None:
    paths = boxes.make(policy=boxes.limited(mem=200 << 20))
    eater = "import time\nblock = bytearray(60 << 20)\nprint('ate', flush=True)\ntime.sleep(60)\n"
    with boxes.started(paths) as keeper:
        running = [Running(keeper, ["/usr/bin/python3", "-c", eater]) for _ in range(5)]
        wait_until(lambda: keeper.call("stat")["denied"] > 0, "the limit was hit")
        wait_until(lambda: len(tree(keeper)) <= 3, "what was too much is ended")
        assert len(tree(keeper)) >= 2
        rows = keeper.call("tally")["rows"]
        assert {(one["kind"], one["rule"].split(" ")[0]) for one in rows} == {("limit", "resources.mem")}
        for one in running:
            one.drop()


def test_growth_beyond_the_disk_limit_ends_what_writes(home: Home) -> None:
    paths = boxes.make(policy=boxes.limited(disk=20 << 20))
    (paths.home / "before").write_bytes(b"x" * (30 << 20))
    with boxes.started(paths) as keeper:
        assert sh(keeper, "head -c 5000000 /dev/zero > /work/small; sleep 1.5").exit == 0
        ran = sh(keeper, "while :; do head -c 10000000 /dev/zero >> /work/big; sleep 0.1; done")
        assert ran.exit == 137
        assert (paths.tree / "big").stat().st_size < 400 << 20
        rows = keeper.call("tally")["rows"]
        assert ("limit", "disk") in {(one["kind"], one["object"]) for one in rows}
    for path in (paths.tree / "big", paths.home / "before"):
        path.unlink()


@pytest.mark.parametrize("way", ["cd /work/.git", "mkdir /work/d; cd /work/d; chmod 300 ."])
def test_the_disk_limit_counts_what_is_hidden_in_the_repository_or_a_closed_folder(
    home: Home, way: str
) -> None:
    paths = boxes.make(policy=boxes.limited(disk=20 << 20))
    paths.repo.mkdir(mode=0o700)
    status = paths.tree.stat()
    os.chown(paths.repo, status.st_uid, status.st_gid)
    with boxes.started(paths) as keeper:
        ran = sh(keeper, f"{way}; for n in $(seq 30); do head -c 10000000 /dev/zero >> big; sleep 1; done")
        assert ran.exit == 137
        rows = keeper.call("tally")["rows"]
        assert ("limit", "disk") in {(one["kind"], one["object"]) for one in rows}
    for path in (*paths.repo.glob("big"), *paths.tree.glob("d")):
        if path.is_dir():
            path.chmod(0o700)
            (path / "big").unlink()
        else:
            path.unlink()


def test_the_disk_limit_counts_the_journal_that_a_box_makes_grow(home: Home) -> None:
    """Each exec is a record with its words: a loop of them fills a disk like any file."""
    with boxes.started(boxes.make(policy=boxes.limited(disk=1 << 20))) as keeper:
        ran = sh(keeper, f"while :; do /bin/true {'x' * 3000}; done")
        assert ran.exit == 137
        rows = keeper.call("tally")["rows"]
        assert ("limit", "disk") in {(one["kind"], one["object"]) for one in rows}


def test_a_frozen_box_stands_still_and_goes_on_when_the_connection_ends(box: BoxPaths) -> None:
    with boxes.started(box) as keeper:
        running = Running(keeper, ["/bin/sh", "-c", "while :; do echo x >> /work/grows; sleep 0.01; done"])
        grows = box.tree / "grows"
        wait_until(lambda: grows.exists() and grows.stat().st_size > 4, "it writes")
        with client.connect(box) as other:
            assert other.call("freeze")["count"] >= 1
            size = grows.stat().st_size
            time.sleep(0.3)
            assert grows.stat().st_size == size
        wait_until(lambda: grows.stat().st_size > size, "it writes again")
        running.drop()


def test_freezing_is_counted_by_connection(box: BoxPaths) -> None:
    with boxes.started(box) as keeper:
        running = Running(keeper, ["/bin/sh", "-c", "while :; do echo x >> /work/grows; sleep 0.01; done"])
        grows = box.tree / "grows"
        wait_until(grows.exists, "it writes")
        with client.connect(box) as first, client.connect(box) as second:
            for one in (first, first, second):
                assert one.call("freeze")["count"] >= 1
            with pytest.raises(Busy) as refusal:
                sh(keeper, "true")
            assert refusal.value.code == "frozen"
            first.call("thaw")
            size = grows.stat().st_size
            time.sleep(0.2)
            assert grows.stat().st_size == size, "the second still holds it"
            second.call("thaw")
            wait_until(lambda: grows.stat().st_size > size, "it writes again")
        running.drop()


def test_stop_ends_a_frozen_box(box: BoxPaths) -> None:
    with boxes.started(box) as keeper:
        Running(keeper, ["sleep", "60"])
        known = tree(keeper)
        with client.connect(box) as other:
            other.call("freeze")
            keeper.call("stop")
        assert survivors(known) == []


def test_stop_does_not_wait_for_a_client_that_reads_nothing(box: BoxPaths) -> None:
    with boxes.started(box) as keeper:
        running = Running(keeper, ["yes"])
        time.sleep(0.3)
        began = time.monotonic()
        with client.connect(box) as other:
            other.call("stop")
        assert time.monotonic() - began < 30  # it never reads
        running.drop()


def test_workspace_leaves_no_survivor_either(home: Home) -> None:
    paths = boxes.make(policy=boxes.POLICY._replace(tier="workspace"))
    with boxes.started(paths) as keeper:
        Running(keeper, ["/bin/sh", "-c", STUBBORN]).read(b"up\n")
        Running(keeper, ["/usr/bin/python3", "-c", FORKING]).read(b"up\n")
        wait_until(lambda: len(tree(keeper)) >= 8, "all of them run")
        known = tree(keeper)
        keeper.call("stop")
        assert survivors(known) == []


def test_workspace_follows_a_killed_keeper(home: Home) -> None:
    paths = boxes.make(policy=boxes.POLICY._replace(tier="workspace"))
    keeper = client.start(paths)
    Running(keeper, ["/bin/sh", "-c", STUBBORN]).read(b"up\n")
    known = [*tree(keeper), init_of(paths)]
    os.kill(keeper_of(paths).pid, signal.SIGKILL)
    keeper.close()
    wait_until(lambda: survivors(known) == [], "the whole tree is gone")
