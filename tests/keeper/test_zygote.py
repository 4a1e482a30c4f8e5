"""The process that keepers are forked from: what it passes on, when it ends, and what it survives."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths, runtime_dir
from backends.engine import Engine, NewBox, Streams
from backends.errors import ClocheError, Refused
from backends.keeper import client, protocol, start, surroundings
from backends.kernel import landlock
from backends.kernel.syscalls import PR_SET_NO_NEW_PRIVS, prctl, syscall
from backends.trees import layers
from tests import support
from tests.conftest import Home
from tests.keeper import boxes, zygotes
from tests.keeper.boxes import sh
from tests.keeper.test_peers import CLONE_NEWPID, CLONE_NEWUSER, answer_to_a_child
from tests.support import wait_until
from tests.trees.test_intact import CHANGES as CHANGED

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
Change = Callable[[], object]


def only() -> int:
    """The zygote, once nothing that was on the way to it is left."""
    wait_until(lambda: len(zygotes.living()) == 1, "one zygote lives")
    (pid,) = zygotes.living()
    return pid


def copy_to(folder: Path) -> None:
    shutil.copytree(support.ROOT / "backends", folder, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture(scope="module")
def copied() -> Iterator[Path]:
    """A copy of the program, which nobody changes while these tests run."""
    root = Path(tempfile.mkdtemp(prefix="cl-copy-", dir="/tmp"))
    copy_to(root / "backends")
    time.sleep(1.2)  # what changed just now would be half in memory
    yield root
    shutil.rmtree(root)


@pytest.fixture(autouse=True)
def program(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "SCRIPT", copied / "backends" / "keeper" / "__main__.py")


@pytest.fixture
def zygote(box: BoxPaths) -> int:
    """The pid of a zygote that has forked a keeper already."""
    with boxes.started(box):
        return only()


def log() -> str:
    return "".join(path.read_text() for path in runtime_dir().glob("zygote-*.log"))


def forked(box: BoxPaths, pid: int) -> bool:
    """Start the box; whether the zygote ``pid`` forked its keeper."""
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
        return zygotes.parent(zygotes.keeper_of(box)) == pid


def gone(pid: int) -> bool:
    return support.start_time(pid) is None


# ---- one for all


def test_starters_at_once_make_one_zygote(home: Home) -> None:
    made = [zygotes.fresh(number) for number in range(4)]
    started = []
    for one in made:
        child = os.fork()
        if child == 0:
            try:
                client.start(one).close()
            finally:
                os._exit(0)
        started.append(child)
    for child in started:
        os.waitpid(child, 0)
    pid = only()
    assert len(list(runtime_dir().glob("zygote-*.sock"))) == 1
    for one in made:
        assert liveness.read(one).kind == "live"
        boxes.stop(one)
    assert forked(made[0], pid)


def test_every_keeper_is_forked_from_the_same(box: BoxPaths, zygote: int) -> None:
    assert all(forked(box, zygote) for _ in range(3))


def test_without_a_zygote_the_keeper_starts_by_itself(box: BoxPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(start.ZYGOTE_VARIABLE, "0")
    with boxes.started(box):
        assert zygotes.living() == []
        assert not list(runtime_dir().glob("zygote-*"))


def test_two_installations_have_zygotes_of_their_own(
    box: BoxPaths, zygote: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy_to(tmp_path / "other" / "backends")
    monkeypatch.setattr(start, "SCRIPT", tmp_path / "other" / "backends" / "keeper" / "__main__.py")
    assert not forked(box, zygote)


# ---- what a keeper gets


@pytest.mark.boundary
def test_a_forked_keeper_is_as_one_that_started_by_itself(
    home: Home, zygote: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = zygotes.fresh(1), zygotes.fresh(2)
    with boxes.started(one) as keeper:
        keeper.call("hello")
        pid = zygotes.keeper_of(one)
        assert zygotes.parent(pid) == zygote
        from_zygote = zygotes.portrait(pid, "box1")
        spaces = zygotes.namespaces(pid)
        init_from_zygote = zygotes.portrait(zygotes.init_of(one), "box1") if os.geteuid() == 0 else {}
    monkeypatch.setenv(start.ZYGOTE_VARIABLE, "0")
    with boxes.started(other) as keeper:
        keeper.call("hello")
        pid = zygotes.keeper_of(other)
        assert zygotes.parent(pid) != zygote
        alone = zygotes.portrait(pid, "box2")
        assert spaces == zygotes.namespaces(pid)
        init_alone = zygotes.portrait(zygotes.init_of(other), "box2") if os.geteuid() == 0 else {}
    assert from_zygote == alone
    assert init_from_zygote == init_alone
    assert from_zygote["terminal"] == b"0", "no controlling terminal"
    assert not from_zygote["leads its session"], "a leader could get a terminal by opening one"
    status = from_zygote["status"]
    assert isinstance(status, dict) and status["Umask"] == "0077"


@pytest.mark.boundary
def test_nothing_of_the_zygote_is_open_in_a_keeper_or_in_its_init(box: BoxPaths, zygote: int) -> None:
    with boxes.started(box):
        held = zygotes.descriptors(zygotes.keeper_of(box), box.name)
        assert held[0] == "/dev/null"
        assert held[1] == held[2] and held[1].endswith("/keeper.log")
        for link in held.values():
            assert "zygote" not in link and "inotify" not in link
        if os.geteuid() == 0:
            inside = zygotes.descriptors(zygotes.init_of(box), box.name)
            assert sorted(inside)[:5] == [0, 1, 2, 3, 4]
            assert not [link for link in inside.values() if "zygote" in link or "inotify" in link]


def test_what_a_starter_has_open_reaches_neither_zygote_nor_keeper(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = zygotes.fresh(1), zygotes.fresh(2)
    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_inheritable(fd, True)
    pipe = os.readlink(f"/proc/self/fd/{writer}")

    def links(pid: int) -> set[str]:
        return {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}

    try:
        with boxes.started(one) as keeper:
            keeper.call("hello")
            assert pipe not in links(only()) | links(zygotes.keeper_of(one))
        monkeypatch.setenv(start.ZYGOTE_VARIABLE, "0")
        with boxes.started(other) as keeper:
            keeper.call("hello")
            assert pipe not in links(zygotes.keeper_of(other))
    finally:
        os.close(reader)
        os.close(writer)


def test_a_keeper_gets_the_environment_of_its_own_starter(
    home: Home, zygote: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = zygotes.fresh(1), zygotes.fresh(2)
    trace = tmp_path / "trace"
    monkeypatch.setenv("CLOCHE_TRACE", str(trace))
    with boxes.started(one):
        first = zygotes.keeper_of(one)
    noted = trace.read_text()
    monkeypatch.delenv("CLOCHE_TRACE")
    with boxes.started(other):
        second = zygotes.keeper_of(other)
    assert f" {first} keeper: ready" in noted
    assert f" {second} " not in trace.read_text()


@ROOT_ONLY
@pytest.mark.boundary
def test_no_secret_of_a_starter_s_environment_is_in_zygote_keeper_or_init(
    box: BoxPaths, copied: Path
) -> None:
    secret = os.urandom(16).hex()
    code = (
        "import sys; from pathlib import Path; from backends.boxes.layout import BoxPaths;"
        "from backends.keeper import client; client.start(BoxPaths(Path(sys.argv[1]))).close()"
    )
    env = {**os.environ, "CLOCHE_TEST_SECRET": secret, "CLOCHE_LINGER": "60", "PYTHONPATH": str(copied)}
    for _ in range(2):  # started by the zygote while it loads, and by one that waits
        subprocess.run([sys.executable, "-c", code, str(box.root)], env=env, check=True)
        live = (only(), zygotes.keeper_of(box), zygotes.init_of(box))
        assert [zygotes.holds(pid, secret.encode()) for pid in live] == [False] * 3
        assert zygotes.holds(live[1], os.fsencode(box.root)), "the search finds what is there"
        boxes.stop(box)


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
    assert zygotes.parent(pid) != zygote
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
    assert zygotes.parent(pid) != zygote
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
        start.warm()
        assert refused(box)

    zygotes.in_child(filtered)
    assert zygotes.living() == [zygote]


def refused(box: BoxPaths) -> bool:
    """Whether a request of ours is turned down."""
    reader, writer = os.pipe()
    try:
        return not start._fork_from_zygote(box, writer, writer)
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


@pytest.fixture
def streams() -> Iterator[Streams]:
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    yield Streams(null, null, null)
    os.close(null)


def layer_known(pid: int) -> bool:
    """Whether it watches more than its socket, and no comparison is at work."""
    links = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
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
    time.sleep(0.02)
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
    assert layer_known(only())


# ---- its end


def test_a_changed_source_file_ends_it_and_the_keeper_starts_by_itself(
    box: BoxPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "copy" / "backends"
    copy_to(copy)
    time.sleep(1.2)  # what changed just now would be half in memory
    monkeypatch.setattr(start, "SCRIPT", copy / "keeper" / "__main__.py")
    with boxes.started(box):
        pid = only()
        assert zygotes.parent(zygotes.keeper_of(box)) == pid
    file = copy / "keeper" / "recorder.py"
    before = file.stat()
    file.write_bytes(file.read_bytes()[:-1] + b"\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not forked(box, pid)
    wait_until(lambda: gone(pid), "the old one ends")
    assert "has changed" not in log(), "it is no failure"


def test_a_program_that_changes_while_it_is_loaded_is_not_served(
    box: BoxPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "copy" / "backends"
    copy_to(copy)
    (copy / "trace.py").touch()
    monkeypatch.setattr(start, "SCRIPT", copy / "keeper" / "__main__.py")
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
    wait_until(lambda: zygotes.living() == [], "it ends at its first request")


def test_it_ends_with_its_socket(box: BoxPaths, zygote: int) -> None:
    start.zygote_path().unlink()
    wait_until(lambda: gone(zygote), "it ends")
    with boxes.started(box):
        assert only() != zygote


def test_a_socket_in_place_of_its_own_is_not_removed(zygote: int) -> None:
    path = start.zygote_path()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path) + "x")
        os.rename(str(path) + "x", path)
        wait_until(lambda: gone(zygote), "it ends")
        assert path.exists()


def test_keepers_outlive_it(box: BoxPaths, zygote: int) -> None:
    with boxes.started(box) as keeper:
        assert zygotes.parent(zygotes.keeper_of(box)) == zygote
        os.kill(zygote, signal.SIGKILL)
        wait_until(lambda: gone(zygote), "it is gone")
        assert sh(keeper, "echo lives").out == b"lives\n"
    assert liveness.read(box).kind == ""


def test_one_that_is_killed_with_a_request_at_hand_costs_a_cold_start(box: BoxPaths, zygote: int) -> None:
    os.kill(zygote, signal.SIGSTOP)
    killer = threading.Timer(0.3, os.kill, (zygote, signal.SIGKILL))
    killer.start()
    assert not forked(box, zygote)
    killer.join()


def test_one_that_stands_still_costs_its_patience_and_nothing_later(
    box: BoxPaths, zygote: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "ZYGOTE_PATIENCE", 0.3)
    os.kill(zygote, signal.SIGSTOP)
    assert not forked(box, zygote)
    launches = len(boxes.records(box, "launch"))
    os.kill(zygote, signal.SIGCONT)
    wait_until(lambda: "nobody waits" in log(), "the request that was given up is dropped")
    assert liveness.read(box).kind == "", "it did not start the box again"
    assert len(boxes.records(box, "launch")) == launches
    monkeypatch.undo()


def test_a_keeper_s_failure_is_told_at_once_though_a_zygote_stands_still(
    box: BoxPaths, zygote: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that was given up holds a copy of what it was sent."""
    monkeypatch.setattr(start, "ZYGOTE_PATIENCE", 0.2)
    monkeypatch.setattr(start, "_spawn", lambda *_: None)  # one that ends without a word
    monkeypatch.setattr(start, "START_TIMEOUT", 20.0)
    os.kill(zygote, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(ClocheError) as raised:
            start.launch(box)
        assert raised.value.code == "keeper-failure"
        assert time.monotonic() - began < 15
    finally:
        os.kill(zygote, signal.SIGCONT)
    wait_until(lambda: "nobody waits" in log(), "the request is dropped")


# ---- who asks, and how


@pytest.mark.boundary
def test_the_same_uid_in_another_user_namespace_gets_no_keeper(zygote: int) -> None:
    assert answer_to_a_child(start.zygote_path(), CLONE_NEWUSER, fork=False) == b"hung up"
    assert answer_to_a_child(start.zygote_path(), CLONE_NEWUSER | CLONE_NEWPID, fork=True) == b"hung up"
    wait_until(lambda: "another user namespace" in log(), "it says why")


@ROOT_ONLY
@pytest.mark.boundary
def test_another_pid_namespace_gets_no_keeper(zygote: int) -> None:
    assert answer_to_a_child(start.zygote_path(), CLONE_NEWPID, fork=True) == b"hung up"
    wait_until(lambda: "another pid namespace" in log(), "it says why")


@pytest.mark.boundary
def test_a_box_reaches_neither_its_socket_nor_its_process(box: BoxPaths, zygote: int) -> None:
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(start.zygote_path())!r})"
    with boxes.started(box) as keeper:
        ran = boxes.run(keeper, "/usr/bin/python3", "-c", code)
        assert ran.exit == 1 and b"FileNotFoundError" in ran.err
        assert b"zygote" not in sh(keeper, "cat /proc/[0-9]*/comm").out
        assert sh(keeper, f"kill -9 {zygote}; cat /proc/{zygote}/maps").exit != 0
    assert not gone(zygote)


