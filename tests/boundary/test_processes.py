"""Attacks across processes: nobody outside can be seen or signalled, nothing inside survives its end (P1)."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from backends.keeper import init_protocol
from backends.kernel import procfs
from backends.tiers import workspace
from tests.boundary import harness
from tests.boundary.harness import Box
from tests.support import settled

DAEMON = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open("daemon", "w").close()
os.chdir("/")
time.sleep(1000)
"""


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def populate(box: Box) -> tuple[int, ...]:
    """A double-forked daemon, background jobs, a setsid child; the main process has ended. Host pids."""
    result = box.sh(
        f"{harness.PYTHON} -c '{DAEMON}' >/dev/null 2>&1 & (setsid sleep 1001 >/dev/null 2>&1 &) ;"
        " sleep 1002 >/dev/null 2>&1 & (trap '' TERM HUP; sleep 1003) >/dev/null 2>&1 & exec >&- 2>&-; exit 0"
    )
    assert result.exit == 0
    until(lambda: (box.paths.tree / "daemon").exists() and crowd(box))
    return settled(box.processes)


def crowd(box: Box) -> bool:
    """Whether the daemon and each job are there, and nobody who was on the way to them is any more."""
    words = [" ".join(row.command.split()) for row in procfs.tree(procfs.scan(), box.live.init)]
    jobs = all(f"sleep {number}" in words for number in (1001, 1002, 1003))
    return jobs and sum("os.setsid" in one for one in words) == 1


def test_all_that_was_forked_is_shown_below_the_box_and_ends_with_it() -> None:
    with harness.box() as box:
        pids = populate(box)
        rows = procfs.tree(procfs.scan(), box.live.init)
        assert {row.ident.pid for row in rows} == set(pids) - {box.live.init.pid}
        assert any("1001" in row.command for row in rows)
        idents = [row.ident for row in rows]
        box.end()
        until(lambda: not any(procfs.alive(ident) for ident in idents))
        assert box.processes() == ()


def test_the_keepers_death_ends_the_tree() -> None:
    """The death pipe: its last copy closes, whatever ended the keeper."""
    with harness.box() as box:
        pids = populate(box)
        idents = [ident for ident in map(procfs.identify, pids) if ident]
        os.dup2(os.open("/dev/null", os.O_WRONLY), box.live.death)
        until(lambda: not any(procfs.alive(ident) for ident in idents))


def test_a_host_that_shuts_down_ends_the_tree_by_sigterm() -> None:
    with harness.box() as box:
        populate(box)
        os.kill(box.live.init.pid, signal.SIGTERM)
        assert select.select([box.live.pidfd], [], [], 60.0)[0]
        assert box.processes() == ()


def test_host_processes_are_neither_seen_nor_signalled_nor_read(confined: Box) -> None:
    victim = subprocess.Popen(["sleep", "1000"], env={"VICTIM_TOKEN": "x", "PATH": os.environ["PATH"]})
    try:
        result = confined.python(
            f"""
import os, signal
pids = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
print(len(pids) < 10, pids[0])
for pid in ({victim.pid}, {os.getpid()}):
    for name in ("environ", "mem", "cmdline", "stat", "root"):
        try:
            open(f"/proc/{{pid}}/{{name}}", "rb").read(1)
            print("READ", pid, name)
        except OSError:
            pass
    for call in (lambda: os.kill(pid, 9), lambda: os.killpg(pid, 9), lambda: os.pidfd_open(pid)):
        try:
            call()
            print("REACHED", pid)
        except OSError:
            pass
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.kill(-1, signal.SIGTERM)
"""
        )
        assert result.out.split() == ["True", "1"]
        assert victim.poll() is None
        assert confined.alive()
    finally:
        victim.kill()
        victim.wait()


def test_every_exit_that_init_sees_is_told_with_its_cost(confined: Box) -> None:
    number, _, fds = confined.start(
        [harness.PYTHON, "-c", "x = b'x' * (700 << 20); t = sum(range(3000000)); raise SystemExit(7)"],
        fds=_null(),
    )
    for fd in fds:
        os.close(fd)
    message = confined.wait(number)
    assert os.waitstatus_to_exitcode(message["status"]) == 7
    assert message["utime"] > 0.01
    assert 700 << 20 < message["maxrss"] < 800 << 20  # more than init's own, which is forked from a test run


def _null() -> list[int]:
    return [os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC) for _ in range(3)]


def test_orphans_are_reaped_by_init_and_told_without_a_session(confined: Box) -> None:
    confined.exits.clear()
    confined.sh("(sleep 0.05 & ) ; true")
    until(lambda: (confined.sh("true"), any(event["id"] is None for event in confined.exits))[1])


