"""Images of a Containerfile: no network, nothing but the store, nothing left of a build that is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests import support
from tests.container.imaging import listed
from tests.container.world import ROOTFUL, World


def build(world: World, tmp_path: Path, recipe: str, *more: str) -> support.Done:
    context = tmp_path / "context"
    context.mkdir(exist_ok=True)
    (context / "Containerfile").write_text(recipe)
    rootful = ("--rootful",) if ROOTFUL else ()
    return world.cloche("image", "build", str(context), "--name", "built", *rootful, *more)


def test_a_containerfile_is_built_without_a_network_from_an_image_of_the_store(
    world: World, tmp_path: Path
) -> None:
    done = build(
        world,
        tmp_path,
        "FROM localhost/box\nRUN id -u > /who; ip -o link | cut -d: -f2 > /links; echo built > /made\n",
    )
    assert done.code == 0, done.err
    world.new("built", image="built")
    done = world.cloche("run", "built", "--", "cat", "/made", "/who", "/links")
    assert done.out.split() == ["built", "0", "lo"]
    assert world.cloche("rm", "--force", "built").code == 0
    label = " (rootful)" if ROOTFUL else ""
    assert listed(world)["localhost/built:latest"]["source"] == f"Containerfile: context{label}"
    assert world.cloche("image", "rm", "built").code == 0


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("FROM docker.io/library/alpine\n", "alpine"),
        ("FROM localhost/box\nRUN exit 7\n", "exit status 7"),
        ("FROM localhost/box\nCOPY /etc/passwd /x\n", "passwd"),
        ("FROM localhost/box\nADD http://192.0.2.1/x /x\n", ""),
    ],
)
def test_a_build_that_needs_more_than_it_has_fails_with_the_reason(
    world: World, tmp_path: Path, recipe: str, why: str
) -> None:
    done = build(world, tmp_path, recipe)
    assert done.code == 1, done.err
    assert "building the image failed" in done.err
    assert why in done.err
    assert "localhost/built:latest" not in listed(world)


def test_no_step_of_a_build_reaches_the_hosts_own_loopback(world: World, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        where = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        done = build(world, tmp_path, f"FROM localhost/box\nADD {where} /x\n")
        assert done.code == 1, done.err
        assert "building the image failed" in done.err
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_folder_without_a_containerfile_and_two_ways_at_once_are_usage_errors(
    world: World, tmp_path: Path
) -> None:
    assert world.cloche("image", "build", str(tmp_path), "--name", "n").code == 2
    assert world.cloche("image", "build", str(tmp_path / "none"), "--name", "n").code == 2
    assert world.cloche("image", "build", "--name", "n").code == 2
    assert world.cloche("image", "build", str(tmp_path), "--name", "n", "--from-host", "git").code == 2
    assert world.cloche("image", "build", "--from-host", "git").code == 2


@pytest.mark.skipif(not ROOTFUL, reason="needs root")
def test_root_builds_only_when_it_says_that_it_may(world: World, tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("FROM localhost/box\n")
    done = world.cloche("image", "build", str(tmp_path), "--name", "n")
    assert done.code == 3
    assert "--rootful" in done.err


def _sleepers(word: str) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(int(pid))
    return found


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_build_that_is_killed_leaves_no_process_and_gc_the_rest(
    world: World, tmp_path: Path, how: signal.Signals
) -> None:
    word = f"47{how:02}.25"
    (tmp_path / "Containerfile").write_text(
        f"FROM localhost/box\nRUN (setsid sleep {word} &); sleep {word}\n"
    )
    rootful = ("--rootful",) if ROOTFUL else ()
    argv = support.cloche_argv("image", "build", str(tmp_path), "--name", "never", *rootful)
    child = subprocess.Popen(argv, env={**os.environ, **world.env}, stderr=subprocess.DEVNULL)
    support.wait_until(lambda: len(_sleepers(word)) == 2, "the step runs")
    os.kill(child.pid, how)
    assert child.wait(60) != 0
    support.wait_until(lambda: not _sleepers(word), "all that the build started is gone")
    store = world.root / "s" / "cloche" / ".podman"
    done = world.cloche("gc")
    assert done.code == 0, done.err
    assert list((store / "tmp").iterdir()) == []
    assert list((store / "images" / "overlay-containers").glob("?" * 64)) == []
    assert "localhost/never:latest" not in listed(world)
    assert support.mounts_below(world.root) == []
