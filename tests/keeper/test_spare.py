"""The keeper that a zygote forks before anybody asks for one: what it holds, what it goes by, and its end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from backends.keeper import spare
from backends.tiers.builder import ends
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
    waiting = zygotes.spare(zygote)
    held = zygotes.descriptors(waiting, "box")

    def settled() -> bool:
        held.clear()
        held.update(zygotes.descriptors(waiting, "box"))
        return len(held) == 8

    wait_until(settled, "it has closed all else")
    assert held[0] == "/dev/null"
    assert held[1] == held[2] and held[1].endswith(".log")
    assert sorted(link for number, link in held.items() if number > 2) == [
        "anon_inode:[pidfd]",
        "pipe:",
        "pipe:",
        "socket:",
        "socket:",
    ]


def begun(zygote: int) -> list[int]:
    """The first processes of launches that wait, once there is one."""
    seed = zygotes.seed(zygote)
    wait_until(lambda: bool(zygotes.children(seed)), "a launch is begun")
    return zygotes.children(seed)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_was_killed_costs_nobody_a_keeper(box: BoxPaths, zygote: int, how: signal.Signals) -> None:
    waiting = zygotes.spare(zygote)
    os.kill(waiting, how)
    wait_until(lambda: gone(waiting), "it is gone")
    assert forked(box, zygote)


def test_a_forker_that_was_killed_takes_its_zygote_along_and_costs_nobody_a_keeper(
    box: BoxPaths, zygote: int
) -> None:
    os.kill(zygotes.forker(zygote), signal.SIGKILL)
    wait_until(lambda: gone(zygote), "its zygote is gone")
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
        assert zygotes.origin(zygotes.keeper_of(box)) == zygotes.only() != zygote


def test_a_seed_that_was_killed_takes_its_zygote_along_and_costs_nobody_a_keeper(
    box: BoxPaths, zygote: int
) -> None:
    os.kill(zygotes.seed(zygote), signal.SIGKILL)
    wait_until(lambda: gone(zygote), "its zygote is gone")
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
        assert zygotes.origin(zygotes.keeper_of(box)) == zygotes.only() != zygote


def test_a_seed_holds_nothing_but_a_socket_and_the_log(zygote: int) -> None:
    held = zygotes.descriptors(zygotes.seed(zygote), "box")
    assert sorted(held) == [0, 1, 2, 3]
    assert held[0] == "/dev/null" and held[3] == "socket:"
    assert held[1] == held[2] and held[1].endswith(".log")


def test_the_first_process_of_a_box_comes_of_the_seed_which_takes_its_exit(
    box: BoxPaths, zygote: int
) -> None:
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
        init, seed = zygotes.init_of(box), zygotes.seed(zygote)
        assert zygotes.parent(init) == seed
    wait_until(lambda: init not in zygotes.children(seed), "it is gone, and no zombie")


def test_a_launch_whose_first_process_nobody_forked_begins_with_one_of_the_keepers_own(home: Home) -> None:
    outer, inner = ends()
    inner.close()
    own = spare._begun(outer)
    assert zygotes.parent(own.pid) == os.getpid()
    own.abandon()


def test_a_forker_holds_nothing_but_a_socket_and_the_log(zygote: int) -> None:
    held = zygotes.descriptors(zygotes.forker(zygote), "box")
    assert sorted(held) == [0, 1, 2, 3]
    assert held[0] == "/dev/null" and held[3] == "socket:"
    assert held[1] == held[2] and held[1].endswith(".log")


def test_it_ends_with_its_zygote_and_what_it_began_ends_with_it(zygote: int) -> None:
    waiting = zygotes.spare(zygote)
    (builder,) = begun(zygote)
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: gone(waiting) and gone(builder), "both are gone")


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
