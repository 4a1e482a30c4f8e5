"""The keeper that a zygote forks before anybody asks for one: what it holds, what it goes by, and its end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from tests.conftest import Home
from tests.keeper import boxes, zygotes
from tests.keeper.boxes import sh
from tests.keeper.zygotes import forked, gone
from tests.support import wait_until

pytestmark = pytest.mark.usefixtures("program")


def test_it_is_the_next_keeper_and_another_one_follows(box: BoxPaths, zygote: int) -> None:
    first = zygotes.spare(zygote)
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
        assert zygotes.keeper_of(box) == first
        assert Path(f"/proc/{first}/comm").read_text() == "cloche-keeper\n"
        assert zygotes.spare(zygote) != first


def test_it_holds_nothing_of_the_zygote_but_a_socket_and_the_log(zygote: int) -> None:
    spare = zygotes.spare(zygote)
    held = zygotes.descriptors(spare, "box")

    def settled() -> bool:
        held.clear()
        held.update(zygotes.descriptors(spare, "box"))
        return len(held) == 7

    wait_until(settled, "it has closed all else")
    assert held[0] == "/dev/null"
    assert held[1] == held[2] and held[1].endswith(".log")
    assert sorted(link for number, link in held.items() if number > 2) == [
        "pipe:",
        "pipe:",
        "socket:",
        "socket:",
    ]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_was_killed_costs_nobody_a_keeper(box: BoxPaths, zygote: int, how: signal.Signals) -> None:
    spare = zygotes.spare(zygote)
    os.kill(spare, how)
    wait_until(lambda: gone(spare), "it is gone")
    assert forked(box, zygote)


def test_a_forker_that_was_killed_takes_its_zygote_along_and_costs_nobody_a_keeper(
    box: BoxPaths, zygote: int
) -> None:
    os.kill(zygotes.forker(zygote), signal.SIGKILL)
    wait_until(lambda: gone(zygote), "its zygote is gone")
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
        assert zygotes.origin(zygotes.keeper_of(box)) == zygotes.only() != zygote


def test_a_forker_holds_nothing_but_a_socket_and_the_log(zygote: int) -> None:
    held = zygotes.descriptors(zygotes.forker(zygote), "box")
    assert sorted(held) == [0, 1, 2, 3]
    assert held[0] == "/dev/null" and held[3] == "socket:"
    assert held[1] == held[2] and held[1].endswith(".log")


def test_it_ends_with_its_zygote_and_what_it_began_ends_with_it(zygote: int) -> None:
    spare = zygotes.spare(zygote)
    wait_until(lambda: len(zygotes.children(spare)) == 1, "its launch is begun")
    (builder,) = zygotes.children(spare)
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: gone(spare) and gone(builder), "both are gone")


def test_it_goes_by_the_environment_of_who_asks_and_not_of_who_asked_before(
    home: Home, zygote: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = zygotes.fresh(1), zygotes.fresh(2)
    trace = tmp_path / "trace"
    zygotes.spare(zygote)
    monkeypatch.setenv("CLOCHE_TRACE", str(trace))
    with boxes.started(one):
        zygotes.spare(zygote)
    noted = trace.read_text()
    assert " builder: opened\n" in noted and " keeper: ready\n" in noted
    assert " init: confined\n" in noted
    monkeypatch.delenv("CLOCHE_TRACE")
    with boxes.started(other):
        assert trace.read_text().count(" builder: opened\n") == noted.count(" builder: opened\n") == 1
