"""A keeper's beat: once in an interval while anything happens, and none while nothing does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from backends.keeper.loop import READ, Loop
from backends.keeper.pulse import RESTS, Pulse
from tests.keeper import boxes, zygotes
from tests.keeper.boxes import sh
from tests.support import settled

INTERVAL = 0.001  # seconds


class World:
    """A loop with a pulse, and a pipe that makes things happen in it."""

    def __init__(self) -> None:
        self.loop = Loop(lambda _where, error: pytest.fail(str(error)))
        self.order: list[str] = []
        self.under_way = False
        self.at = 0.0
        self.reader, self.writer = os.pipe()
        self.loop.add(self.reader, READ, self._read)
        self.pulse = Pulse(
            self.loop, INTERVAL, lambda: self.order.append("beat"), lambda: self.under_way, lambda: self.at
        )

    def _read(self, _events: int) -> None:
        os.read(self.reader, 1)
        self.order.append("event")

    def happen(self) -> None:
        os.write(self.writer, b"x")
        self.loop.step(0)

    def settle(self, rounds: int = 20) -> None:
        """More rounds than beats can follow without anything between them."""
        for _ in range(rounds):
            self.loop.step(2 * INTERVAL)

    def close(self) -> None:
        os.close(self.reader)
        os.close(self.writer)


def test_it_rests_when_nothing_happened_for_a_few_beats_and_goes_on_before_what_happens_next() -> None:
    world = World()
    world.pulse.beat()
    world.settle()
    assert world.order == ["beat"] * RESTS
    world.happen()
    assert world.order[RESTS:] == ["beat", "event"]
    world.settle()
    assert world.order[RESTS + 2 :] == ["beat"] * RESTS
    world.close()


def test_it_does_not_rest_while_something_is_under_way_that_no_descriptor_tells_of() -> None:
    world = World()
    world.under_way = True
    world.pulse.beat()
    world.settle(rounds=50)
    assert len(world.order) > 4 * RESTS
    world.under_way = False
    world.settle()
    count = len(world.order)
    world.settle()
    assert len(world.order) == count
    world.close()


def test_it_beats_when_something_is_due_though_nothing_happens() -> None:
    world = World()
    world.at = time.monotonic()
    world.pulse.beat()
    world.settle(rounds=50)
    assert len(world.order) > 4 * RESTS
    world.at = 0.0
    world.settle()
    count = len(world.order)
    world.settle()
    assert len(world.order) == count
    world.close()


def test_a_beat_that_fails_is_reported_and_followed_by_others() -> None:
    reports: list[str] = []
    loop = Loop(lambda where, _error: reports.append(where))
    loop.on_next(lambda: (_ for _ in ()).throw(ValueError("no")))
    reader, writer = os.pipe()
    served: list[bytes] = []
    loop.add(reader, READ, lambda _events: served.append(os.read(reader, 1)))
    os.write(writer, b"x")
    loop.step(0)
    assert (reports, served) == (["waking"], [b"x"])
    os.close(reader)
    os.close(writer)


def test_the_keeper_of_a_box_without_a_process_sleeps(box: BoxPaths) -> None:
    """It gives its processor up once and is not given it again: longer than any beat would wait."""
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
        status = Path(f"/proc/{zygotes.keeper_of(box)}/status")

        def switches() -> list[str]:
            return [line for line in status.read_text().splitlines() if "ctxt_switches" in line]

        settled(switches, 2.5)
        assert sh(keeper, "echo still").out == b"still\n"
