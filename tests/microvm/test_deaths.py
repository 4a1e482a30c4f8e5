"""Whatever is killed, nothing of a guest stays: no monitor, no steward, no file of a launch."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from backends.kernel import procfs
from tests import support
from tests.microvm.world import Guests, monitors


@pytest.fixture(scope="module")
def box(world: Guests) -> Path:
    return world.new("dying")


def parts(world: Guests, box: Path) -> dict[str, dict[str, int]]:
    """The host's processes of a live box, by name."""
    live = world.live(box)
    [monitor] = monitors(world.root)
    start = support.start_time(monitor)
    assert start is not None
    return {
        "keeper": live["keeper"],
        "steward": live["init"],
        "monitor": {"pid": monitor, "start": start},
    }


def children(pid: int) -> list[dict[str, int]]:
    found = procfs.scan().stats.values()
    return [{"pid": one.pid, "start": one.start} for one in found if one.parent == pid]


@pytest.mark.parametrize(
    "names", [("keeper",), ("steward",), ("monitor",), ("steward", "keeper")], ids="-".join
)
def test_a_killed_part_takes_all_others_along(world: Guests, box: Path, names: tuple[str, ...]) -> None:
    assert world.run("dying", "echo $$ >last; (setsid sleep 4713 &)").code == 0
    found = parts(world, box)
    rest = children(found["steward"]["pid"])
    assert len(rest) == 1, "one process stands for what the command left"
    for name in names:
        os.kill(found[name]["pid"], signal.SIGKILL)
    support.wait_until(
        lambda: not any(map(support.is_alive, found.values())), "every part has ended", timeout=30
    )
    assert not monitors(world.root)
    support.wait_until(lambda: not any(map(support.is_alive, rest)), "what stood for the rest has ended")
    assert not support.mounts_below(world.root)
    assert (box / "tree" / "last").read_text().strip().isdigit()


def test_a_monitor_killed_while_a_command_runs_ends_it_as_killed(world: Guests, box: Path) -> None:
    client = subprocess.Popen(
        support.cloche_argv("run", "dying", "--", "sh", "-c", "echo up; sleep 4714"),
        cwd=world.repo,
        env={**os.environ, **world.env},
        stdout=subprocess.PIPE,
    )
    with client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"up\n"
        os.kill(parts(world, box)["monitor"]["pid"], signal.SIGKILL)
        assert client.wait(30) == 128 + signal.SIGKILL
    support.wait_until(lambda: not support.is_alive(world.live(box)["keeper"]), "the keeper has ended")
    assert world.cloche("gc").code == 0
    assert world.left() == []


def test_a_boot_that_is_given_up_leaves_nothing(world: Guests, box: Path) -> None:
    client = subprocess.Popen(
        support.cloche_argv("run", "dying", "--", "true"), cwd=world.repo, env={**os.environ, **world.env}
    )
    with client:
        support.wait_until(lambda: len(monitors(world.root)) == 1, "a monitor was started", timeout=60)
        [pid] = monitors(world.root)
        os.kill(pid, signal.SIGKILL)
        assert client.wait(60) == 3
    support.wait_until(lambda: not world.left(), "nothing is left")
