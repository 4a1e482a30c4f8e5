"""A keeper that is just leaving keeps nobody from a box: what is asked of it has happened, or happens now."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.boxes import liveness, store
from backends.boxes.layout import BoxPaths
from backends.engine import Engine, NewBox, Streams
from backends.errors import Busy, NoSuchBox
from backends.keeper import client
from backends.keeper.client import KeeperClient
from backends.verbs import commits, passage, sessions
from tests import support

NULL = os.open(os.devnull, os.O_RDWR)
QUIET = Streams(NULL, NULL, NULL)
HOLDER = """
import sys, time
from pathlib import Path
from backends.boxes import store
from backends.boxes.layout import BoxPaths
store.take(BoxPaths(Path(sys.argv[1])), "keeper")
print("held", flush=True)
sys.stdin.read()
time.sleep(0.3)
"""


@pytest.fixture
def engine(repo: Path) -> Iterator[Engine]:
    made = Engine(repo)
    made.create(NewBox(name="b"))
    assert made.run("b", ["sh", "-c", "echo one > one"], streams=QUIET).exit == 0
    yield made
    made.stop("b")


def leaves(engine: Engine) -> None:
    """Its keeper ends now, by itself."""
    keeper = liveness.read(engine.find("b")).keeper
    assert keeper is not None
    engine.stop("b")
    assert liveness.wait_gone(keeper, 60.0)


@pytest.mark.parametrize("act", [Engine.propose, Engine.snapshot_diff])
def test_one_that_went_before_it_was_reached_is_gone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, act: Callable[[Engine, str], object]
) -> None:
    connect = client.connect

    def late(paths: BoxPaths, **more: Any) -> KeeperClient:
        monkeypatch.setattr(client, "connect", connect)
        leaves(engine)
        return connect(paths, **more)

    monkeypatch.setattr(client, "connect", late)
    act(engine, "b")
    assert [change.path for change in engine.snapshot_diff("b").changes] == [b"one"]


@pytest.mark.parametrize("asked", ["stat", "stop"])
def test_one_that_went_before_it_answered_is_gone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    call = KeeperClient.call

    def late(self: KeeperClient, op: str, *rest: Any, **more: Any) -> dict[str, Any]:
        if op == asked:
            monkeypatch.setattr(KeeperClient, "call", call)
            leaves(engine)
        return call(self, op, *rest, **more)

    monkeypatch.setattr(KeeperClient, "call", late)
    with passage.holding(engine.find("b"), "propose", end_idle=True) as held:
        assert held.manifest.state == "idle"


@pytest.mark.parametrize("asked", ["freeze", "stat"])
def test_what_a_box_wrote_is_read_although_it_went_before_it_answered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    call = KeeperClient.call

    def late(self: KeeperClient, op: str, *rest: Any, **more: Any) -> dict[str, Any]:
        if op == asked:
            monkeypatch.setattr(KeeperClient, "call", call)
            leaves(engine)
        return call(self, op, *rest, **more)

    monkeypatch.setattr(KeeperClient, "call", late)
    if asked == "stat":
        assert commits._still(engine.find("b"))
    assert [change.path for change in engine.snapshot_diff("b").changes] == [b"one"]


def test_what_else_goes_wrong_is_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (Busy("a", "b", "c", code="keeper-slow"), NoSuchBox("a", "b", "c", code="no-such-box")):

        def fail(*_: Any, error: Exception = error) -> KeeperClient:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(client, "connect", fail)
            with pytest.raises(type(error)), passage.holding(engine.find("b"), "propose", end_idle=True):
                pass


def test_one_that_wrote_its_end_is_waited_for(engine: Engine) -> None:
    engine.stop("b")
    paths = engine.find("b")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(paths.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        facts = json.loads(paths.live.read_bytes())
        assert "ended" in facts
        facts["keeper"] = {"pid": holder.pid, "start": support.start_time(holder.pid)}
        paths.live.write_text(json.dumps(facts))
        assert holder.stdin is not None
        holder.stdin.close()
        with passage.holding(paths, "propose") as held:
            assert held.manifest.state == "idle"
            assert not support.is_alive(facts["keeper"])


def test_another_verb_that_holds_a_box_is_not_waited_for(engine: Engine) -> None:
    engine.stop("b")
    with passage.holding(engine.find("b"), "export"), pytest.raises(Busy, match="export"):
        engine.propose("b")


@pytest.mark.parametrize("op", ["run", "shell"])
def test_a_command_that_comes_while_one_leaves_gets_the_next(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    call = KeeperClient.call
    first = liveness.read(engine.find("b")).keeper

    def late(self: KeeperClient, asked: str, *rest: Any, **more: Any) -> dict[str, Any]:
        if asked == op:
            monkeypatch.setattr(KeeperClient, "call", call)
            leaves(engine)
            raise Busy("the box is ending", "somebody stopped it", "start it again", code="stopping")
        return call(self, asked, *rest, **more)

    monkeypatch.setattr(KeeperClient, "call", late)
    if op == "run":
        assert engine.run("b", ["sh", "-c", "exit 7"], streams=QUIET).exit == 7
    else:
        terminal = engine.open_shell("b", ["sh", "-c", "exit 7"])
        try:
            while terminal.read():
                continue
            assert terminal.wait().exit == 7
        finally:
            terminal.close()
    assert liveness.read(engine.find("b")).keeper not in (None, first)


def test_one_that_does_not_leave_is_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def ending(self: KeeperClient, *_: Any, **__: Any) -> dict[str, Any]:
        raise Busy("the box is ending", "somebody stopped it", "start it again", code="stopping")

    with monkeypatch.context() as patch:
        patch.setattr(KeeperClient, "call", ending)
        patch.setattr(sessions, "ENDING_LIMIT", 0.0)
        patch.setattr(passage, "LEAVING", 0.1)
        with pytest.raises(Busy) as caught:
            engine.run("b", ["true"], streams=QUIET)
    assert caught.value.code == "stopping"


STARTING = """
import sys
from pathlib import Path
from backends.boxes.layout import BoxPaths
from backends.keeper import client
client.start(BoxPaths(Path(sys.argv[1]))).close()
"""


@pytest.mark.parametrize("act", ["stop", "remove"])
def test_a_keeper_that_is_just_starting_is_ended_once_it_lives(engine: Engine, act: str) -> None:
    engine.stop("b")
    paths = engine.find("b")
    with subprocess.Popen([sys.executable, "-c", STARTING, str(paths.root)]) as starter:
        support.wait_until(lambda: store.starting(paths) or liveness.read(paths).kind == "live", "it starts")
        if act == "stop":
            assert engine.stop("b") is True
        else:
            engine.remove("b", force=True)
        starter.wait()
    assert liveness.read(paths).kind == ""
    assert act == "stop" or not paths.root.exists()
    if act == "remove":
        engine.create(NewBox(name="b"))


def test_a_lock_that_says_keeper_and_is_nobodys_waits_for_nobody(engine: Engine) -> None:
    engine.stop("b")
    paths = engine.find("b")
    assert store.verb_of(paths) == "keeper" and not store.starting(paths)
    paths.lock.write_text(json.dumps({"verb": "keeper", "pid": os.getpid()}))
    assert not store.starting(paths)
    assert engine.stop("b") is False