def ask(data: bytes, fds: int, *, finish: bool = True) -> bytes:
    """Send what is no proper request; the answer."""
    reader, writer = os.pipe()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(str(start.zygote_path()))
        try:
            sock.sendmsg([data], protocol.rights([writer] * fds))
            if finish:
                sock.shutdown(socket.SHUT_WR)
            return sock.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            return b""
        finally:
            os.close(reader)
            os.close(writer)


PROPER = protocol.encode({"root": "/nonexistent/box", "env": {}})
MALFORMED: dict[str, tuple[bytes, int]] = {
    "no descriptors": (PROPER, 0),
    "one descriptor": (PROPER, 1),
    "three descriptors": (PROPER, 3),
    "many descriptors": (PROPER, 200),
    "garbage": (b"\xff\xfe\0\n", 2),
    "no object": (b"[1]\n", 2),
    "deep": (b"[" * 60000 + b"\n", 2),
    "half a line": (PROPER[:-1], 2),
    "nothing in it": (b"{}\n", 2),
    "no text": (protocol.encode({"root": 1, "env": {}}), 2),
    "no environment": (protocol.encode({"root": "/x", "env": []}), 2),
    "a variable of no name": (protocol.encode({"root": "/x", "env": {"a=b": "c"}}), 2),
    "a variable with a NUL": (protocol.encode({"root": "/x", "env": {"a": "\0"}}), 2),
    "a variable that is no text": (protocol.encode({"root": "/x", "env": {"a": "\ud83d"}}), 2),
    "a huge line": (b"x" * 150_000 + b"\n", 2),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_request_neither_ends_nor_holds_it(box: BoxPaths, zygote: int, name: str) -> None:
    held = len(os.listdir(f"/proc/{zygote}/fd"))
    assert ask(*MALFORMED[name], finish=False) == b""
    assert forked(box, zygote)
    wait_until(lambda: len(os.listdir(f"/proc/{zygote}/fd")) == held, "no descriptor stays")


def test_a_root_with_a_nul_or_without_a_box_is_the_keeper_s_failure_alone(box: BoxPaths, zygote: int) -> None:
    for root in ("/nonexistent/\0box", "/nonexistent/box", ""):
        assert ask(protocol.encode({"root": root, "env": {}}), 2, finish=False) in (b'{"ok":true}\n', b"")
    assert forked(box, zygote)


def test_a_client_that_says_nothing_delays_the_others_and_no_more(box: BoxPaths, zygote: int) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(start.zygote_path()))
        assert forked(box, zygote)


