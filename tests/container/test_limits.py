"""Each limit of a container bites, or its row says that it does not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.container.inside import script
from tests.container.world import World

PYTHON = True
PROFILE = """
[profiles.tight.resources]
mem = "200M"
procs = 40
cpu = "2s"
file_size = "1M"
files = 100
tmp = "2M"
shm = "1M"
"""


@pytest.fixture(scope="module")
def box(world: World) -> Path:
    world.profile("tight", PROFILE)
    made = world.new("tight", profile="tight")
    assert world.cloche("run", "tight", "--", "true").code == 0
    return made


def rows(world: World, box: Path) -> dict[str, list[Any]]:
    return {row[0]: row for row in world.live(box)["enforcement"]}


def test_every_requested_value_has_a_row(world: World, box: Path) -> None:
    told = rows(world, box)
    keys = ("mem", "procs", "cpu", "file_size", "files", "tmp", "shm", "disk")
    assert {f"resources.{key}" for key in keys} <= set(told)
    others = (
        "image",
        "runtime",
        "rootful",
        "net.mode",
        "fs.read",
        "fs.write",
        "privileges",
        "syscalls",
        "env",
    )
    assert set(others) <= set(told)
    assert all(row[2] for row in told.values()), "each row says what is enforced, or that nothing is"


def test_a_fork_bomb_is_held_to_the_number_of_processes(world: World, box: Path) -> None:
    body = (
        "import time\n"
        "made = 0\n"
        "try:\n"
        "    for _ in range(200):\n"
        "        if os.fork() == 0: time.sleep(5); os._exit(0)\n"
        "        made += 1\n"
        "except OSError as error: found['stopped'] = errno.errorcode[error.errno]\n"
        "found['made'] = made\n"
        "os.killpg(0, 0)\n"
    )
    found = world.python("tight", script(body))
    assert found["stopped"] == "EAGAIN"
    assert found["made"] < 40
    assert world.cloche("run", "tight", "--", "sh", "-c", "kill -9 -1").code in (0, 137)


def test_memory_beyond_the_limit_is_not_had(world: World, box: Path) -> None:
    code = "import json\ntry: x = bytearray(400 << 20)\nexcept MemoryError: print(json.dumps('none'))"
    done = world.cloche("run", "tight", "--", "python3", "-c", code)
    assert done.out.strip() == '"none"' or done.code == 137
    row = rows(world, box)["resources.mem"]
    assert "cgroup memory" in row[4] or "RLIMIT_DATA" in row[4]


def test_files_and_folders_in_memory_are_bounded(world: World, box: Path) -> None:
    body = (
        "def fill(path, size):\n"
        "    with open(path, 'wb', buffering=0) as f:\n"
        "        for _ in range(size): f.write(b'x' * 65536)\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "found['tmp'] = attempt(lambda: [fill(f'/tmp/{i}', 12) for i in range(8)])\n"
        "found['shm'] = attempt(lambda: [fill(f'/dev/shm/{i}', 12) for i in range(8)])\n"
        "found['file'] = attempt(lambda: fill('/work/big', 40))\n"
        "found['files'] = attempt(lambda: [os.open('/', os.O_RDONLY) for _ in range(200)])\n"
    )
    found = world.python("tight", script(body))
    assert found == {"tmp": "ENOSPC", "shm": "ENOSPC", "file": "EFBIG", "files": "EMFILE"}
    assert (box / "tree" / "big").stat().st_size <= 1 << 20


def test_processor_time_is_bounded(world: World, box: Path) -> None:
    done = world.cloche("run", "tight", "--", "python3", "-c", "while True: pass")
    assert done.code in (128 + 24, 128 + 9)


def test_a_limit_without_a_mechanism_is_a_row_that_says_so(world: World, box: Path) -> None:
    told = rows(world, box)
    groups = "cgroup" in told["resources.mem"][4]
    if not groups:
        assert "the sum over the box is not enforced" in told["resources.mem"][3]
    assert "no quota" in told["resources.disk"][3]
    assert (os.geteuid() == 0) or not groups or Path("/sys/fs/cgroup/cgroup.controllers").exists()


def test_what_the_kernel_counts_for_a_user_is_shared_out(world: World, box: Path) -> None:
    told = rows(world, box)["shares"]
    names = ("user/max_inotify_instances", "user/max_inotify_watches", "kernel/shmmax", "kernel/msgmni")
    found = world.python(
        "tight", script(f"for n in {names!r}: found[n] = int(open('/proc/sys/' + n).read())\n")
    )
    inside = f"{found['user/max_inotify_watches']} inotify watches"
    assert inside in told[2] or "inotify watches" in told[3]
    if "System V memory" in told[2]:
        assert found["kernel/shmmax"] == 1 << 20
