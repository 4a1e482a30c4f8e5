"""The process that keepers are forked from: what it passes on, when it ends, and what it survives."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths, runtime_dir
from backends.errors import ClocheError
from backends.keeper import client, start
from tests.conftest import Home
from tests.keeper import boxes, zygotes
from tests.keeper.boxes import sh
from tests.keeper.zygotes import ROOT_ONLY, copy_to, forked, gone, log, only
from tests.support import wait_until

pytestmark = pytest.mark.usefixtures("program")


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
@pytest.mark.parametrize("spare", [True, False], ids=["a spare", "no spare"])
def test_a_forked_keeper_is_as_one_that_started_by_itself(
    home: Home, zygote: int, monkeypatch: pytest.MonkeyPatch, *, spare: bool
) -> None:
    one, other = zygotes.fresh(1), zygotes.fresh(2)
    waiting = zygotes.spare(zygote)
    if not spare:
        os.kill(waiting, signal.SIGKILL)
        wait_until(lambda: gone(waiting), "there is no spare")
    with boxes.started(one) as keeper:
        keeper.call("hello")
        pid = zygotes.keeper_of(one)
        assert zygotes.origin(pid) == zygote and (pid == waiting) is spare
        from_zygote = zygotes.portrait(pid, "box1")
        spaces = zygotes.namespaces(pid)
        init_from_zygote = zygotes.portrait(zygotes.init_of(one), "box1") if os.geteuid() == 0 else {}
    monkeypatch.setenv(start.ZYGOTE_VARIABLE, "0")
    with boxes.started(other) as keeper:
        keeper.call("hello")
        pid = zygotes.keeper_of(other)
        assert zygotes.origin(pid) != zygote
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
    with boxes.started(box) as keeper:
        keeper.call("hello")
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

    try:
        with boxes.started(one) as keeper:
            keeper.call("hello")
            assert pipe not in zygotes.links(only()).values()
            assert pipe not in zygotes.links(zygotes.keeper_of(one)).values()
        monkeypatch.setenv(start.ZYGOTE_VARIABLE, "0")
        with boxes.started(other) as keeper:
            keeper.call("hello")
            assert pipe not in zygotes.links(zygotes.keeper_of(other)).values()
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
        assert zygotes.origin(zygotes.keeper_of(box)) == pid
    file = copy / "keeper" / "recorder.py"
    before = file.stat()
    file.write_bytes(file.read_bytes()[:-1] + b"\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not forked(box, pid)
    wait_until(lambda: gone(pid), "the old one ends")
    assert "has changed" not in log(), "it is no failure"


def test_a_changed_source_file_ends_it_though_whoever_asked_has_given_up(
    box: BoxPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "copy" / "backends"
    copy_to(copy)
    time.sleep(1.2)  # what changed just now would be half in memory
    monkeypatch.setattr(start, "SCRIPT", copy / "keeper" / "__main__.py")
    with boxes.started(box):
        pid = only()
    (copy / "keeper" / "recorder.py").touch()
    os.kill(pid, signal.SIGSTOP)
    with socket.socket(socket.AF_UNIX) as impatient:
        impatient.connect(str(start.zygote_path()))
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: gone(pid), "it ends")


def test_a_program_that_changes_while_it_is_loaded_is_not_served(
    box: BoxPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "copy" / "backends"
    copy_to(copy)
    monkeypatch.setattr(start, "SCRIPT", copy / "keeper" / "__main__.py")
    over = threading.Event()

    def change() -> None:
        while not over.wait(0.05):  # however long it takes until it is loaded
            (copy / "trace.py").touch()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        with boxes.started(box) as keeper:
            assert sh(keeper, "echo works").out == b"works\n"
    finally:
        over.set()
        changing.join()
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
        assert zygotes.origin(zygotes.keeper_of(box)) == zygote
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
    monkeypatch.setattr(start, "START_TIMEOUT", 60.0)
    os.kill(zygote, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(ClocheError) as raised:
            start.launch(box)
        assert raised.value.code == "keeper-failure"
        assert time.monotonic() - began < 50
    finally:
        os.kill(zygote, signal.SIGCONT)
    wait_until(lambda: "nobody waits" in log(), "the request is dropped")
