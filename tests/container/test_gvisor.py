"""``runtime = "gvisor"``: the box's system calls are taken by another kernel."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.container import gvisor, gvisor_call, gvisor_watch, inspection, runtimes
from backends.container.podman import Podman
from backends.kernel import procfs
from backends.values import Enforcement
from tests import support
from tests.container.test_deaths import containers
from tests.container.test_terminal import Screen
from tests.container.world import ROOTFUL, World

PROFILE = "sentry"


@pytest.fixture(scope="module")
def box(world: World) -> Path:
    if ROOTFUL:
        pytest.skip("needs an unprivileged user: gVisor is driven rootless only")
    if runtimes.program(gvisor_call.NAME) is None:
        pytest.skip("no runsc is installed")
    world.profile(PROFILE, 'runtime = "gvisor"')
    return world.new("sentry", profile=PROFILE)


def test_the_kernel_inside_is_another_one_and_is_shown_everywhere(world: World, box: Path) -> None:
    inside = world.cloche("run", "sentry", "--", "uname", "-r").out.strip()
    assert inside and inside != os.uname().release
    live = world.live(box)
    assert live["facts"]["runtime"] == "gvisor" and live["facts"]["kernel"] == inside
    shown = world.cloche("status", "sentry").out
    assert "taken by gVisor's kernel" in shown and "set-id bits can be set" in shown
    assert "another kernel than the host's" in shown and "No new namespace" not in shown


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("sh", "-c", "exit 7"), 7),
        (("no-such-program",), 127),
        (("/etc/passwd",), 126),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
        (("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
    ],
)
def test_a_command_ends_as_it_would_on_the_host(
    world: World, box: Path, argv: tuple[str, ...], code: int
) -> None:
    assert world.cloche("run", "sentry", "--", *argv).code == code


def test_streams_and_files_are_the_boxs(world: World, box: Path) -> None:
    done = world.cloche("run", "sentry", "--", "sh", "-c", "cat; echo err >&2; echo it > made", stdin=b"in\n")
    assert (done.code, done.out, done.err) == (0, "in\n", "err\n")
    made = box / "tree" / "made"
    assert made.read_text() == "it\n" and made.stat().st_uid == os.getuid()


def test_what_it_refuses_is_refused(world: World, box: Path) -> None:
    script = (
        "mount -t tmpfs none /tmp; echo $?; mknod d c 1 3; echo $?; touch /etc/x; echo $?;"
        "kill -9 1; echo $?; wget -q -T 3 -O - http://192.0.2.1/; echo $?"
    )
    answers = world.cloche("run", "sentry", "--", "sh", "-c", script).out.split()
    assert len(answers) == 5 and "0" not in answers, answers
    assert not (box / "tree" / "d").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_the_command_which_may_do_something_on_it(
    world: World, box: Path, number: signal.Signals
) -> None:
    name = number.name.removeprefix("SIG")
    text = f"trap 'echo heard; exit 3' {name}; echo ready; while :; do sleep 0.1; done"
    argv = support.cloche_argv("run", "sentry", "--", "sh", "-c", text)
    with subprocess.Popen(
        argv, cwd=world.repo, env={**os.environ, **world.env}, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        client.send_signal(number)
        assert client.stdout.read() == "heard\n"
        assert client.wait(30) == 3


def test_a_command_whose_process_on_the_host_is_ended_ends_inside(world: World, box: Path) -> None:
    argv = support.cloche_argv("run", "sentry", "--", "sleep", "4714")
    client = subprocess.Popen(argv, cwd=world.repo, env={**os.environ, **world.env})
    try:
        support.wait_until(lambda: _inside(world) == 1, "the command runs", timeout=30)
        client.send_signal(signal.SIGTERM)
        support.wait_until(lambda: _inside(world) == 0, "the command has ended", timeout=30)
    finally:
        client.kill()
        client.wait()


def _inside(world: World) -> int:
    done = world.cloche("run", "sentry", "--", "sh", "-c", "ps | grep -c '[s]leep 4714'")
    return int(done.out)


def test_a_shell_has_a_terminal_with_size_and_interrupts(world: World, box: Path) -> None:
    assert world.cloche("run", "sentry", "--", "true").code == 0
    screen = Screen(world, "shell", "sentry")
    screen.until("$ ")
    screen.type("[ -t 0 ] && stty size\n")
    screen.until("30 90")
    screen.resize(44, 101)
    screen.type("sleep 0.5; stty size\n")
    screen.until("44 101")
    screen.type("sleep 4716\n")
    screen.until("sleep 4716")
    time.sleep(0.5)
    screen.type("\x03")
    screen.type("echo code $?\n")
    screen.until("code 130")
    screen.type("sh -c \"trap 'echo wi''nched; exit' WINCH; echo re''ady; while :; do sleep 0.1; done\"\n")
    screen.until("ready")
    screen.resize(45, 102)
    screen.until("winched")
    screen.type("exit 5\n")
    assert screen.exit() == 5


def test_a_frozen_box_is_read_and_goes_on(world: World, box: Path) -> None:
    assert world.cloche("run", "sentry", "--", "sh", "-c", "echo proposed > proposed").code == 0
    done = world.cloche("diff", "sentry")
    assert done.code == 0 and "proposed" in done.out, done.err
    assert world.cloche("run", "sentry", "--", "true").code == 0


class Parts:
    """The host's processes of one live box, by name."""

    def __init__(self, world: World, box: Path) -> None:
        live = world.live(box)
        self.idents = {"keeper": live["keeper"], "steward": live["init"], "watch": live["beside"][0]}
        self.idents["sandbox"] = next(_sandboxes(world))

    def kill(self, names: tuple[str, ...]) -> None:
        for name in names:
            os.kill(self.idents[name]["pid"], signal.SIGKILL)

    def alive(self) -> list[str]:
        return [name for name, ident in self.idents.items() if support.is_alive(ident)]


