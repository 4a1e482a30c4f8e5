"""Looking at the process that keepers are forked from, and at keepers, from outside."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths, runtime_dir
from backends.keeper import client
from tests import support
from tests.keeper import boxes
from tests.keeper.boxes import sh
from tests.support import wait_until

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
STATUS = (
    "Umask", "Uid", "Gid", "Groups", "Seccomp", "Seccomp_filters", "NoNewPrivs", "Cpus_allowed", "SigBlk",
    "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
)  # fmt: skip
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "user", "uts")


def living() -> list[int]:
    """Every process that holds a lock of a zygote in this test's runtime folder."""
    place = f"{runtime_dir()}/zygote-"
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            held = links(int(entry.name)).values()
        except OSError:
            continue  # gone, or somebody else's
        if any(name.startswith(place) and ".lock" in name for name in held):
            found.append(int(entry.name))
    return sorted(found)


def only() -> int:
    """The zygote, once nothing that was on the way to it is left."""
    seen: list[list[int]] = []

    def one() -> bool:
        seen.append(living())
        return len(seen[-1]) == 1

    wait_until(one, "one zygote lives")
    return seen[-1][0]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def children(pid: int) -> list[int]:
    """Children of ``pid``, zombies too."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and parent(int(entry.name)) == pid:
                found.append(int(entry.name))
        except OSError:
            continue  # gone meanwhile
    return found


def spare(pid: int) -> int:
    """The keeper that the zygote ``pid`` has forked for the next request, once it is there."""
    wait_until(lambda: len(_spares(pid)) == 1, "a spare is forked")
    return _spares(pid)[0]


def forker(pid: int) -> int:
    """The process that forks for the zygote ``pid``."""
    (found,) = [child for child in children(pid) if _name(child) == "cloche-forker"]
    return found


def seed(pid: int) -> int:
    """The process that the zygote ``pid`` has first processes of boxes forked from."""
    (found,) = [child for child in children(pid) if _name(child) == "cloche-seed"]
    return found


def origin(keeper: int) -> int:
    """The zygote that a keeper was forked for, or whatever stands in its place."""
    return parent(parent(keeper))


def keepers(pid: int) -> list[int]:
    """What was forked for a zygote but its spare, zombies too."""
    return [child for child in children(forker(pid)) if child not in _spares(pid)]


def _spares(pid: int) -> list[int]:
    return [child for child in children(forker(pid)) if _name(child) == "cloche-spare"]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except OSError:
        return ""  # gone meanwhile


def keeper_of(paths: BoxPaths) -> int:
    live = liveness.read(paths)
    assert live.kind == "live" and live.keeper is not None
    return live.keeper.pid


def init_of(paths: BoxPaths) -> int:
    live = liveness.read(paths)
    assert live.kind == "live" and live.init is not None
    return live.init.pid


def descriptors(pid: int, box: str) -> dict[int, str]:
    """What each descriptor is, without what differs from one process to the next."""
    return {
        number: re.sub(r"\[\d+\]", "", link.replace(f"/{box}/", "/BOX/"))
        for number, link in links(pid).items()
    }


def links(pid: int) -> dict[int, str]:
    """Where each descriptor of a process leads."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def portrait(pid: int, box: str) -> dict[str, object]:
    """All that a process got of whoever forked it, for a comparison."""
    process = Path("/proc") / str(pid)
    status = dict(
        line.split(":\t", 1) for line in process.joinpath("status").read_text().splitlines() if ":\t" in line
    )
    stat = process.joinpath("stat").read_bytes().rpartition(b")")[2].split()
    return {
        "descriptors": sorted(descriptors(pid, box).values()),
        "environment": process.joinpath("environ").read_bytes().strip(b"\0"),
        "arguments": process.joinpath("cmdline").read_bytes().rstrip(b"\0").replace(box.encode(), b"BOX"),
        "name": process.joinpath("comm").read_text(),
        "folder": os.readlink(process / "cwd"),
        "root": os.readlink(process / "root"),
        "limits": process.joinpath("limits").read_text(),
        "oom": process.joinpath("oom_score_adj").read_text(),
        "cgroup": process.joinpath("cgroup").read_text().replace(box, "BOX"),
        "personality": process.joinpath("personality").read_text(),
        "terminal": stat[4],
        "nice": stat[16],
        "scheduler": os.sched_getscheduler(pid),
        "status": {name: status[name] for name in STATUS},
        "leads its group": int(stat[2]) == pid,
        "leads its session": int(stat[3]) == pid,
    }


def namespaces(pid: int) -> dict[str, str]:
    return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}


def in_child(act: Callable[[], object]) -> None:
    """Run ``act`` in a child, which must return without an error; its own starter state is fresh."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def start_changed(paths: BoxPaths, change: Callable[[], object]) -> None:
    """Start the box's keeper from a process that made ``change`` to itself."""

    def act() -> None:
        change()
        client.start(paths).close()

    in_child(act)


def limit(pid: int, kind: int) -> tuple[int, int]:
    return resource.prlimit(pid, kind)


def holds(pid: int, wanted: bytes) -> bool:
    """Whether ``wanted`` lies anywhere in the memory of a process, which stands still meanwhile."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            begin, end = (int(part, 16) for part in span.split("-"))
            if "r" not in rights or line.rstrip().endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                continue
            try:
                memory.seek(begin)
                left, tail = end - begin, b""
                while left > 0 and (data := memory.read(min(left, 1 << 20))):
                    if wanted in tail + data:
                        return True
                    tail, left = data[-len(wanted) :], left - len(data)
            except OSError:
                continue  # a mapping without pages behind it
    return False


def fresh(number: int) -> BoxPaths:
    return boxes.make(f"box{number}")


def copy_to(folder: Path) -> None:
    shutil.copytree(support.ROOT / "backends", folder, ignore=shutil.ignore_patterns("__pycache__"))


def log() -> str:
    return "".join(path.read_text() for path in runtime_dir().glob("zygote-*.log"))


def forked(box: BoxPaths, pid: int) -> bool:
    """Start the box; whether the zygote ``pid`` forked its keeper."""
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
        return origin(keeper_of(box)) == pid


def gone(pid: int) -> bool:
    return support.start_time(pid) is None
