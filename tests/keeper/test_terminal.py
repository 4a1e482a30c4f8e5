"""Interactive sessions in a real box: own terminal, window size, detach, attach with the last screen."""

from __future__ import annotations

import base64
import contextlib
import signal
import socket
import time
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths
from backends.errors import NoSuchBox, UsageError
from backends.keeper import client, terminal
from backends.keeper.client import KeeperClient
from tests.keeper.boxes import Running, attach, sh, shell
from tests.support import wait_until

BASH = ("/bin/bash", "--norc", "--noprofile", "-i")


def test_a_shell_has_a_terminal_of_the_box_s_own(keeper: KeeperClient) -> None:
    session, screen = shell(keeper, *BASH)
    screen.type(b"tty; test -t 0 && echo is''-a-tty\n")
    assert b"/dev/pts/" in screen.until(b"is-a-tty\r\n")
    screen.type(b"exit 6\n")
    assert keeper.wait_event("exit", 60, session=session)["exit"] == 6
    assert screen.ended()


def test_the_window_size_arrives_and_changes(keeper: KeeperClient) -> None:
    session, screen = shell(keeper, *BASH, rows=30, cols=101)
    screen.type(b"stty size\n")
    screen.until(b"30 101\r\n")
    screen.type(b"trap 'echo resized''-now; stty size' WINCH; echo ready''-now\n")
    screen.until(b"ready-now\r\n")
    keeper.call("resize", session=session, rows=50, cols=132)
    screen.type(b"\n")
    screen.until(b"50 132\r\n")


def test_ctrl_c_interrupts_the_foreground_only(keeper: KeeperClient) -> None:
    _, screen = shell(keeper, *BASH)
    screen.type(b"sleep 60\n")
    wait_until(lambda: b"sleep\x0060\x00" in commands(keeper), "sleep runs, and has the terminal")
    screen.until(b"sleep 60")
    screen.type(b"\x03")
    screen.until(b"^C")
    screen.until(b"$ ")  # the interrupt may throw away what is typed behind it
    screen.type(b"echo still''-here\n")
    screen.until(b"still-here\r\n")
    wait_until(lambda: keeper.call("stat")["processes"] == 1, "only the shell is left")


def commands(keeper: KeeperClient) -> list[bytes]:
    """What runs in the box; a program's own words are there once its shell has made way for it."""
    found = []
    for one in keeper.call("processes")["processes"]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            found.append(Path(f"/proc/{one['pid']}/cmdline").read_bytes())
    return found


def test_detached_session_goes_on_and_shows_its_last_screen_again(
    box: BoxPaths, keeper: KeeperClient
) -> None:
    session, screen = shell(keeper, *BASH)
    screen.type(b"echo before''-detach; (sleep 0.3; echo while''-away) &\n")
    screen.until(b"before-detach\r\n")
    screen.close()
    time.sleep(0.6)
    with client.connect(box) as other:
        again = attach(other, session)
        seen = again.until(b"while-away\r\n")
        assert b"before-detach\r\n" in seen
        again.type(b"echo typed''-after\n")
        again.until(b"typed-after\r\n")


def test_a_terminal_s_titles_are_kept_out_of_the_box_s_output_and_nothing_else_is(
    keeper: KeeperClient,
) -> None:
    said = b"a\x1b]0;title\x07b\x1b]52;c;aGk=\x07c"
    _, screen = shell(keeper, "/bin/sh", "-c", r"printf 'a\033]0;title\007b\033]52;c;aGk=\007c'; sleep 60")
    assert said in screen.until(b"\x07c")
    assert base64.b64decode(keeper.call("output")["data"]) == said.replace(b"\x1b]0;title\x07", b"")
    sh(keeper, r"printf '\033]0;title\007'")
    assert base64.b64decode(keeper.call("output")["data"]).endswith(b"\x1b]0;title\x07")


