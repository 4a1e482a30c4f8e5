"""The keeper's loop and what it serves: pumps to and from clients, its log, its peers, the size of a box."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

import pytest

from backends.keeper import disk, peer
from backends.keeper.ends import End, Ended
from backends.keeper.log import Log
from backends.keeper.loop import READ, Loop
from backends.keeper.relay import InPump, OutPump
from backends.keeper.ring import Ring
from tests import support


def test_a_callback_that_raises_costs_only_itself() -> None:
    reports: list[str] = []
    loop = Loop(lambda where, error: reports.append(f"{type(error).__name__}"))
    pairs = [os.pipe() for _ in range(2)]
    served: list[int] = []

    def bad(_events: int) -> None:
        raise ValueError("bad")

    loop.add(pairs[0][0], READ, bad)
    loop.add(pairs[1][0], READ, lambda _events: served.append(len(os.read(pairs[1][0], 10))))
    loop.later(0.0, lambda: (_ for _ in ()).throw(KeyError("timer")))
    for _, writer in pairs:
        os.write(writer, b"x")
    for _ in range(3):
        loop.step(0.01)
    assert served == [1]
    assert sorted(reports) == ["KeyError", "ValueError"]
    for pair in pairs:
        for fd in pair:
            os.close(fd)


def test_timers_run_in_order_and_cancelled_ones_never() -> None:
    loop = Loop(lambda _where, error: pytest.fail(str(error)))
    order: list[str] = []
    loop.later(0.02, lambda: order.append("late"))
    loop.later(0.01, lambda: order.append("early"))
    loop.later(0.005, lambda: order.append("never")).cancel()
    loop.later(0.03, loop.stop)
    loop.run()
    assert order == ["early", "late"]


def spin(loop: Loop, rounds: int = 50) -> None:
    for _ in range(rounds):
        loop.step(0)


def test_output_waits_for_a_slow_client_and_loses_nothing() -> None:
    loop = Loop(lambda where, error: pytest.fail(f"{where}: {error}"))
    box, client = os.pipe(), os.pipe()
    kept = Ring(1 << 20)
    pump = OutPump(loop, box[0], End(client[1], writing=True), kept.add, lambda _p: None, lambda: None)
    os.set_blocking(box[1], False)
    sent = 0
    data = os.urandom(4096)
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            sent += os.write(box[1], data)
        spin(loop, 2)
    assert pump.busy
    assert sent < 300_000, "the box has to wait"
    os.close(box[1])
    got = 0
    while not (pump.ended and not pump.busy):
        got += len(os.read(client[0], 65536))
        spin(loop)
    pump.detach()
    while chunk := os.read(client[0], 65536):
        got += len(chunk)
    assert got == sent == kept.total
    os.close(client[0])


def test_a_client_s_broken_pipe_is_told_once() -> None:
    loop = Loop(lambda where, error: pytest.fail(f"{where}: {error}"))
    box, client = os.pipe(), os.pipe()
    broken: list[OutPump] = []
    pump = OutPump(loop, box[0], End(client[1], writing=True), lambda _d: None, broken.append, lambda: None)
    os.close(client[0])
    for _ in range(3):
        os.write(box[1], b"x")
        spin(loop)
    assert broken == [pump]
    pump.close()
    with pytest.raises(BrokenPipeError):
        os.write(box[1], b"x")
    os.close(box[1])


def test_input_waits_for_a_box_that_does_not_read() -> None:
    loop = Loop(lambda where, error: pytest.fail(f"{where}: {error}"))
    client, box = os.pipe(), os.pipe()
    pump = InPump(loop, End(client[0], writing=False), box[1])
    os.set_blocking(client[1], False)
    sent = 0
    for _ in range(200):
        with contextlib.suppress(BlockingIOError):
            sent += os.write(client[1], b"y" * 4096)
        spin(loop, 2)
    assert sent < 400_000
    os.close(client[1])
    got = 0
    while chunk := _next(loop, box[0]):
        got += len(chunk)
    assert got == sent
    assert pump.ended
    os.close(box[0])


def _next(loop: Loop, fd: int) -> bytes:
    spin(loop)
    return os.read(fd, 65536)


@pytest.mark.parametrize("kind", ["pipe", "socket", "file", "null", "terminal"])
def test_ends_of_every_kind_never_wait_and_keep_their_flags(kind: str, tmp_path: Path) -> None:
    others: list[int] = []
    if kind == "pipe":
        other, fd = os.pipe()
        others.append(other)
    elif kind == "socket":
        pair = socket.socketpair()
        fd = pair[0].detach()
        others.append(pair[1].detach())
    elif kind == "file":
        fd = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
    elif kind == "null":
        fd = os.open(os.devnull, os.O_WRONLY)
    else:
        other, fd = os.openpty()
        others.append(other)
    watch = os.dup(fd)
    end = End(fd, writing=True)
    total = 0
    try:
        for _ in range(2000):
            total += end.write(memoryview(b"z" * 1000))
    except BlockingIOError:
        assert kind in ("pipe", "socket", "terminal")
    assert total > 0
    assert os.get_blocking(watch)
    end.close()
    for other in (*others, watch):
        os.close(other)


def test_writing_where_nobody_reads_is_an_end() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    end = End(writer, writing=True)
    with pytest.raises(Ended):
        end.write(memoryview(b"x"))
    end.close()


def test_the_log_collapses_a_cause_and_keeps_one_line_each(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log = Log(fd)
    for number in range(1000):
        log.note(f"client {number} failed\nbadly", "client")
    for _ in range(3):
        try:
            raise ValueError("a secret is in a local")
        except ValueError as error:
            log.failure("somewhere", error)
    lines = path.read_text().splitlines()
    assert len(lines) == 5
    assert lines[0].endswith("client 0 failed\\nbadly")
    assert lines[3].endswith("(1000 times)")
    assert Path(__file__).name in lines[4]
    os.close(fd)


def test_a_peer_of_ours_is_let_in() -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        assert peer.identify(mine) == peer.Peer(os.getpid(), os.geteuid())


# ---------------------------------------------------------------- disk


def test_what_a_folder_holds_is_measured_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 100_000)
    os.link(tmp_path / "a" / "file", tmp_path / "a" / "again")
    os.symlink("/usr", tmp_path / "a" / "usr")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(tmp_path / "fifo")
    total = sum(disk.measure(str(tmp_path)))
    assert 100_000 <= total < 200_000


@pytest.mark.parametrize("mode", [0, 0o300, 0o400, 0o100])
def test_a_closed_folder_hides_nothing_and_stays_closed(tmp_path: Path, mode: int) -> None:
    (tmp_path / "closed" / "below").mkdir(parents=True)
    (tmp_path / "closed" / "below" / "file").write_bytes(b"x" * 300_000)
    for folder in (tmp_path / "closed" / "below", tmp_path / "closed"):
        folder.chmod(mode)
    open_before = support.descriptors()
    try:
        assert sum(disk.measure(str(tmp_path))) >= 300_000
        assert sum(disk.measure(str(tmp_path / "closed"))) >= 300_000
        assert stat.S_IMODE((tmp_path / "closed").stat().st_mode) == mode
    finally:
        (tmp_path / "closed").chmod(0o700)
        assert stat.S_IMODE((tmp_path / "closed" / "below").stat().st_mode) == mode
        (tmp_path / "closed" / "below").chmod(0o700)
    assert support.descriptors() == open_before


def test_folders_nested_without_end_are_told(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(disk.MAX_DEPTH + 20):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    open_before = support.descriptors()
    with pytest.raises(disk.TooDeep):
        sum(disk.measure(str(tmp_path)))
    assert support.descriptors() == open_before
