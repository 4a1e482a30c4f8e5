"""A zygote serves whoever would have passed on the same, and vouches for layers that nobody changed."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths
from backends.engine import Engine, NewBox, Streams
from backends.errors import Refused
from backends.keeper import start, surroundings
from backends.kernel import landlock
from backends.kernel.syscalls import PR_SET_NO_NEW_PRIVS, prctl, syscall
from backends.trees import layers
from tests.keeper import boxes, zygotes
from tests.keeper.zygotes import ROOT_ONLY, forked, gone, only
from tests.support import wait_until
from tests.trees.test_intact import CHANGES as CHANGED

pytestmark = pytest.mark.usefixtures("program")

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
Change = Callable[[], object]


# ---- surroundings


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (123 << 20, 456 << 20))


def _no_new_privileges() -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def _oom() -> None:
    Path("/proc/self/oom_score_adj").write_text("321")


CHANGES: dict[str, tuple[Change, Callable[[int], object], object]] = {
    "limit": (_limit, lambda pid: zygotes.limit(pid, resource.RLIMIT_FSIZE), (123 << 20, 456 << 20)),
    "nice": (lambda: os.nice(7), lambda pid: os.getpriority(os.PRIO_PROCESS, pid), 7),
    "processor": (
        lambda: os.sched_setaffinity(0, {max(os.sched_getaffinity(0))}),
        os.sched_getaffinity,
        {max(os.sched_getaffinity(0))},
    ),
    "scheduler": (
        lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
        os.sched_getscheduler,
        os.SCHED_BATCH,
    ),
    "oom": (_oom, lambda pid: Path(f"/proc/{pid}/oom_score_adj").read_text(), "321\n"),
    "io": (
        lambda: syscall("ioprio_set", 1, 0, 3 << 13),
        lambda pid: syscall("ioprio_get", 1, pid),
        3 << 13,
    ),
    "personality": (
        lambda: syscall("personality", 0x0040000),
        lambda pid: Path(f"/proc/{pid}/personality").read_text(),
        "00040000\n",
    ),
    "no new privileges": (
        _no_new_privileges,
        lambda pid: "NoNewPrivs:\t1" in Path(f"/proc/{pid}/status").read_text(),
        True,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_keeper_has_what_its_starter_was_given(box: BoxPaths, zygote: int, name: str) -> None:
    change, look, wanted = CHANGES[name]
    before = look(zygote)
    assert before != wanted
    zygotes.start_changed(box, change)
    pid = zygotes.keeper_of(box)
    assert look(pid) == wanted
    assert zygotes.origin(pid) != zygote
    boxes.stop(box)
    assert look(zygote) == before
    assert forked(box, zygote), "who has the first surroundings still gets the first zygote"


@ROOT_ONLY
@pytest.mark.parametrize(("kind", "flag"), [("mnt", CLONE_NEWNS), ("net", CLONE_NEWNET)])
def test_another_namespace_s_keeper_stays_in_it(box: BoxPaths, zygote: int, kind: str, flag: int) -> None:
    seen = Path(f"{box.root}.seen")

    def change() -> None:
        syscall("unshare", flag)
        seen.write_text(os.readlink(f"/proc/self/ns/{kind}"))

    zygotes.start_changed(box, change)
    pid = zygotes.keeper_of(box)
    assert os.readlink(f"/proc/{pid}/ns/{kind}") == seen.read_text()
    assert zygotes.origin(pid) != zygote
    boxes.stop(box)


@ROOT_ONLY
def test_a_process_in_another_root_is_in_other_surroundings() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.chroot("/tmp")
        os.write(writer, b"x")
        signal.pause()
    os.read(reader, 1)
    try:
        assert surroundings.of(child) != surroundings.of()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def allow_all() -> None:
    """Enter a system call filter that lets everything pass."""
    row = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000), 8)  # BPF_RET, ALLOW
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(row)), 16)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program))


def test_system_call_filters_that_cannot_be_compared_get_no_zygote(box: BoxPaths, zygote: int) -> None:
    def filtered() -> None:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        assert surroundings.comparable()
        allow_all()
        assert not surroundings.comparable()
        assert start.warm() is None, "its keepers start by themselves"

    zygotes.in_child(filtered)
    assert zygotes.living() == [zygote]


def refused(box: BoxPaths) -> bool:
    """Whether a request of ours is turned down."""
    reader, writer = os.pipe()
    try:
        return not start._fork_from_zygote(start.zygote_path(), box, writer, writer)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_starter_under_landlock_gets_no_keeper_that_is_not(
    box: BoxPaths, zygote: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = start.zygote_path()

    def ruled() -> None:
        landlock.restrict((("/", landlock.domain(landlock.abi()).fs),), scope=0)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
        assert not surroundings.within_reach(zygote)
        monkeypatch.setattr(start, "zygote_path", lambda: path)  # also where it is under no_new_privs itself
        assert refused(box)

    zygotes.in_child(ruled)
    assert liveness.read(box).kind == ""
    assert surroundings.within_reach(zygote)


# ---- layers that it knows to be as they were sealed


@pytest.fixture
def engine(repo: Path, streams: Streams) -> Iterator[Engine]:
    """One with the box "a" over a shared layer, known to a zygote."""
    made = Engine(repo)
    made.create(NewBox(name="a"))
    assert made.run("a", ["/bin/true"], streams=streams).exit == 0
    made.stop("a")
    wait_until(lambda: layer_known(only()), "its layer is watched, and was compared")
    yield made
    made.remove("a", force=True)


def layer_known(pid: int) -> bool:
    """Whether it watches more than its socket, and no comparison is at work."""
    links = [*zygotes.descriptors(pid, "a").values()]
    return links.count("anon_inode:inotify") == 2 and not any(link.startswith("pipe:") for link in links)


@pytest.mark.boundary
@pytest.mark.parametrize(
    "how", ["in place", "replaced", "added", "removed", "mode", "layer exchanged for a copy"]
)
def test_a_layer_that_is_changed_after_it_was_known_starts_no_box(
    engine: Engine, streams: Streams, how: str
) -> None:
    """S10, with a zygote: the run is refused, and the next one has the base again."""
    pid = only()
    (name,) = layers.used(engine.find("a"))
    time.sleep(0.05)
    CHANGED[how](layers.root() / name / "tree")
    with pytest.raises(Refused) as raised:
        engine.run("a", ["/bin/true"], streams=streams)
    assert raised.value.code == "layer-broken"
    assert engine.run("a", ["/usr/bin/python3", "-c", GOOD], streams=streams).exit == 0
    assert not gone(pid)


GOOD = "import os, sys; sys.exit(os.listdir('src') != ['add.py'] or len(open('src/add.py').read()) < 10)"


@pytest.mark.boundary
def test_a_known_layer_still_starts_boxes(engine: Engine, streams: Streams) -> None:
    for _ in range(3):
        assert engine.run("a", ["/usr/bin/python3", "-c", GOOD], streams=streams).exit == 0
        engine.stop("a")
    wait_until(lambda: layer_known(only()), "it is watched, and no comparison is at work")
