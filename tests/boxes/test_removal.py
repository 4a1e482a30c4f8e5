"""Giving up and removing boxes: live ones are refused, locks count, nothing outside is touched."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from unittest import mock

import pytest

from backends import tiers
from backends.boxes import liveness, manifest, store
from backends.boxes.layout import cache_dir, runtime_dir, state_dir
from backends.engine import Engine, NewBox, Streams
from backends.errors import Busy, ClocheError, NoSuchBox, Refused
from backends.evidence import journal
from backends.host import probes
from backends.verbs import sessions
from tests import support
from tests.conftest import Home

NULL = os.open(os.devnull, os.O_RDWR)
QUIET = Streams(NULL, NULL, NULL)
BACKGROUND = "setsid sleep 300 >/dev/null 2>&1 </dev/null &"


@pytest.fixture
def engine(repo: Path) -> Engine:
    return Engine(repo)


def run(engine: Engine, box: str, script: str) -> int:
    return engine.run(box, ["sh", "-c", script], streams=QUIET).exit


def test_a_live_box_is_not_removed_and_force_ends_it_first(engine: Engine, repo: Path) -> None:
    engine.create(NewBox(name="b"))
    run(engine, "b", BACKGROUND)
    live = liveness.read(engine.find("b"))
    with pytest.raises(Busy) as busy:
        engine.remove("b")
    assert busy.value.code == "live" and "cloche stop b" in busy.value.next_step
    assert liveness.alive(live.init)
    engine.remove("b", force=True)
    assert not liveness.alive(live.init) and not liveness.alive(live.keeper)
    assert engine.boxes() == ()


def test_a_box_whose_keeper_only_lingers_is_removed(engine: Engine) -> None:
    engine.create(NewBox(name="b"))
    run(engine, "b", "true")
    assert liveness.read(engine.find("b")).kind == "live"
    engine.remove("b")
    assert engine.boxes() == ()


@pytest.mark.parametrize("force", [False, True])
def test_the_lock_of_another_operation_counts_also_with_force(engine: Engine, force: bool) -> None:
    engine.create(NewBox(name="b"))
    paths = engine.find("b")
    with store.lock(paths, "export"):
        with pytest.raises(Busy) as busy:
            engine.remove("b", force=force)
        assert "export" in busy.value.why
    assert paths.manifest.exists()
    engine.remove("b", force=force)


def test_a_keeper_that_hangs_is_ended_by_force(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "STOP_LIMIT", 1.0)
    engine.create(NewBox(name="b"))
    run(engine, "b", BACKGROUND)
    live = liveness.read(engine.find("b"))
    assert live.keeper is not None
    os.kill(live.keeper.pid, signal.SIGSTOP)
    engine.remove("b", force=True)
    assert not liveness.alive(live.keeper) and not liveness.alive(live.init)


def test_stop_ends_a_box_whose_keeper_hangs(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "STOP_LIMIT", 1.0)
    engine.create(NewBox(name="b"))
    run(engine, "b", BACKGROUND)
    paths = engine.find("b")
    live = liveness.read(paths)
    assert live.keeper is not None
    os.kill(live.keeper.pid, signal.SIGSTOP)
    assert engine.stop("b") is True
    assert not liveness.alive(live.keeper) and not liveness.alive(live.init)
    assert manifest.load(paths).state == "idle"


def test_several_are_removed_and_one_that_fails_keeps_none_of_the_others(engine: Engine) -> None:
    for name in ("a", "b", "c"):
        engine.create(NewBox(name=name))
    run(engine, "b", BACKGROUND)
    outcomes = engine.remove_many(["a", "b", "gone", "c"])
    assert [o.removed for o in outcomes] == [True, False, False, True]
    assert [o.error and o.error["exit"] for o in outcomes] == [None, 5, 4, None]
    assert [row.name for row in engine.boxes()] == ["b"]
    engine.stop("b")


def test_removal_leaves_no_trace_in_the_source(engine: Engine, repo: Path) -> None:
    before = support.git(repo, "for-each-ref"), support.git(repo, "worktree", "list")
    for tier in ("process", "workspace"):
        engine.create(NewBox(name="b", tier=tier))
        run(engine, "b", "echo x > x; git add -A; git -c user.name=a -c user.email=a@b commit -qm x")
        engine.stop("b")
        engine.propose("b")
        engine.remove("b")
        assert (support.git(repo, "for-each-ref"), support.git(repo, "worktree", "list")) == before
    assert support.git(repo, "fsck", "--connectivity-only", "--no-dangling") == ""
    assert [p for p in state_dir().rglob("*") if p.is_file()] == []


def test_the_tip_of_an_unconfined_boxs_branch_is_told_before_it_goes(engine: Engine, repo: Path) -> None:
    engine.create(NewBox(name="b", tier="workspace"))
    run(engine, "b", "echo x > x; git add -A; git -c user.name=a -c user.email=a@b commit -qm x")
    tip = support.git(repo, "rev-parse", "cloche/b")
    (outcome,) = engine.remove_many(["b"])
    assert outcome.removed and tip in outcome.detail


def test_what_a_box_left_is_removed_without_following_a_link(engine: Engine, home: Home) -> None:
    """Rule S17 and kind H2: modes, links, depth, owners."""
    secret = home.root / "secret"
    secret.mkdir(mode=0o700)
    (secret / "key").write_text("k")
    (secret / "key").chmod(0o600)
    engine.create(NewBox(name="b"))
    script = f"""
        mkdir -p a/b/c; ln -s {secret} a/link; ln -s {secret}/key a/key; ln -s / a/b/root
        touch a/b/c/f; mkfifo a/fifo; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('a/s')"
        chmod 000 a/b/c; chmod 555 a/b; chmod 000 a
        mkdir -p ~/x/y; chmod 000 ~/x/y ~/x
        d=deep; mkdir $d; cd $d; i=0; while [ $i -lt 150 ]; do mkdir d; cd d; i=$((i+1)); done
    """
    assert run(engine, "b", script) == 0
    engine.stop("b")
    engine.remove("b")
    assert engine.boxes() == ()
    assert [p for p in state_dir().rglob("*") if p.is_file()] == []
    assert (secret / "key").read_text() == "k"
    assert (secret / "key").stat().st_mode & 0o777 == 0o600
    assert secret.stat().st_mode & 0o777 == 0o700


def test_chown_inside_a_box_does_not_keep_it_from_being_removed(engine: Engine) -> None:
    engine.create(NewBox(name="b"))
    run(engine, "b", "touch f; chown 0:0 f; chgrp 5 f; chown 1000:1000 f; true")
    engine.remove("b", force=True)
    assert engine.boxes() == ()


def test_abort_ends_the_processes_and_keeps_the_evidence(engine: Engine) -> None:
    engine.create(NewBox(name="b"))
    run(engine, "b", f"echo x > kept; {BACKGROUND}")
    paths = engine.find("b")
    init = liveness.read(paths).init
    engine.abort("b", "wrong way")
    assert not liveness.alive(init)
    assert manifest.load(paths).state == "aborted"
    last = list(journal.read(paths.journal))[-1]
    assert (last.kind, last.data["to"], last.data["why"]) == ("transition", "aborted", "wrong way")
    assert (paths.written / "kept").exists()
    for act in (lambda: run(engine, "b", "true"), lambda: engine.propose("b"), lambda: engine.abort("b")):
        with pytest.raises(Refused):
            act()
    engine.remove("b")


def test_gc_removes_finished_boxes_and_no_other(engine: Engine) -> None:
    for name in ("fresh", "idle", "proposed", "applied", "aborted"):
        engine.create(NewBox(name=name))
        if name != "fresh":
            run(engine, name, f"echo {name} > {name}")
    engine.propose("proposed")
    engine.propose("applied")
    engine.apply("applied", as_name="t")
    engine.abort("aborted")
    outcomes = engine.gc()
    assert sorted(o.box.partition("/")[2] for o in outcomes) == ["aborted", "applied"]
    assert all(o.removed for o in outcomes)
    assert sorted(row.name for row in engine.boxes()) == ["fresh", "idle", "proposed"]
    assert engine.gc() == ()


def test_gc_finishes_a_removal_that_was_cut_short(engine: Engine) -> None:
    engine.create(NewBox(name="b"))
    paths = engine.find("b")
    left = paths.root.with_name(".removing-b-00")
    left.mkdir()
    (left / "f").write_text("x")
    assert [row.name for row in engine.boxes()] == ["b"]
    (outcome,) = engine.gc()
    assert outcome.removed and not left.exists()
    assert [row.name for row in engine.boxes()] == ["b"]


def test_gc_removes_packs_that_no_box_borrows_and_no_other(engine: Engine) -> None:
    engine.create(NewBox(name="kept"))
    (kept,) = cache_dir().glob("packs/*/*")
    unused = kept.with_name("0" * 40)
    (unused / "pack").mkdir(parents=True)
    for folder in (kept, unused):
        os.utime(folder, (1, 1))
    (outcome,) = engine.gc()
    assert outcome.removed and outcome.box == "cached packs"
    assert kept.exists() and not unused.exists()
    assert run(engine, "kept", "git log") == 0


def test_gc_removes_what_a_killed_probe_left_and_not_what_one_uses(engine: Engine) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # killed in the middle of a probe: the tier never answers
        tier = tiers.get("process")

        def hang(self: object, spec: object) -> None:
            os.write(writer, b".")
            signal.pause()

        with mock.patch.object(type(tier), "launch", hang):
            probes.probe("process")
        os._exit(1)
    assert os.read(reader, 1) == b"."
    for fd in (reader, writer):
        os.close(fd)
    (folder,) = runtime_dir().glob("probe-*")
    assert engine.gc() == () and folder.exists()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (outcome,) = engine.gc(everywhere=False)
    assert outcome.removed and outcome.box == folder.name and not folder.exists()
    assert engine.gc() == ()


def test_a_damaged_box_is_listed_and_removed_only_by_force(engine: Engine) -> None:
    engine.create(NewBox(name="b"))
    paths = engine.find("b")
    paths.manifest.write_text("{")
    (row,) = engine.boxes()
    assert row.state == "damaged" and "JSON" in row.needs
    with pytest.raises(Refused):
        engine.remove("b")
    engine.remove("b", force=True)
    assert engine.boxes() == ()


def test_a_box_is_removed_although_its_repository_is_gone(engine: Engine, repo: Path) -> None:
    engine.create(NewBox(name="b"))
    key = engine.find("b").key
    repo.rename(repo.with_name("moved"))
    (row,) = Engine(repo.parent).boxes()
    assert row.needs == "its repository is gone" and row.drift is None
    Engine(repo.parent).remove(key)
    assert Engine(repo.parent).boxes() == ()


def test_a_box_that_is_gone_is_told_from_one_that_never_was_by_nobody(engine: Engine) -> None:
    with pytest.raises(NoSuchBox):
        engine.remove("b")


def test_a_lost_keeper_is_journalled_and_the_box_goes_on(engine: Engine) -> None:
    engine.create(NewBox(name="b"))
    run(engine, "b", BACKGROUND)
    paths = engine.find("b")
    live = liveness.read(paths)
    assert live.keeper is not None and live.init is not None
    os.kill(live.keeper.pid, signal.SIGKILL)
    support.wait_until(lambda: not liveness.alive(live.init), "the tree follows its keeper")
    support.wait_until(lambda: not liveness.alive(live.keeper), "it has gone, whose files were closed before")
    (row,) = engine.boxes()
    assert (row.live, row.needs, row.state) == ("lost", "its keeper died", "running")
    assert run(engine, "b", "true") == 0
    kinds = [r.kind for r in journal.read(paths.journal)]
    assert "keeper-lost" in kinds
    moves = [
        (r.data["from"], r.data["to"], r.data["why"])
        for r in journal.read(paths.journal)
        if r.kind == "transition"
    ]
    assert ("running", "idle", "keeper lost") in moves
    assert journal.verify(paths.journal).problems == ()


def test_stop_settles_a_box_whose_keeper_died(engine: Engine) -> None:
    engine.create(NewBox(name="b"))
    run(engine, "b", BACKGROUND)
    paths = engine.find("b")
    keeper = liveness.read(paths).keeper
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    support.wait_until(lambda: liveness.read(paths).kind == "lost", "the keeper is seen as lost")
    engine.stop("b")
    assert manifest.load(paths).state == "idle"
    assert "ended" in json.loads(paths.live.read_text())
    engine.propose("b")


def test_a_file_that_is_no_box_keeps_nobody_from_working(engine: Engine) -> None:
    engine.create(NewBox(name="b"))
    parent = engine.find("b").root.parent
    (parent / "file").write_text("")
    (parent / "Not.A.Box").mkdir()
    (parent.parent / "..weird").mkdir()
    assert [row.name for row in engine.boxes(everywhere=True)] == ["b"]
    assert all(isinstance(o.error, type(None)) for o in engine.gc())


def test_errors_of_the_engine_are_for_people(engine: Engine) -> None:
    for act in (
        lambda: engine.remove("no"),
        lambda: engine.propose("no"),
        lambda: engine.export("no", Path("x")),
        lambda: engine.apply("no", as_name="t"),
    ):
        with pytest.raises(ClocheError) as error:
            act()
        assert error.value.what and error.value.why and error.value.next_step