def test_two_viewers_see_the_same(keeper: KeeperClient, box: BoxPaths) -> None:
    session, first = shell(keeper, *BASH)
    with client.connect(box) as other:
        second = attach(other, session)
        first.type(b"echo to''-both\n")
        first.until(b"to-both\r\n")
        second.until(b"to-both\r\n")


def test_the_replay_is_bounded_and_ends_with_the_newest(keeper: KeeperClient) -> None:
    session, screen = shell(keeper, "/bin/sh", "-c", "seq 1 200000; echo last''-line; sleep 60")
    screen.until(b"last-line\r\n")
    again = attach(keeper, session)
    replay = again.until(b"last-line\r\n")
    assert len(replay) <= terminal.SCREEN_BYTES + 65536
    assert replay.startswith(b"1") and b"\r\n200000\r\n" in replay


def test_a_viewer_that_never_reads_is_dropped_and_the_box_goes_on(keeper: KeeperClient) -> None:
    session, screen = shell(keeper, "/bin/sh", "-c", "yes | head -n 3000000 >&2; sleep 60")
    wait_until(lambda: _viewers(keeper, session) == 0, "the viewer is dropped", timeout=120)
    assert keeper.call("stat")["processes"] >= 1
    screen.close()


def _viewers(keeper: KeeperClient, session: int) -> int:
    rows = keeper.call("sessions")["sessions"]
    return int(next(one["viewers"] for one in rows if one["id"] == session))


def test_flood_from_a_terminal_arrives_whole_at_a_viewer_that_reads(keeper: KeeperClient) -> None:
    _, screen = shell(keeper, "/bin/sh", "-c", "stty -opost; seq 1 300000; echo last''-line")
    text = screen.until(b"last-line\n", limit=60)
    assert text == b"".join(b"%d\n" % n for n in range(1, 300_001)) + b"last-line\n"


def test_hanging_up_is_not_detaching(keeper: KeeperClient) -> None:
    """A viewer that leaves sends no SIGHUP; the end of the session's process ends its terminal."""
    script = "trap 'exit 3' HUP; echo ready; while :; do sleep 0.05; done"
    session, screen = shell(keeper, "/bin/sh", "-c", script)
    screen.until(b"ready\r\n")
    screen.close()
    time.sleep(0.3)
    assert keeper.call("sessions")["sessions"][-1]["state"] == "running"
    keeper.call("signal", session=session, signal=int(signal.SIGHUP))
    assert keeper.wait_event("exit", 60, session=session)["exit"] == 3


def test_the_sessions_of_a_terminal_that_ended_cannot_be_attached(keeper: KeeperClient) -> None:
    session, _ = shell(keeper, "/bin/true")
    keeper.wait_event("exit", 60, session=session)
    with pytest.raises(UsageError):
        attach(keeper, session)
    with pytest.raises(NoSuchBox):
        attach(keeper, 999)


def test_a_session_without_a_terminal_cannot_be_attached(keeper: KeeperClient) -> None:
    running = Running(keeper, ["cat"])
    with pytest.raises(UsageError):
        attach(keeper, running.session)
    running.finish()


def test_a_program_that_is_missing_is_told_on_the_terminal(keeper: KeeperClient) -> None:
    session, screen = shell(keeper, "no-such-program")
    screen.until(b"no-such-program")
    assert keeper.wait_event("exit", 60, session=session)["exit"] == 127


def test_an_attached_client_learns_the_exit(box: BoxPaths, keeper: KeeperClient) -> None:
    session, screen = shell(keeper, *BASH)
    with client.connect(box) as other:
        attach(other, session)
        screen.type(b"exit 9\n")
        assert other.wait_event("exit", 60, session=session)["exit"] == 9


def test_a_datagram_socket_is_no_terminal(keeper: KeeperClient) -> None:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with mine, theirs, pytest.raises(UsageError):
        keeper.call("shell", fds=(theirs.fileno(),), argv=["sh"], env={})
    assert sh(keeper, "echo fine").out == b"fine\n"
