"""A signal that comes while a command is being started, or has just ended: it ends the command or us, and
never us alone, with a command left behind that nobody waits for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from app.cli.run import PASSED, PATIENCE, Passing
from backends.engine import Engine, NewBox, RunResult, Streams
from backends.errors import Busy, Refused
from backends.keeper.client import KeeperClient
from backends.verbs.trying import TrialOutcome

NULL = os.open(os.devnull, os.O_RDWR)
QUIET = Streams(NULL, NULL, NULL)
LONG = ["sleep", "300"]


class Ends(BaseException):
    """What a signal does where nothing passes it on."""


def ends(number: int, _frame: FrameType | None) -> None:
    raise Ends(number)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.signal(number, ends) for number in PASSED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def engine(repo: Path) -> Iterator[Engine]:
    made = Engine(repo)
    made.create(NewBox(name="b"))
    yield made
    for row in made.boxes():
        made.stop(row.name)


def run(engine: Engine, argv: list[str] = LONG, passing: Passing | None = None) -> RunResult:
    passing = passing or Passing()
    try:
        return engine.run("b", argv, streams=QUIET, on_session=passing, on_request=passing.asking)
    finally:
        passing.restore()


def attempt(engine: Engine, argv: list[str], passing: Passing) -> TrialOutcome:
    try:
        return engine.try_accepted("b", argv, streams=QUIET, on_session=passing, on_request=passing.asking)
    finally:
        passing.restore()


def untouched() -> bool:
    return all(signal.getsignal(number) is ends for number in PASSED)


def nothing_runs(engine: Engine) -> bool:
    return not any("sleep" in row.command for row in engine.processes("b"))


class Started(Passing):
    """Gets the signal when the command runs and before we heard of it."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.numbers = numbers

    def __call__(self, session: Any) -> None:
        for number in self.numbers:
            signal.raise_signal(number)
        super().__call__(session)


@pytest.mark.parametrize("number", PASSED)
def test_what_comes_before_the_answer_is_the_commands(engine: Engine, number: int) -> None:
    assert run(engine, passing=Started(number)).exit == 128 + number
    assert untouched()


def test_what_comes_before_the_answer_keeps_its_order(engine: Engine) -> None:
    reader, writer = os.pipe()
    script = "trap 'echo usr1' USR1; trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"

    class Ready(Started):
        def __call__(self, session: Any) -> None:
            assert os.read(reader, 3) == b"up\n"
            super().__call__(session)

    passing = Ready(signal.SIGUSR1, signal.SIGTERM)
    try:
        done = engine.run(
            "b",
            ["sh", "-c", script],
            streams=Streams(NULL, writer, NULL),
            on_session=passing,
            on_request=passing.asking,
        )
        assert (done.exit, os.read(reader, 100)) == (7, b"usr1\n")
    finally:
        passing.restore()
        os.close(reader)
        os.close(writer)


def test_how_a_try_ended_is_evidence_although_the_signal_came_before_the_answer(engine: Engine) -> None:
    run(engine, ["sh", "-c", "echo one > one"])
    engine.propose("b")
    assert attempt(engine, LONG, Started(signal.SIGTERM)).trial.exit == 143
    assert [one.exit for one in engine.review("b").tried] == [143]
    assert [row.name for row in engine.boxes()] == ["b"]


def test_what_comes_once_a_try_has_ended_does_not_keep_it_from_being_written_down(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backends.verbs import trying

    run(engine, ["sh", "-c", "echo one > one"])
    engine.propose("b")
    journal = trying._journal

    def late(*args: Any, **named: Any) -> float:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        return journal(*args, **named)

    monkeypatch.setattr(trying, "_journal", late)
    assert attempt(engine, ["sh", "-c", "exit 4"], Passing()).trial.exit == 4
    assert [one.exit for one in engine.review("b").tried] == [4]


def test_before_the_request_it_ends_us(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Early(Passing):
        def asking(self) -> None:
            signal.raise_signal(signal.SIGTERM)
            super().asking()

    with pytest.raises(Ends):
        run(engine, passing=Early())
    assert untouched() and nothing_runs(engine)


def answering(answers: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the next requests for a session answered by these first."""
    call = KeeperClient.call

    def answer(self: KeeperClient, op: str, *args: Any, **named: Any) -> dict[str, Any]:
        if op == "run" and answers:
            answers.pop(0)()
        return call(self, op, *args, **named)

    monkeypatch.setattr(KeeperClient, "call", answer)


def frozen() -> None:
    signal.raise_signal(signal.SIGTERM)
    raise Busy("the box is frozen", "a snapshot is taken", "try again", code="frozen")


def test_while_a_frozen_box_is_waited_for_it_ends_us(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    answering([frozen], monkeypatch)
    with pytest.raises(Ends):
        run(engine)
    assert untouched() and nothing_runs(engine)


def test_where_no_command_begins_it_ends_us(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        signal.raise_signal(signal.SIGHUP)
        raise Refused("no", "the keeper does not", "leave it", code="refused")

    answering([refuse], monkeypatch)
    with pytest.raises(Ends) as caught:
        run(engine)
    assert caught.value.args == (signal.SIGHUP,) and untouched()


def test_interrupts_in_vain_end_us_where_no_answer_comes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang() -> None:
        for _ in range(PATIENCE + 1):
            signal.raise_signal(signal.SIGINT)
        raise AssertionError("still waiting")

    answering([hang], monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(engine)


def test_what_is_ignored_stays_ignored(engine: Engine) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert run(engine, ["true"], Started(signal.SIGHUP)).exit == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