def test_two_hundred_requests_leave_no_descriptor_and_no_child(box: BoxPaths, zygote: int) -> None:
    held = len(os.listdir(f"/proc/{zygote}/fd"))
    kinds = list(MALFORMED.values())
    for number in range(180):
        ask(*kinds[number % len(kinds)], finish=False)
    for _ in range(20):
        assert ask(PROPER, 2, finish=False) == b'{"ok":true}\n'
    wait_until(lambda: zygotes.children(zygote) == [], "no keeper and no zombie is left")
    assert len(os.listdir(f"/proc/{zygote}/fd")) == held
    assert forked(box, zygote)
    wait_until(lambda: zygotes.children(zygote) == [], "an ended keeper is nobody's zombie")


def test_a_starter_keeps_no_zombie(box: BoxPaths, zygote: int) -> None:
    assert start._started == []
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


# ---- its files


@pytest.mark.parametrize("suffix", [".sock", ".lock", ".log"])
@pytest.mark.parametrize("how", ["folder", "link", "hanging link", "pipe"])
def test_what_lies_at_its_paths_is_not_followed(
    box: BoxPaths, tmp_path: Path, suffix: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "ZYGOTE_PATIENCE", 1.0)
    victim = tmp_path / "victim"
    path = start.zygote_path().with_suffix(suffix)
    if how == "folder":
        path.mkdir()
        (path / "kept").touch()
    elif how == "pipe":
        os.mkfifo(path)
    else:
        if how == "link":
            victim.write_text("mine")
        path.symlink_to(victim)
    with boxes.started(box) as keeper:
        assert sh(keeper, "echo works").out == b"works\n"
    if how == "link":
        assert victim.read_text() == "mine"
    elif how == "hanging link":
        assert not victim.exists()
    elif how == "folder":
        assert (path / "kept").exists()
        if suffix != ".sock":
            assert "no zygote" in box.keeper_log.read_text()
    start.sweep()


