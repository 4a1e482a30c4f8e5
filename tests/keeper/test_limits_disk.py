"""When what a box has on the disk is measured: whenever it may have grown, and not otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.keeper import disk, limits
from backends.keeper.limits import Actions, Limits
from backends.keeper.log import Log
from backends.keeper.loop import Loop
from backends.kernel import inotify
from backends.values import ProcessId
from tests.keeper import boxes

Space = dict[str, int]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folder of each measurement."""
    seen: list[str] = []

    def noted(folder: str) -> Iterator[int]:
        seen.append(folder)
        return iter((4096,))

    monkeypatch.setattr(disk, "measure", noted)
    return seen


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> Space:
    """What is left on the file system of the box, and of which kind that is."""
    found = {"left": 1 << 40, "kind": 0xEF53}
    monkeypatch.setattr(limits, "_free", lambda _: found["left"])
    monkeypatch.setattr(inotify, "file_system", lambda _: found["kind"])
    return found


def limited(folder: Path) -> Limits:
    log = Log()
    return Limits(
        Loop(log.failure),
        log,
        boxes.limited(disk=1 << 30).resources,
        ProcessId(os.getpid(), 0),
        (str(folder),),
        (),
        Actions(lambda *_: None, lambda _: None, lambda: None, lambda: True),
        memory_held=True,
        base=0,
    )


def look(box: Limits, measured: list[str]) -> bool:
    """One look when the next measurement is due; whether it was made."""
    measured.clear()
    box._next_disk = 0.0
    box._look_at_disk()
    return bool(measured)


def test_where_nothing_was_taken_or_given_back_nothing_is_measured(
    tmp_path: Path, measured: list[str], space: Space
) -> None:
    box = limited(tmp_path)
    assert look(box, measured)
    assert not look(box, measured)
    space["left"] -= 1
    assert look(box, measured), "the least that was taken is looked for"
    space["left"] += 1
    assert look(box, measured), "what was given back may hide what was taken"
    assert not look(box, measured)


def test_it_is_measured_after_a_while_all_the_same(tmp_path: Path, measured: list[str], space: Space) -> None:
    box = limited(tmp_path)
    assert look(box, measured)
    box._measured -= limits.DISK_MOST
    assert look(box, measured)


def test_a_file_system_that_counts_late_is_measured_each_time(
    tmp_path: Path, measured: list[str], space: Space
) -> None:
    space["kind"] = 0x9123683E  # Btrfs: what is written counts when it is written back
    box = limited(tmp_path)
    assert look(box, measured) and look(box, measured)
