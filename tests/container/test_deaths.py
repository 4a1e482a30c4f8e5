"""Whatever is killed, nothing of a container stays: no process, no record, no mount, no file of a launch."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from backends.container.podman import launcher
from tests import support
from tests.container.world import ROOTFUL, World


class Parts:
    """The host's processes of one live box, by name."""

    def __init__(self, world: World, box: Path) -> None:
        live = world.live(box)
        self.idents = {
            "keeper": live["keeper"],
            "steward": live["init"],
            "first": live["beside"][0],
        }
        status = Path(f"/proc/{live['beside'][0]['pid']}/status").read_text()
        parent = int(status.partition("PPid:")[2].split()[0])
        stat = Path(f"/proc/{parent}/stat").read_text()
        self.idents["monitor"] = {"pid": parent, "start": int(stat.rpartition(")")[2].split()[19])}

    def kill(self, names: tuple[str, ...]) -> None:
        for name in names:
            os.kill(self.idents[name]["pid"], signal.SIGKILL)

    def alive(self) -> list[str]:
        return [name for name, ident in self.idents.items() if support.is_alive(ident)]


@pytest.fixture(scope="module")
def box(world: World) -> Path:
    return world.new("dying")


@pytest.mark.parametrize(
    "names",
    [
        ("keeper",),
        ("steward",),
        ("first",),
        ("monitor",),
        ("steward", "keeper"),
        ("keeper", "steward"),
    ],
    ids="-".join,
)
def test_a_killed_part_takes_all_others_along(world: World, box: Path, names: tuple[str, ...]) -> None:
    started = world.cloche("run", "dying", "--", "sh", "-c", "(setsid sleep 4713 &); sleep 0.1")
    assert started.code == 0, started.err
    parts = Parts(world, box)
    assert len(parts.alive()) == 4
    parts.kill(names)
    if names == ("monitor",):
        # Without it the container runs on, as long as its keeper does; the end finds all the same.
        assert world.cloche("run", "dying", "--", "true").code == 0
        assert world.cloche("stop", "dying").code == 0
    support.wait_until(lambda: not parts.alive(), "every part has ended", timeout=30)
    if names != ("keeper", "steward") and names != ("steward", "keeper"):
        support.wait_until(lambda: not containers(world), "no container is left", timeout=30)
    assert not support.mounts_below(world.root)
    again = world.cloche("run", "dying", "--", "echo", "again")
    assert (again.code, again.out) == (0, "again\n"), again.err
    assert world.cloche("stop", "dying").code == 0
    assert world.left() == []


def test_gc_finds_what_a_crash_of_everything_left(world: World, box: Path) -> None:
    assert world.cloche("run", "dying", "--", "true").code == 0
    parts = Parts(world, box)
    parts.kill(("monitor", "keeper", "steward"))
    support.wait_until(lambda: not parts.alive(), "the first process ended with its keeper", timeout=30)
    assert containers(world)
    done = world.cloche("gc")
    assert done.code == 0, done.err
    assert "containers" in done.out
    assert world.left() == []


def test_a_killed_client_leaves_its_session_and_nothing_else(world: World, box: Path) -> None:
    client = subprocess.Popen(
        support.cloche_argv("run", "dying", "--", "sh", "-c", "echo up; exec sleep 4714"),
        cwd=world.repo,
        env={**os.environ, **world.env},
        stdout=subprocess.PIPE,
    )
    assert client.stdout is not None
    assert client.stdout.readline() == b"up\n"
    client.kill()
    client.wait()
    client.stdout.close()
    assert "sleep 4714" in world.cloche("ps", "dying").out
    assert world.cloche("stop", "dying").code == 0
    assert world.left() == []


def test_removal_of_a_live_box_leaves_nothing(world: World) -> None:
    box = world.new("removed")
    assert world.cloche("run", "removed", "--", "true").code == 0
    parts = Parts(world, box)
    assert world.cloche("abort", "removed").code == 0
    assert world.cloche("rm", "removed").code == 0
    assert parts.alive() == []
    assert not box.exists()
    assert world.left() == []


def containers(world: World) -> list[Path]:
    store = world.root / "s" / "cloche" / ".podman" / "images" / "overlay-containers"
    return list(store.glob("?" * 64))


def test_a_store_serves_again_where_the_runtime_folder_is_another_as_after_a_boot(
    world: World, box: Path
) -> None:
    assert world.cloche("run", "dying", "--", "true").code == 0
    parts = Parts(world, box)
    parts.kill(("monitor", "keeper", "steward", "first"))
    support.wait_until(lambda: not parts.alive(), "all of it is gone", timeout=30)
    former = world.env["XDG_RUNTIME_DIR"]
    # Some of it belongs to other ids of the user namespace; a boot clears it all.
    subprocess.run([*([] if ROOTFUL else launcher()), "rm", "-rf", f"{former}/cloche"], check=True)
    world.env["XDG_RUNTIME_DIR"] = str(world.root / "n")
    (world.root / "n").mkdir(mode=0o700)
    try:
        assert "localhost/box" in world.cloche("image", "ls", "--json").out
        again = world.cloche("run", "dying", "--", "echo", "again")
        assert (again.code, again.out) == (0, "again\n"), again.err
        assert world.cloche("stop", "dying").code == 0
        assert world.cloche("gc").code == 0
    finally:
        world.env["XDG_RUNTIME_DIR"] = former
        assert world.cloche("gc").code == 0
    assert world.left() == []


def test_gc_of_another_state_folder_leaves_a_live_box_alone(world: World, box: Path) -> None:
    assert world.cloche("run", "dying", "--", "true").code == 0
    own = world.env["XDG_STATE_HOME"]
    world.env["XDG_STATE_HOME"] = str(world.root / "s2")
    (world.root / "s2").mkdir(mode=0o700)
    try:
        assert world.cloche("gc").code == 0
    finally:
        world.env["XDG_STATE_HOME"] = own
    again = world.cloche("run", "dying", "--", "echo", "again")
    assert (again.code, again.out) == (0, "again\n"), again.err
    assert world.cloche("stop", "dying").code == 0
    assert world.left() == []
