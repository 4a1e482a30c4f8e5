"""The keeper's pure parts: framing, rings, counting, rules for paths and addresses, loop and relay."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.evidence.tally import project
from backends.keeper import disk, environment, peer, protocol
from backends.keeper.budget import Budget
from backends.keeper.denials import MAX_KEYS, Denials, Refusal
from backends.keeper.ends import End, Ended
from backends.keeper.limits import described
from backends.keeper.log import Log
from backends.keeper.loop import READ, Loop
from backends.keeper.network import Network
from backends.keeper.protocol import Decoder, ProtocolError
from backends.keeper.reach import EXEC, WRITE, Reach, normal
from backends.keeper.reach import READ as LOOK
from backends.keeper.relay import InPump, OutPump
from backends.keeper.ring import Ring
from backends.keeper.session import exit_code
from backends.kernel.notify import Address
from backends.snapshots import Enforcement, JournalRecord
from tests.keeper.boxes import POLICY, RESOURCES

# ---------------------------------------------------------------- protocol


@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers(), max_size=3), max_size=5
    ),
    st.integers(1, 7),
)
def test_objects_survive_any_cutting_of_the_stream(values: list[dict[str, object]], step: int) -> None:
    stream = b"".join(protocol.encode(value) for value in values)
    decoder = Decoder()
    got = [one for at in range(0, len(stream), step) for one in decoder.feed(stream[at : at + step])]
    assert got == values


def test_bytes_that_are_no_text_survive() -> None:
    value = {"name": b"a\xff\xfe\n".decode("utf-8", "surrogateescape")}
    assert list(Decoder().feed(protocol.encode(value))) == [value]


def test_a_line_without_end_is_refused_before_it_is_held() -> None:
    decoder = Decoder(limit=1000)
    assert list(decoder.feed(b"x" * 1000)) == []
    with pytest.raises(ProtocolError):
        list(decoder.feed(b"x"))


def test_too_many_descriptors_are_refused_and_closed() -> None:
    mine, theirs = socket.socketpair()
    reader, writer = os.pipe()
    with mine, theirs:
        mine.sendmsg([b"x"], protocol.rights([writer] * 9))
        os.close(writer)
        with pytest.raises(ProtocolError):
            protocol.receive(theirs)
    assert os.read(reader, 1) == b""
    os.close(reader)


# ---------------------------------------------------------------- ring


@given(st.lists(st.binary(max_size=300), max_size=40), st.integers(1, 400))
def test_a_ring_keeps_the_end_of_a_stream(chunks: list[bytes], limit: int) -> None:
    ring = Ring(limit)
    for chunk in chunks:
        ring.add(chunk)
    whole = b"".join(chunks)
    assert ring.tail() == whole[-limit:]
    assert ring.tail(7) == whole[-min(7, limit) :]
    assert ring.total == len(whole)
    ring.shrink(3)
    assert ring.tail() == whole[-min(3, limit) :]


def test_a_ring_holds_little_more_than_its_limit_for_single_bytes() -> None:
    ring = Ring(10_000)
    for _ in range(50_000):
        ring.add(b"x")
    assert len(ring.tail(10**9)) == 10_000
    assert len(ring._chunks) < 10


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"", b""),
        (b"\n\n", b""),
        (b"one\ntwo\n\n", b"two"),
        (b"one\rtwo", b"two"),
        (b"no end", b"no end"),
        (b"x" * 9000, b"x" * 4096),
    ],
)
def test_last_line_is_the_last_one_with_text(text: bytes, line: bytes) -> None:
    ring = Ring(100_000)
    ring.add(text)
    assert ring.last_line() == line


# ---------------------------------------------------------------- counting


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2500), st.integers(1, 5), st.booleans()), max_size=400))
def test_no_refusal_is_lost_however_they_come(events: list[tuple[int, int, bool]]) -> None:
    written: list[tuple[str, Mapping[str, object]]] = []
    clock = Clock()
    denials = Denials(lambda kind, data: written.append((kind, dict(data))), clock)
    for number, count, tick in events:
        denials.add(Refusal("fs-write", f"/x{number}", "fs.write", "keeper", "mounts"), 1, "sh", count)
        if tick:
            clock.now += 1
            denials.flush(everything=False)
    denials.flush()
    assert denials.waiting == 0
    records = [JournalRecord(n, 0.0, kind, data, "") for n, (kind, data) in enumerate(written)]
    assert project(records).total == sum(count for _, count, _ in events)


def test_the_first_is_told_at_once_and_repeats_together() -> None:
    written: list[Mapping[str, object]] = []
    denials = Denials(lambda _kind, data: written.append(dict(data)), Clock())
    for number in range(10):
        denials.add(Refusal("syscall", "mount", "no mount", "keeper", "seccomp"), number, "sh")
    assert [one["count"] for one in written] == [1]
    denials.flush()
    assert [(one["count"], one["pid"]) for one in written] == [(1, 0), (9, 9)]
    denials.flush()
    assert len(written) == 2


def test_keys_are_bounded_and_the_rest_is_others() -> None:
    kinds: Counter[str] = Counter()
    denials = Denials(lambda kind, _data: kinds.update([kind]), Clock())
    for number in range(50_000):
        denials.add(Refusal("fs-read", f"/{number}", "fs.read", "keeper", "mounts"), 1, "sh")
        if number % 150 == 149:
            denials.flush()
    assert len(denials._entries) <= MAX_KEYS


def test_a_budget_counts_what_it_does_not_grant() -> None:
    lost: list[object] = []
    budget = Budget("execs", lambda _kind, data: lost.append(data["count"]), per_second=3, in_all=5)
    assert [budget.take() for _ in range(4)] == [True, True, True, False]
    budget.tick()
    assert [budget.take() for _ in range(4)] == [True, True, False, False]
    budget.tick()
    assert lost == [1, 2]
    assert budget.take() is False


# ---------------------------------------------------------------- rules


REACH = Reach(
    POLICY._replace(
        fs=POLICY.fs._replace(
            read=("/usr", "/etc/alternatives", "/opt/tools"),
            write=("/srv/data", "/opt/tools/cache"),
            deny=("/usr/share/secret", "/home/me/.ssh", "/srv/data/key"),
        )
    ),
    "/work",
    "/home/box",
    "/home/me",
)


@pytest.mark.parametrize(
    ("path", "want", "allowed", "rule"),
    [
        ("/work/src/a.py", WRITE, True, "fs.read"),
        ("/work", LOOK, True, "fs.read"),
        ("/workshop", LOOK, False, "fs.read"),
        ("/tmp/x", WRITE, True, "fs.read"),
        ("/dev/null", WRITE, True, "devices"),
        ("/dev/sda", LOOK, False, "fs.read"),
        ("/dev/sda", WRITE, False, "fs.write"),
        ("/usr/bin/env", LOOK, True, "fs.read"),
        ("/usr/bin/env", EXEC, True, "fs.read"),
        ("/usr/bin/env", WRITE, False, "fs.write"),
        ("/usr/share/secret", LOOK, False, "fs.deny = /usr/share/secret"),
        ("/usr/share/secret/key", WRITE, False, "fs.deny = /usr/share/secret"),
        ("/usr/share/secrets", LOOK, True, "fs.read"),
        ("/srv/data/file", WRITE, True, "fs.write"),
        ("/srv/data/key", WRITE, False, "fs.deny = /srv/data/key"),
        ("/opt/tools/cache/x", WRITE, True, "fs.write"),
        ("/opt/tools/bin", WRITE, False, "fs.write"),
        ("/opt", LOOK, True, "folders"),
        ("/opt", WRITE, False, "fs.write"),
        ("/", LOOK, True, "folders"),
        ("/etc/passwd", LOOK, True, "fs.read"),
        ("/etc/passwd", WRITE, False, "fs.write"),
        ("/etc/shadow", LOOK, False, "fs.read"),
        ("/root/.ssh/id_rsa", LOOK, False, "fs.read"),
        ("/proc/self/status", LOOK, True, "proc"),
        ("/proc/12/oom_score_adj", WRITE, True, "proc"),
        ("/proc/sys/kernel/core_pattern", WRITE, False, "fs.write"),
    ],
)
def test_what_a_path_can_do(path: str, want: str, allowed: bool, rule: str) -> None:
    verdict = REACH.judge(os.fsencode(path), want)
    assert (verdict.allowed, verdict.rule) == (allowed, rule)


def test_a_masked_place_of_the_person_s_home_is_known_in_the_box_s() -> None:
    assert REACH.masked_in_home(b"/home/box/.ssh/id_rsa") == "/home/me/.ssh"
    assert REACH.masked_in_home(b"/home/box/.bashrc") == ""
    assert REACH.masked_in_home(b"/home/me/.ssh") == ""


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (b"/a/../b", b"/b"),
        (b"/../../x", b"/x"),
        (b"//a///./b/", b"/a/b"),
        (b"/", b"/"),
        (b"", b"/"),
        (b"/a/\xff/..", b"/a"),
    ],
)
def test_paths_are_put_in_normal_form_by_text(given: bytes, meant: bytes) -> None:
    assert normal(given) == meant


@pytest.mark.parametrize(
    ("text", "port", "shown"),
    [
        ("93.184.216.34", 443, "93.184.216.34:443"),
        ("2001:db8::1", 80, "[2001:db8::1]:80"),
        ("127.0.0.1", 80, None),
        ("::1", 80, None),
        ("::ffff:127.0.0.9", 80, None),
        ("0.0.0.0", 80, None),
        ("::ffff:169.254.169.254", 80, "[::ffff:169.254.169.254]:80"),
        ("10.0.0.2", 53, "10.0.0.2:53 (name server)"),
        ("127.0.0.53", 53, "127.0.0.53:53 (name server)"),
        ("", 0, None),
    ],
)
def test_destinations_beyond_the_box(text: str, port: int, shown: str | None) -> None:
    refusal = Network(POLICY).judge(Address(socket.AF_INET, text, port))
    assert (refusal.object if refusal else None) == shown


def test_with_the_host_s_network_no_destination_is_refused() -> None:
    network = Network(POLICY._replace(net=POLICY.net._replace(mode="host")))
    assert network.judge(Address(socket.AF_INET, "93.184.216.34", 443)) is None


def test_the_environment_is_the_box_s_own_and_the_pass_list() -> None:
    policy = POLICY._replace(
        env=POLICY.env._replace(passed=("EDITOR", "LC_*"), set=(("CI", "1"), ("EDITOR", "ed")))
    )
    caller = {
        "EDITOR": "vi",
        "LC_TIME": "C",
        "LD_PRELOAD": "/x.so",
        "HOME": "/root",
        "TERM": "xterm",
        "PATH": "/evil",
    }
    env = environment.compose(
        policy, caller, box="k/b", home="/home/box", shell="/bin/sh", pty=False, confined=True
    )
    assert env == {
        "HOME": "/home/box", "USER": "box", "LOGNAME": "box", "SHELL": "/bin/sh", "LANG": "C.UTF-8",
        "PATH": environment.PATH, "LC_TIME": "C", "CI": "1", "EDITOR": "ed", "CLOCHE_BOX": "k/b",
    }  # fmt: skip
    assert (
        environment.compose(policy, caller, box="b", home="/h", shell="/bin/sh", pty=True, confined=True)[
            "TERM"
        ]
        == "xterm"
    )


@pytest.mark.parametrize(
    ("status", "code"), [(0, 0), (3 << 8, 3), (9, 137), (15 | 0x80, 143), (255 << 8, 255)]
)
def test_exit_codes_are_a_shell_s(status: int, code: int) -> None:
    assert exit_code(status) == code


def test_soft_limits_say_who_holds_them() -> None:
    rows = (
        Enforcement(
            "resources.mem", "64 MiB", "soft: 64 MiB in each process", "no cgroup", "RLIMIT_DATA", ""
        ),
        Enforcement("resources.disk", "1 GiB", "not enforced", "no quota", "", ""),
        Enforcement("net.mode", "deny", "no network", "", "network namespace", ""),
    )
    got = described(rows, RESOURCES._replace(mem=64 << 20, disk=1 << 30))
    assert "soft" in got[0].enforced and "keeper" in got[0].mechanism and got[0].missing == "no cgroup"
    assert got[1].enforced.startswith("soft") and "keeper" in got[1].mechanism
    assert got[2] == rows[2]
    held = (rows[0]._replace(mechanism="cgroup v2 memory"),)
    assert described(held, RESOURCES._replace(mem=64 << 20)) == held


# ---------------------------------------------------------------- loop, relay, log


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
    assert "test_parts.py" in lines[4]
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


def test_folders_nested_without_end_are_told(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(disk.MAX_DEPTH + 20):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(disk.TooDeep):
        sum(disk.measure(str(tmp_path)))
    assert len(os.listdir("/proc/self/fd")) == open_before
