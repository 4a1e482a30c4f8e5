"""Shell and attach on a real terminal: raw while it lasts, restored whatever happens, never obeyed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.outputfilter import RESTORE
from app.cli.terminal import split_detach
from tests.cli.screen import Screen
from tests.support import Done, wait_until

pytestmark = pytest.mark.flow
Cli = Callable[..., Done]


@pytest.fixture
def box(cli: Cli) -> str:
    assert cli("new", "b").code == 0
    return "b"


def test_a_shell_has_a_terminal_of_its_own_and_its_exit_code_passes(box: str, repo: Path) -> None:
    with Screen(repo, "shell", box, rows=31, cols=97) as screen:
        screen.until(b"$ ")
        screen.type(b"tty; stty size; echo $TERM-$HOME\n")
        text = screen.until(b"31 97")
        assert b"/dev/pts/0" in text, "a terminal of the box's own devpts"
        screen.until(b"-/home/box")
        screen.type(b"exit 5\n")
        assert screen.wait() == 5
        assert screen.output.endswith(RESTORE)
        assert screen.mode() == screen.before


def test_the_size_of_the_window_follows(box: str, repo: Path) -> None:
    with Screen(repo, "shell", box) as screen:
        screen.until(b"$ ")  # before it is raw, a typed interrupt would be the client's own
        screen.type(b"while stty size; do sleep 0.1; done\n")
        screen.until(b"24 80")
        screen.resize(40, 100)
        seen = len(screen.until(b"40 100"))
        screen.type(b"\x03")
        screen.until(b"$ ", after=seen)  # the interrupt throws away what was typed behind it
        screen.type(b"exit\n")
        screen.wait()


def test_control_keys_reach_the_session(box: str, repo: Path, cli: Cli) -> None:
    with Screen(repo, "shell", box) as screen:
        screen.until(b"$ ")  # before it is raw, a typed interrupt would be the client's own
        screen.type(b"sleep 100 || echo inter''rupted\n")
        wait_until(lambda: '"sleep 100"' in cli("ps", box, "--json").out, "it has the terminal")
        seen = len(screen.output)
        screen.type(b"\x03")
        screen.until(b"^C", after=seen)
        screen.until(b"$ ", after=seen)  # the interrupt throws away what was typed behind it
        screen.type(b"echo code=$?\n")
        screen.until(b"code=130")
        screen.type(b"\x04")
        screen.wait()


def test_detach_leaves_the_session_running_and_attach_shows_its_last_screen(
    box: str, repo: Path, cli: Cli
) -> None:
    with Screen(repo, "shell", box) as screen:
        screen.until(b"$ ")  # before it is raw, a typed interrupt would be the client's own
        screen.type(b"echo first-$((40+2)); MARK=kept\n")
        screen.until(b"first-42")
        screen.type(b"half-typed\x1d")
        assert screen.wait() == 0
        assert b"cloche attach b 1" in screen.output
        assert screen.mode() == screen.before
    assert b"sh" in json.dumps(cli("ps", box, "--json").json()).encode()
    with Screen(repo, "attach", box) as again:
        again.until(b"first-42")
        again.type(b"\x15echo again-$MARK\n")
        again.until(b"again-kept")
        again.type(b"exit 3\n")
        assert again.wait() == 3
    gone = cli("attach", box)
    assert gone.code == 2, "no terminal: told before anything is asked"
    with Screen(repo, "attach", box) as none:
        assert none.wait() == 4
        assert b"no session to attach to" in none.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal_and_leaves_the_session(
    box: str, repo: Path, cli: Cli, number: signal.Signals
) -> None:
    with Screen(repo, "shell", box) as screen:
        screen.until(b"$ ")  # before it is raw, a typed interrupt would be the client's own
        screen.type(b"echo up-$((1+1))\n")
        screen.until(b"up-2")
        screen.process.send_signal(number)
        assert screen.wait() == 128 + number
        assert screen.mode() == screen.before
    value = cli("ps", box, "--json").json()
    assert isinstance(value, dict) and len(value["processes"]) == 1


def test_killing_the_client_ends_nothing(box: str, repo: Path, cli: Cli) -> None:
    with Screen(repo, "shell", box) as screen:
        screen.until(b"$ ")  # before it is raw, a typed interrupt would be the client's own
        screen.type(b"echo up-$((1+1))\n")
        screen.until(b"up-2")
        screen.process.kill()
        screen.wait()
    with Screen(repo, "attach", box, "1") as again:
        again.until(b"up-2")
        again.type(b"exit\n")
        assert again.wait() == 0


ATTACKS = (
    rb"printf 'S\033]0;owned\007T\033]52;c;b3duZWQ=\007U\033P$q\033\\V"
    rb"\033_x\033\\W\033^y\033\\X\033[21tY\005Z\n'"
)


def test_what_a_box_prints_sets_no_title_and_writes_no_clipboard(box: str, repo: Path, cli: Cli) -> None:
    with Screen(repo, "shell", box) as screen:
        screen.until(b"$ ")  # before it is raw, a typed interrupt would be the client's own
        screen.type(ATTACKS + b"\n")
        screen.until(b"STUVWXYZ")
        screen.type(b"exit\n")
        screen.wait()
        for start in (b"\x1b]", b"\x1bP", b"\x1b_", b"\x1b^", b"\x1b[21t", b"\x05"):
            assert start not in screen.output
    with Screen(repo, "run", box, "--", "sh", "-c", ATTACKS.decode()) as screen:
        assert screen.wait() == 0
        assert b"STUVWXYZ" in screen.output and b"\x1b]" not in screen.output
    raw = cli("run", box, "--", "sh", "-c", ATTACKS.decode())
    assert "\x1b]52;c;" in raw.out, "a pipe gets every byte"


def test_run_on_a_terminal_takes_typing_and_passes_the_interrupt(box: str, repo: Path) -> None:
    with Screen(repo, "run", box, "--", "sh", "-c", "read line; echo got:$line; sleep 100") as screen:
        screen.type(b"hello\n")
        screen.until(b"got:hello")
        screen.type(b"\x03")
        assert screen.wait() == 128 + signal.SIGINT
    with Screen(repo, "run", box, "--", "cat") as screen:
        screen.type(b"line\n\x04")
        assert screen.wait() == 0
        assert screen.output.count(b"line") == 2


def test_run_passes_signals_on(box: str, repo: Path) -> None:
    script = "trap 'echo usr1; exit 9' USR1; echo ready; while :; do sleep 0.05; done"
    with Screen(repo, "run", box, "--", "sh", "-c", script) as screen:
        screen.until(b"ready")
        screen.process.send_signal(signal.SIGUSR1)
        assert screen.wait() == 9
        assert b"usr1" in screen.output


def test_a_command_goes_on_when_its_client_is_killed(box: str, repo: Path, cli: Cli) -> None:
    with Screen(repo, "run", box, "--", "sh", "-c", "echo up; sleep 1; echo done > done") as screen:
        screen.until(b"up")
        screen.process.kill()
        screen.wait()
    wait_until(lambda: cli("run", box, "--", "cat", "done").out == "done\n", "the command went on")


@pytest.mark.parametrize(
    ("data", "typed", "leave"),
    [
        (b"abc", b"abc", False),
        (b"\x1d", b"", True),
        (b"ab\x1dcd", b"ab", True),
        (b"x\x1b[93;5uy", b"x", True),
        (b"x\x1b[27;5;93~", b"x", True),
    ],
)
def test_the_detach_key_in_every_keyboard_protocol(data: bytes, typed: bytes, leave: bool) -> None:
    assert split_detach(data) == (typed, leave)


@pytest.mark.parametrize("verb", ["shell", "attach"])
def test_without_a_terminal_nothing_is_started(box: str, cli: Cli, verb: str) -> None:
    done = cli(verb, box)
    assert done.code == 2 and "cloche run" in done.err
