"""The keeper's pure parts: framing, rings, counting, rules for paths and addresses."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.evidence.tally import project
from backends.keeper import environment, protocol
from backends.keeper.budget import Budget
from backends.keeper.denials import MAX_KEYS, Denials, Refusal
from backends.keeper.limits import described
from backends.keeper.network import Network
from backends.keeper.protocol import Decoder, ProtocolError
from backends.keeper.reach import EXEC, WRITE, Reach, normal
from backends.keeper.reach import READ as LOOK
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
        ("::ffff:169.254.169.254", 80, "[::ffff:169.254.169.254]:80 (a cloud's metadata service)"),
        ("64:ff9b::a9fe:a9fe", 80, "[64:ff9b::a9fe:a9fe]:80 (a cloud's metadata service)"),
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