def _sandboxes(world: World) -> Iterator[dict[str, int]]:
    for pid, stat in procfs.scan().stats.items():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[0] == b"runsc-sandbox" and os.fsencode(world.root) in words[1]:
                yield {"pid": pid, "start": stat.start}


@pytest.mark.parametrize(
    "names",
    [("keeper",), ("steward",), ("sandbox",), ("steward", "keeper"), ("watch", "keeper")],
    ids="-".join,
)
def test_a_killed_part_takes_all_others_along(world: World, box: Path, names: tuple[str, ...]) -> None:
    started = world.cloche("run", "sentry", "--", "true")
    assert started.code == 0, started.err
    parts = Parts(world, box)
    assert len(parts.alive()) == 4
    parts.kill(names)
    support.wait_until(lambda: not parts.alive(), "every part has ended", timeout=30)
    if names != ("steward", "keeper"):
        support.wait_until(lambda: not containers(world), "no container is left", timeout=30)
    again = world.cloche("run", "sentry", "--", "echo", "again")
    assert (again.code, again.out) == (0, "again\n"), again.err
    assert world.cloche("stop", "sentry").code == 0
    assert world.left() == []
    assert not list(_sandboxes(world))


@pytest.mark.parametrize("by", ["gc", "run"])
def test_a_sandbox_whose_watchers_were_all_killed_is_ended_by_gc_or_the_next_launch(
    world: World, box: Path, by: str
) -> None:
    assert world.cloche("run", "sentry", "--", "true").code == 0
    parts = Parts(world, box)
    parts.kill(("watch", "steward", "keeper"))
    support.wait_until(lambda: parts.alive() == ["sandbox"], "all others have ended", timeout=30)
    done = world.cloche("gc") if by == "gc" else world.cloche("run", "sentry", "--", "echo", "again")
    assert done.code == 0, done.err
    assert not parts.alive()
    assert world.cloche("run", "sentry", "--", "true").code == 0
    assert world.cloche("stop", "sentry").code == 0
    assert world.left() == []


def test_what_a_command_left_running_is_seen_and_keeps_the_box_from_being_idle(
    world: World, box: Path
) -> None:
    assert world.cloche("run", "sentry", "--", "true").code == 0
    support.wait_until(lambda: _state(world) == "idle", "it is idle")
    text = "sleep 12 </dev/null >/dev/null 2>&1 & echo left"
    assert world.cloche("run", "sentry", "--", "sh", "-c", text).out == "left\n"
    support.wait_until(lambda: "left running" in world.cloche("ps", "sentry").out, "it is shown")
    support.wait_until(lambda: _state(world) == "running", "it is not idle", timeout=8)
    support.wait_until(lambda: _state(world) == "idle", "it is idle again", timeout=60)


def _state(world: World) -> str:
    rows = json.loads(world.cloche("ls", "--json").out)["boxes"]
    return next(str(row["state"]) for row in rows if row["name"] == "sentry")


