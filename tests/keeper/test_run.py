"""Commands in a real box: what goes in, what comes out, how they end."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from backends.boxes import manifest
from backends.boxes.layout import BoxPaths
from backends.errors import NoSuchBox, UsageError
from backends.keeper import client
from backends.keeper.client import KeeperClient
from tests.conftest import Home
from tests.keeper import boxes
from tests.keeper.boxes import Running, run, sh
from tests.support import wait_until


@pytest.mark.parametrize("code", [0, 1, 7, 126, 255])
def test_exit_code_passes_through(keeper: KeeperClient, code: int) -> None:
    assert sh(keeper, f"exit {code}").exit == code


def test_output_and_errors_come_apart_and_whole(keeper: KeeperClient) -> None:
    ran = sh(keeper, "printf 'to out'; printf 'to err' >&2")
    assert (ran.exit, ran.out, ran.err) == (0, b"to out", b"to err")


def test_death_by_signal_is_128_plus_the_signal(keeper: KeeperClient) -> None:
    ran = sh(keeper, "kill -SEGV $$")
    assert ran.exit == 128 + signal.SIGSEGV


def test_a_command_that_does_not_exist_is_127_and_says_so(keeper: KeeperClient) -> None:
    ran = run(keeper, "no-such-command-here")
    assert ran.exit == 127
    assert b"no-such-command-here" in ran.err


def test_a_file_that_cannot_be_executed_is_126(box: BoxPaths, keeper: KeeperClient) -> None:
    (box.tree / "data").write_text("not a program")
    (box.tree / "data").chmod(0o644)
    assert run(keeper, "/work/data").exit == 126


def test_stdin_arrives_and_ends(keeper: KeeperClient) -> None:
    assert run(keeper, "cat", stdin=b"one\ntwo\n").out == b"one\ntwo\n"


def test_large_input_passes_both_ways_unchanged(keeper: KeeperClient) -> None:
    data = os.urandom(1 << 20) * 8
    ran = run(keeper, "cat", stdin=data)
    assert ran.exit == 0
    assert ran.out == data


def test_output_streams_while_the_command_runs(keeper: KeeperClient) -> None:
    running = Running(keeper, ["/bin/sh", "-c", "echo first; read line; echo got $line"])
    assert running.read(b"first\n") == b"first\n"
    os.write(running.stdin, b"answer\n")
    assert running.read(b"got answer\n") == b"got answer\n"
    assert running.finish().exit == 0


def test_files_serve_as_the_ends_of_a_command(keeper: KeeperClient, home: Home) -> None:
    source, target = home.root / "in", home.root / "out"
    source.write_bytes(b"x" * 300_000)
    with source.open("rb") as reader, target.open("wb") as writer, open(os.devnull, "wb") as null:
        fds = (reader.fileno(), writer.fileno(), null.fileno())
        session = keeper.call("run", fds=fds, argv=["cat"], env={})["session"]
        assert keeper.wait_event("exit", 60, session=session)["exit"] == 0
    assert target.read_bytes() == b"x" * 300_000


def test_a_client_s_pipes_keep_their_flags(keeper: KeeperClient) -> None:
    running = Running(keeper, ["cat"])
    assert os.get_blocking(running.stdin)
    assert os.get_blocking(running.out)
    assert running.finish(b"x").out == b"x"


def test_closed_output_ends_the_command_as_in_a_pipeline(keeper: KeeperClient) -> None:
    running = Running(keeper, ["yes"])
    running.read(b"y\n")
    os.close(running.out)
    os.close(running.err)
    event = keeper.wait_event("exit", 60, session=running.session)
    assert event["exit"] == 128 + signal.SIGPIPE
    running.close_stdin()


def test_a_session_outlives_its_client(box: BoxPaths, keeper: KeeperClient) -> None:
    other = client.connect(box)
    running = Running(other, ["/bin/sh", "-c", "echo started; sleep 0.4; echo late; echo done > /work/done"])
    running.read(b"started\n")
    other.close()
    running.drop()
    wait_until(lambda: (box.tree / "done").exists(), "the session went on")
    wait_until(lambda: keeper.call("stat")["sessions"] == 0, "the session ended")
    kept = base64.b64decode(keeper.call("output", session=running.session, limit=100)["data"])
    assert kept == b"started\nlate\n"


def test_signals_reach_the_whole_process_group(keeper: KeeperClient) -> None:
    script = "trap 'echo caught; exit 5' TERM; (trap - TERM; echo ready; exec sleep 60) & wait"
    running = Running(keeper, ["/bin/sh", "-c", script])
    running.read(b"ready\n")
    keeper.call("signal", session=running.session, signal=int(signal.SIGTERM))
    ran = running.finish()
    assert (ran.exit, ran.out) == (5, b"caught\n")
    wait_until(lambda: keeper.call("stat")["processes"] == 0, "its child got the signal too")


def test_a_session_that_ended_cannot_be_signalled(keeper: KeeperClient) -> None:
    ran = sh(keeper, "exit 0")
    with pytest.raises(NoSuchBox) as refusal:
        keeper.call("signal", session=ran.session, signal=int(signal.SIGTERM))
    assert refusal.value.code == "no-such-process"


def test_one_process_is_killed_by_identity_and_no_other(keeper: KeeperClient) -> None:
    running = Running(keeper, ["sleep", "60"])
    assert running.process is not None
    pid, start = running.process
    with pytest.raises(NoSuchBox):
        keeper.call("kill", pid=pid, start=start + 1, signal=9)
    with pytest.raises(NoSuchBox):
        keeper.call("kill", pid=os.getpid(), start=1, signal=9)
    keeper.call("kill", pid=pid, start=start, signal=9)
    assert running.finish().exit == 137


def test_hundred_pipelines_at_once_complete(keeper: KeeperClient) -> None:
    many = [Running(keeper, ["/bin/sh", "-c", "echo abc | gzip | gunzip | cat"]) for _ in range(100)]
    ends = [one.finish(limit=60) for one in many]
    assert [one.exit for one in ends] == [0] * 100
    assert {one.out for one in ends} == {b"abc\n"}
    assert keeper.call("stat")["sessions"] == 0


def test_a_daemon_that_holds_the_pipes_does_not_hold_the_exit(keeper: KeeperClient) -> None:
    began = time.monotonic()
    ran = sh(keeper, "(sleep 30 &) ; echo done")
    assert (ran.exit, ran.out) == (0, b"done\n")
    assert time.monotonic() - began < 25  # the daemon sleeps for longer
    assert keeper.call("stat")["processes"] == 1


def test_output_just_before_the_exit_is_not_lost_beside_a_daemon(keeper: KeeperClient) -> None:
    ran = sh(keeper, "(sleep 30 &) ; head -c 500000 /dev/zero | tr '\\0' x")
    assert len(ran.out) == 500_000


def test_only_the_pass_list_of_the_caller_s_environment_arrives(keeper: KeeperClient) -> None:
    ran = run(
        keeper, "env", env={"CLOCHE_TEST_PASSED": "yes", "AWS_SECRET_ACCESS_KEY": "no", "HOME": "/root"}
    )
    lines = dict(line.split("=", 1) for line in ran.out.decode().splitlines())
    assert lines["CLOCHE_TEST_PASSED"] == "yes"
    assert "AWS_SECRET_ACCESS_KEY" not in lines
    assert lines["HOME"] == "/home/box"


def test_nothing_of_the_starter_s_environment_is_in_the_keeper(
    home: Home, box: BoxPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2hunter2")
    with boxes.started(box) as keeper:
        hello = keeper.call("hello")
        pids = [hello["keeper"]]
        if os.geteuid() == 0:
            pids.append(hello["init"]["pid"])  # closed to its own user, and to everybody inside
        for pid in pids:
            assert b"hunter2" not in Path(f"/proc/{pid}/environ").read_bytes()
        inside = sh(keeper, "tr '\\0' '\\n' < /proc/1/environ; env")
        assert b"hunter2" not in inside.out


def test_a_working_folder_is_relative_to_the_tree(box: BoxPaths, keeper: KeeperClient) -> None:
    (box.tree / "sub").mkdir()
    (box.tree / "sub").chmod(0o755)
    assert run(keeper, "pwd", cwd="sub").out == b"/work/sub\n"
    assert run(keeper, "pwd").out == b"/work\n"


def test_sessions_share_one_process_namespace(keeper: KeeperClient) -> None:
    server = Running(keeper, ["sleep", "60"])
    assert sh(keeper, "pkill -x sleep").exit == 0
    assert server.finish().exit == 128 + signal.SIGTERM


def test_state_is_running_with_a_process_and_idle_without(box: BoxPaths, keeper: KeeperClient) -> None:
    assert manifest.load(box).state == "created"
    running = Running(keeper, ["cat"])
    assert manifest.load(box).state == "running"
    running.finish()
    assert manifest.load(box).state == "idle"
    moves = [(one["from"], one["to"]) for one in boxes.records(box, "transition")]
    assert moves == [("created", "running"), ("running", "idle")]
    wait_until(lambda: (manifest.load(box).journal or {}).get("count", 0) >= 4, "the end is anchored")


def test_the_journal_tells_start_and_exit_with_secrets_taken_out(box: BoxPaths, keeper: KeeperClient) -> None:
    ran = run(keeper, "/bin/sh", "-c", "exit 4", "--token", "ghp_0123456789abcdefghijABCDEFGHIJ012345")
    wait_until(lambda: bool(boxes.records(box, "session-exit")), "the exit is journalled")
    start, end = boxes.records(box, "session-start")[0], boxes.records(box, "session-exit")[0]
    assert start["session"] == end["session"] == ran.session
    assert start["argv"] == ["/bin/sh", "-c", "exit 4", "--token", "[redacted]"]
    assert (end["exit"], end["status"]) == (4, 4 << 8)
    assert end["wall"] > 0
    assert end["cpu"] >= 0
    assert end["peak_rss"] is None, (
        "a shell is smaller than init, whose size the kernel's figure carries over"
    )
    assert "ghp_" not in box.journal.read_text()


@pytest.mark.boundary
def test_the_peak_of_memory_is_the_programs_own_or_not_told(keeper: KeeperClient) -> None:
    assert run(keeper, "/bin/true").event["peak_rss"] is None
    large = run(keeper, "/usr/bin/python3", "-c", "bytearray(60 << 20)").event["peak_rss"]
    assert 60 << 20 < large < 100 << 20


def test_session_numbers_go_on_over_launches(box: BoxPaths) -> None:
    with boxes.started(box) as keeper:
        assert [sh(keeper, "true").session for _ in range(2)] == [1, 2]
    with boxes.started(box) as keeper:
        assert sh(keeper, "true").session == 3


def test_an_empty_command_is_refused(keeper: KeeperClient) -> None:
    pipes = [os.pipe() for _ in range(3)]
    with pytest.raises(UsageError):
        keeper.call("run", fds=(pipes[0][0], pipes[1][1], pipes[2][1]), argv=[], env={})
    for pair in pipes:
        for fd in pair:
            os.close(fd)


def test_a_box_whose_keeper_is_in_a_terminal_session_does_not_die_with_it(box: BoxPaths) -> None:
    """The keeper leaves its starter's session and process group for good."""
    with boxes.started(box) as keeper:
        pid = keeper.call("hello")["keeper"]
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        parent, group, session, tty = (int(fields[index]) for index in (1, 2, 3, 4))
        assert parent != os.getpid()
        assert session not in (os.getsid(0), pid)
        assert group != os.getpgrp()
        assert tty == 0
        os.killpg(group, 0)


def test_shared_standard_input_of_a_loop_is_not_waited_for(box: BoxPaths, keeper: KeeperClient) -> None:
    """A stdin that somebody else also reads must not stop the keeper when the other was faster."""
    reader, writer = os.pipe()
    pipes = [os.pipe() for _ in range(2)]
    session = keeper.call("run", fds=(reader, pipes[0][1], pipes[1][1]), argv=["cat"], env={})["session"]
    thief = subprocess.Popen(["cat"], stdin=reader, stdout=subprocess.DEVNULL)
    os.close(reader)
    for _ in range(200):
        os.write(writer, b"line\n")
        assert keeper.call("hello")["ready"] is True
    os.close(writer)
    assert thief.wait(60) == 0
    assert keeper.wait_event("exit", 60, session=session)["exit"] == 0
    for pair in pipes:
        for fd in pair:
            os.close(fd)