def test_files_of_ended_ones_are_swept_away_and_those_of_living_ones_stay(box: BoxPaths, zygote: int) -> None:
    names = {path.suffix for path in runtime_dir().glob("zygote-*")}
    assert names == {".sock", ".lock", ".log"}
    assert start.sweep() == 0
    assert {path.suffix for path in runtime_dir().glob("zygote-*")} == names
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: gone(zygote), "it is gone")
    (runtime_dir() / "probe-1").mkdir()
    assert start.sweep() == 1
    assert [path.name for path in runtime_dir().iterdir() if path.name.startswith("zygote")] == []
    assert (runtime_dir() / "probe-1").is_dir()
    assert start.sweep() == 0
    with boxes.started(box):
        assert only() != zygote


def test_a_lock_that_is_swept_away_before_it_is_had_is_not_taken(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runtime_dir() / "zygote-0.lock"
    real, swept = fcntl.flock, []

    def flock(fd: int, kind: int) -> None:
        real(fd, kind)
        if not swept:
            swept.append(fd)
            path.unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    fd = start._lock(path)
    assert os.path.samestat(os.fstat(fd), path.stat()), "the one that the next starter finds"
    assert start._lock(path) == -1
    os.close(fd)


def test_commands_that_list_and_collect_pay_no_heed_to_it(
    cli: Callable[..., support.Done], box: BoxPaths, zygote: int
) -> None:
    assert cli("gc").out == ""
    assert "zygote" not in cli("ls", "--json").out
    assert "zygote" not in cli("doctor", box.name).out
    assert not gone(zygote)
    assert forked(box, zygote)
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: gone(zygote), "it is gone")
    assert cli("gc").out == ""
    assert not list(runtime_dir().glob("zygote-*"))


def test_silence_is_waited_for_without_work(zygote: int) -> None:
    """In poll(2), with nothing to do: its processor time stands still."""

    def used() -> bytes:
        return b" ".join(Path(f"/proc/{zygote}/stat").read_bytes().rpartition(b")")[2].split()[11:13])

    time.sleep(1.5)
    before = used()
    select.select([], [], [], 1.0)
    assert used() == before
