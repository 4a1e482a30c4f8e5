"""What all programs of one user share: descriptors in sockets, memory, inodes, /tmp. No box may take it."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backends.boxes import layout, liveness
from backends.boxes.layout import BoxPaths
from backends.errors import Busy, Refused
from backends.keeper import address, client, disk
from backends.keeper.client import KeeperClient
from tests.conftest import Home
from tests.keeper import boxes
from tests.keeper.boxes import Running, run, sh
from tests.support import wait_until

PYTHON = "/usr/bin/python3"
unprivileged = pytest.mark.skipif(os.geteuid() == 0, reason="needs an unprivileged user")

SOFT = 1024

# ---------------------------------------------------------------- descriptors in flight


@contextmanager
def in_flight(count: int) -> Iterator[None]:
    """``count`` descriptors that wait in sockets, and a soft limit of 1,024 as most programs have it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    null = os.open(os.devnull, os.O_RDONLY)
    pairs = []
    try:
        sent = 0
        while sent < count:
            pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
            pairs[-1][0].setblocking(False)
            for _ in range(10):
                socket.send_fds(pairs[-1][0], [b"x"], [null] * 250)
                sent += 250
        resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, hard))
        yield
    finally:
        for pair in pairs:
            for one in pair:
                one.close()
        os.close(null)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@unprivileged
@pytest.mark.boundary
def test_descriptors_in_flight_beyond_the_soft_limit_shut_nobody_out(keeper: KeeperClient) -> None:
    with in_flight(2 * SOFT):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert sh(keeper, "echo through").out == b"through\n"
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


@unprivileged
@pytest.mark.boundary
def test_a_box_starts_although_descriptors_in_flight_are_beyond_the_soft_limit(box: BoxPaths) -> None:
    with in_flight(2 * SOFT), boxes.started(box) as keeper:
        assert sh(keeper, "ulimit -Hn").out == b"4096\n"


@unprivileged
def test_too_many_descriptors_in_flight_are_named_as_what_they_are(keeper: KeeperClient) -> None:
    with in_flight(1000):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500))
                with pytest.raises(Busy) as caught:
                    keeper.call("run", fds=(0, 1, 2), argv=["true"], env={}, cwd="")
                assert (caught.value.code, caught.value.next_step.split(": ")[1]) == (
                    "descriptors",
                    "cloche ls --all, then cloche stop BOX",
                )
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@unprivileged
def test_a_keeper_that_cannot_pass_descriptors_keeps_its_box(keeper: KeeperClient) -> None:
    number = keeper.call("hello")["keeper"]
    hard = resource.prlimit(number, resource.RLIMIT_NOFILE)[1]
    with in_flight(1000):
        resource.prlimit(number, resource.RLIMIT_NOFILE, (500, hard))
        with pytest.raises(Refused) as caught:
            sh(keeper, "echo never")
        assert "wait in sockets" in caught.value.why
        resource.prlimit(number, resource.RLIMIT_NOFILE, (hard, hard))
        assert sh(keeper, "echo again").out == b"again\n"


# ---------------------------------------------------------------- memory and inodes


@pytest.mark.boundary
def test_memory_in_files_without_a_name_counts_for_the_limit(home: Home) -> None:
    paths = boxes.make(policy=boxes.limited(mem=100 << 20))
    eater = (
        "import os, time\n"
        "fd = os.memfd_create('x')\n"
        "block = b'x' * (1 << 20)\n"
        "for _ in range(160): os.write(fd, block)\n"
        "print('held', flush=True); time.sleep(60)\n"
    )
    with boxes.started(paths) as keeper:
        held = {row[0]: row[4] for row in liveness.read(paths).facts["enforcement"]}
        if "cgroup" in held["resources.mem"]:
            pytest.skip("needs an unprivileged user: a control group holds the memory here")
        innocent = Running(keeper, ["/bin/sleep", "60"])
        assert run(keeper, PYTHON, "-c", eater, limit=50).exit == 137
        rows = {(one["kind"], one["object"], one["count"]) for one in keeper.call("tally")["rows"]}
        assert rows == {("limit", "memory", 1)}
        assert len(keeper.call("processes")["processes"]) == 1
        innocent.drop()


@pytest.mark.boundary
def test_empty_files_count_for_the_disk_limit(home: Home) -> None:
    paths = boxes.make(policy=boxes.limited(disk=8 << 20))
    code = (
        "import time\nfor n in range(6000): open(f'/work/f{n}', 'w').close()\nprint('made'); time.sleep(60)\n"
    )
    with boxes.started(paths) as keeper:
        assert run(keeper, PYTHON, "-c", code, limit=50).exit == 137
        assert [(one["kind"], one["object"]) for one in keeper.call("tally")["rows"]] == [("limit", "disk")]


def test_every_entry_measures_a_page_at_least(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("x")
    os.mkfifo(tmp_path / "fifo")
    assert [*disk.measure(os.fspath(tmp_path))] == [disk.LEAST] * 3


# ---------------------------------------------------------------- the socket folder


@pytest.fixture
def shared(home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The name below /tmp that a user without XDG_RUNTIME_DIR would take; here in a folder of the test."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    place = home.root / "shared"

    def moved(text: str) -> Path:
        return place if text == f"/tmp/cloche-{os.geteuid()}" else Path(text)

    monkeypatch.setattr(layout, "Path", moved)
    return place


def test_the_folder_below_tmp_is_taken_when_it_is_free(shared: Path) -> None:
    assert layout.runtime_dir() == shared
    assert shared.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("squatted", ["link", "file", "other"])
def test_a_name_that_somebody_took_below_tmp_stops_nobody(
    shared: Path, home: Home, monkeypatch: pytest.MonkeyPatch, squatted: str
) -> None:
    if squatted == "link":
        shared.symlink_to(home.root)
    elif squatted == "file":
        shared.touch()
    else:
        shared.mkdir()
        real = os.geteuid()
        if real != 0:
            pytest.skip("needs root, to give a folder away")
        os.chown(shared, 65534, 65534)
    private = home.state / "cloche" / ".run"
    assert layout.runtime_dir() == private
    assert private.stat().st_mode & 0o777 == 0o700
    (shared.rmdir if squatted == "other" else shared.unlink)()
    assert layout.runtime_dir() == private, "and it is kept to"


def test_a_folder_of_ours_that_others_can_enter_is_refused_with_a_remedy_that_works(shared: Path) -> None:
    shared.mkdir()
    shared.chmod(0o770)
    with pytest.raises(Refused) as caught:
        layout.runtime_dir()
    assert caught.value.next_step == f"stop your boxes and remove it: rm -r {shared}"


def test_a_socket_with_a_path_longer_than_an_address_works(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = home.runtime / ("d" * 150)
    deep.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    paths = boxes.make()
    assert len(os.fspath(layout.socket_path(paths))) > address.LONGEST
    with boxes.started(paths) as keeper:
        assert sh(keeper, "echo fine").out == b"fine\n"
        assert layout.socket_path(paths).is_socket()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(home.runtime))
        with client.connect(paths) as other:
            assert other.call("hello")["box"] == paths.key, "what the keeper wrote down counts"
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    wait_until(lambda: not layout.socket_path(paths).exists(), "it is removed")
