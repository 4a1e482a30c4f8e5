"""A desk beside the loop: acts in order, one at a time, all of them done before the end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from app.workers.calls import finish
from app.workers.sitting import Sitting


class Desk:
    """Notes what is asked of it, and whether two threads ever were at it together."""

    def __init__(self) -> None:
        self.acts: list[Any] = []
        self.free = threading.Lock()
        self.closed = 0
        self.hold = threading.Event()
        self.hold.set()

    def note(self, act: object) -> object:
        assert self.free.acquire(blocking=False)
        self.hold.wait(30)
        self.acts.append(act)
        self.free.release()
        return act

    def close(self) -> None:
        self.closed += 1


async def settled(sitting: Sitting) -> None:
    while not sitting.idle:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0)


def sit(desk: Desk) -> Sitting:
    made: Any = desk
    return Sitting(lambda: made)


def unexpected(error: Exception) -> None:
    raise AssertionError(error)


async def test_acts_are_done_in_the_order_in_which_they_were_asked_for() -> None:
    desk = Desk()
    told: list[object] = []
    sitting = sit(desk)
    for number in range(50):
        sitting.do(lambda desk, number=number: desk.note(number), told.append, unexpected)  # type: ignore
        if number % 7 == 0:
            await settled(sitting)
    await settled(sitting)
    assert desk.acts == told == list(range(50))


async def test_an_error_goes_to_its_own_act_and_the_next_one_goes_on() -> None:
    desk = Desk()
    told: list[object] = []
    failed: list[Exception] = []
    sitting = sit(desk)

    def fail(desk: Any) -> None:
        raise ValueError("no")

    sitting.do(fail, told.append, failed.append)
    sitting.do(lambda desk: desk.note("yes"), told.append, unexpected)  # type: ignore
    await settled(sitting)
    assert told == ["yes"]
    assert [str(error) for error in failed] == ["no"]


async def test_a_desk_that_cannot_be_opened_fails_each_act_and_is_tried_again() -> None:
    desk = Desk()
    told: list[object] = []
    failed: list[Exception] = []
    tries: list[int] = []

    def open_desk() -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("taken")
        return desk

    sitting = Sitting(open_desk)
    for number in range(3):
        sitting.do(lambda desk, number=number: desk.note(number), told.append, failed.append)  # type: ignore
    await settled(sitting)
    assert (len(failed), told) == (2, [2])


async def test_whoever_leaves_waits_for_all_acts_and_hears_nothing_any_more() -> None:
    desk = Desk()
    told: list[object] = []
    sitting = sit(desk)
    sitting.do(lambda desk: desk.note("first"), told.append, unexpected)  # type: ignore
    await settled(sitting)
    desk.hold.clear()
    for number in range(5):
        sitting.do(lambda desk, number=number: desk.note(number), told.append, unexpected)  # type: ignore
    sitting.close(unexpected)
    sitting.close(unexpected)
    assert finish(0.05) == ["what you decided is being kept"]
    desk.hold.set()
    assert finish(30) == []
    assert desk.acts == ["first", 0, 1, 2, 3, 4]
    assert desk.closed == 1
    await asyncio.sleep(0.01)
    assert told == ["first"]


async def test_a_desk_that_was_never_opened_is_not_closed() -> None:
    desk = Desk()
    sitting = sit(desk)
    sitting.close(unexpected)
    await settled(sitting)
    assert desk.closed == 0