def test_freezing_stops_every_process_and_thawing_wakes_those_that_ran() -> None:
    script = "while :; do echo x >> /work/count; sleep 0.005; done"
    with harness.box() as box:
        for _ in range(3):
            box.start(["/bin/sh", "-c", script], fds=_null())
        _, stopped, _ = box.start(["sleep", "1000"], fds=_null())
        box.sh(f"kill -STOP {stopped}; until grep -q 'State:.T' /proc/{stopped}/status; do :; done")
        count = box.paths.tree / "count"
        until(lambda: count.exists() and count.stat().st_size > 10)
        frozen = box.ask("freeze", "frozen")
        assert frozen["count"] >= 4
        states = {row.state for row in procfs.tree(procfs.scan(), box.live.init)}
        assert states <= {"T", "Z"}
        size = count.stat().st_size
        time.sleep(0.1)
        assert count.stat().st_size == size
        box.ask("thaw", "thawed")
        until(lambda: count.stat().st_size > size)
        rows = procfs.tree(procfs.scan(), box.live.init)
        assert [row.state for row in rows if "sleep 1000" in row.command] == ["T"]


def test_a_fork_storm_is_frozen_whole() -> None:
    with harness.box(harness.policy(procs=200)) as box:
        box.start(["/bin/sh", "-c", "while :; do (true &) ; done 2>/dev/null"], fds=_null())
        time.sleep(0.1)
        box.ask("freeze", "frozen")
        rows = procfs.tree(procfs.scan(), box.live.init)
        assert rows
        assert {row.state for row in rows} <= {"T", "Z"}
        box.ask("thaw", "thawed")


def test_a_shell_does_not_mistake_a_frozen_job_for_a_stopped_one() -> None:
    with harness.box() as box:
        number, _, fds = box.start(["/bin/bash", "-c", "set -m; sleep 0.3; echo ended $?"], pty=(24, 80))
        time.sleep(0.1)
        box.ask("freeze", "frozen")
        time.sleep(0.05)
        box.ask("thaw", "thawed")
        out = b""
        while b"ended" not in out:
            assert select.select([fds[1]], [], [], 60.0)[0]
            out += os.read(fds[1], 4096)
        assert b"Stopped" not in out
        assert b"ended 0" in out
        box.wait(number)
        for fd in fds:
            os.close(fd)


@pytest.mark.parametrize("number", [1, 10, 40])
def test_many_sessions_start_at_once_and_all_report_their_exit(confined: Box, number: int) -> None:
    started = [confined.start(["/bin/sh", "-c", f"exit {n}"], fds=_null()) for n in range(number)]
    codes = [os.waitstatus_to_exitcode(confined.wait(one[0])["status"]) for one in started]
    assert codes == list(range(number))


def test_what_cannot_be_executed_is_told_and_leaves_no_exit(confined: Box) -> None:
    (confined.paths.tree / "script").write_text("echo from a script without a first line\n")
    (confined.paths.tree / "script").chmod(0o755)
    (confined.paths.tree / "plain").write_text("x")
    (confined.paths.tree / "plain").chmod(0o644)
    for argv, cwd, code in (
        (["no-such-program"], "/work", 2),
        (["/work/plain"], "/work", 13),
        (["/work"], "/work", 13),
        (["true"], "/nowhere", 2),
    ):
        with pytest.raises(OSError) as failure:
            confined.start(argv, cwd=cwd, fds=_null())
        assert failure.value.errno == code
    assert confined.run("/work/script").out == "from a script without a first line\n"
    assert confined.run("./script").out == "from a script without a first line\n"


def test_a_workspace_box_confines_nothing_and_says_so_and_its_stop_leaves_nobody() -> None:
    with harness.box(harness.policy(tier="workspace"), tier=workspace.TIER) as box:
        assert box.proofs == []
        assert {row.enforced for row in box.live.enforcement if row.key.startswith("fs")} == {"not enforced"}
        assert "can rewrite" in next(row.missing for row in box.live.enforcement if row.key == "journal")
        assert box.run("id", "-u", cwd=box.live.inside_tree).out.strip() == str(os.geteuid())
        box.run(
            "/bin/bash",
            "-c",
            f"{harness.PYTHON} -c '{DAEMON}' >/dev/null 2>&1 & (setsid sleep 1001 >/dev/null 2>&1 &)",
            cwd=box.live.inside_tree,
        )
        until(lambda: len(procfs.descendants(procfs.scan(), box.live.init)) >= 2)
        idents = [found.ident for found in procfs.descendants(procfs.scan(), box.live.init)]
        init_protocol.send(box.live.control, {"op": "end"})
        assert select.select([box.live.pidfd], [], [], 60.0)[0]
        assert not any(procfs.alive(ident) for ident in idents)