def test_a_box_beyond_its_memory_is_ended_and_says_so(world: World, box: Path) -> None:
    world.profile("small", 'runtime = "gvisor"\n[profiles.small.resources]\nmem = "128M"')
    small = world.new("small", profile="small")
    text = "dd if=/dev/zero of=/tmp/big bs=1M count=400; sleep 9"
    done = world.cloche("run", "small", "--", "sh", "-c", text)
    assert done.code != 0
    support.wait_until(lambda: "the limit is 128 MiB" in _stopped(small), "it says why", timeout=30)
    assert not containers(world) or world.cloche("stop", "small").code == 0


def _stopped(box: Path) -> str:
    records = [json.loads(line) for line in (box / "journal.jsonl").read_text().splitlines()]
    return " ".join(str(one["data"]["why"]) for one in records if one["kind"] == "stop")


def test_a_list_of_destinations_is_refused_by_name(world: World, box: Path) -> None:
    world.profile(
        "listed", 'runtime = "gvisor"\n[profiles.listed.net]\nmode = "allow"\negress = ["example.org"]'
    )
    done = world.cloche("new", "listed", "--tier", "container", "--image", "box", "--profile", "listed")
    assert done.code != 0
    assert "gVisor" in done.err and 'runtime = "auto"' in done.err


# ---- without a box


def test_only_the_boxs_users_processes_are_counted() -> None:
    table = (
        b"UID       PID       PPID      C         TTY       STIME     TIME      CMD\n"
        b"65534     1         0         0         ?         00:35     0s        busybox\n"
        b"1000      27        1         0         ?         00:35     0s        sleep\n"
        b"1000      30        1         8         ?         00:35     20ms      1000 65534\n"
    )
    assert gvisor_watch.counted(table) == 2
    assert gvisor_watch.counted(b"") == 0


@pytest.mark.parametrize(
    ("net", "rootful", "count"),
    [("deny", False, 0), ("allow", False, 1), ("deny", True, 1), ("allow", True, 2)],
)
def test_what_gvisor_cannot_hold_is_refused_before_anything_starts(
    net: str, rootful: bool, count: int
) -> None:
    found = tuple(gvisor.refusals(net=net, rootful=rootful))
    assert len(found) == count
    assert all(one.remedy for one in found)


def test_a_sentence_is_claimed_only_with_its_proof() -> None:
    nothing = inspection.parse("", 0.1)
    assert all(one.result == inspection.FAILED for one in gvisor.claims(nothing, "6.1"))
    same = inspection.parse("==kernel\n6.1\n==end\n", 0.1)
    by_id = {one.id: one for one in gvisor.claims(same, "6.1")}
    assert by_id["other-kernel"].result == inspection.FAILED
    other = inspection.parse("==kernel\n4.4.0\n==end\n", 0.1)
    by_id = {one.id: one for one in gvisor.claims(other, "6.1")}
    assert by_id["other-kernel"].result == inspection.PROVED


def test_no_row_says_that_a_filter_holds_which_is_not_there() -> None:
    made = [
        Enforcement("syscalls", "x", "refused", "", "seccomp", "mount"),
        Enforcement("resources.files", "x", "in each process", "", "RLIMIT_NOFILE", "limits"),
        Enforcement("net.unix", "false", "refused", "", "seccomp", ""),
    ]
    rows = {one.key: one for one in gvisor.rows(made)}
    assert "seccomp" not in rows["syscalls"].mechanism
    assert rows["resources.files"].missing
    assert rows["net.unix"].enforced == "not enforced"


def test_the_restoring_program_only_changes_its_verb(tmp_path: Path) -> None:
    file = tmp_path / "runsc"
    file.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    file.chmod(0o755)
    state = tmp_path / "it's" / "state"
    state.parent.mkdir()
    podman = Podman("", tmp_path, tmp_path)
    call = gvisor_call.restoring(podman, str(file), str(state))
    said = support.run([call.program, "--log", "x", "create", "--bundle", "a b", "id"]).out
    assert said.endswith(f"|--log|x|restore|--detach|--image-path|{state}|--bundle|a b|id|"), said
    assert support.run([call.program, "start", "id"]).out == ""
    assert support.run([call.program, "state", "id"]).out.endswith("|state|id|")


def test_a_limit_that_gvisor_lets_through_is_not_called_enforced() -> None:
    asked = Enforcement("resources.file_size", "4 MiB", "each process", "", "RLIMIT_FSIZE", "limits")
    (row,) = gvisor.rows([asked])
    assert row.enforced == "not enforced" and "lets larger files be written" in row.missing
