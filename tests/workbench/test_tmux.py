"""Kinds U2, U5 and U6 on a real terminal: tmux runs the workbench, the test looks from outside."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.engine import Engine, NewBox
from tests import support

pytestmark = [
    pytest.mark.usefixtures("kept"),
    pytest.mark.terminal,
    pytest.mark.flow,
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

ENTRY = "import sys; from app.cli import main; sys.exit(main())"


class Tmux:
    """A tmux server of its own, with one window."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "tmux.sock"

    def ask(self, *args: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self.socket), "-f", "/dev/null", *args],
            capture_output=True,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")

    def start(self, command: str, cwd: Path, size: tuple[int, int] = (100, 30)) -> None:
        width, height = size
        self.ask("new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(cwd), command)
        self.ask("set-option", "-g", "remain-on-exit", "on")
        self.ask("set-option", "-g", "set-clipboard", "on")

    def keys(self, *keys: str) -> None:
        self.ask("send-keys", *keys)

    def screen(self) -> str:
        return self.ask("capture-pane", "-p")

    def children(self) -> list[dict[str, int]]:
        """The identities of what the window's shell runs."""
        shell = self.value("pane_pid")
        listed = Path(f"/proc/{shell}/task/{shell}/children")
        found = [int(pid) for pid in listed.read_text().split()] if shell and listed.exists() else []
        return [{"pid": pid, "start": support.start_time(pid) or 0} for pid in found]

    def value(self, name: str) -> str:
        return self.ask("display-message", "-p", f"#{{{name}}}").strip()

    def shows(self, text: str, seconds: float = 90.0) -> None:
        try:
            support.wait_until(lambda: text in self.screen(), text, timeout=seconds, step=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen()}") from None


@pytest.fixture
def tmux(home: Any) -> Iterator[Tmux]:
    made = Tmux(home.root)
    yield made
    left = made.children()
    made.ask("kill-server")
    support.wait_until(
        lambda: not any(map(support.is_alive, left)), "nothing of the window is left", timeout=90
    )


def workbench(**env: str) -> str:
    """The command that opens the workbench and then says how it ended, on the same terminal."""
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
    python = shlex.quote(sys.executable)
    return f"env {words} {python} -P -c {shlex.quote(ENTRY)}; echo ended $?; exec sleep 60"


def process_of(tmux: Tmux) -> dict[str, int]:
    """The workbench's identity: the child of the pane's shell."""
    support.wait_until(lambda: bool(tmux.children()), "the workbench was started")
    return tmux.children()[0]


@pytest.fixture
def sleeping(repo: Path) -> Iterator[Callable[[], None]]:
    """A live box named ``under``, and a check that it still runs."""
    Engine(repo).create(NewBox(name="under", tier="process"))
    with subprocess.Popen(
        support.cloche_argv("run", "under", "--", "sh", "-c", "echo up; exec sleep 1009"),
        cwd=repo,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        engine = Engine(repo)

        def check() -> None:
            assert [row.command for row in engine.processes("under")] == ["sleep 1009"]

        support.wait_until(lambda: bool(engine.processes("under")), "the box runs")
        yield check
        engine.stop("under")
        process.wait(20)


def test_sigterm_restores_the_terminal_and_the_boxes_go_on(
    tmux: Tmux, repo: Path, sleeping: Callable[[], None]
) -> None:
    tmux.start(workbench(), repo)
    tmux.shows("sleep 1009")
    assert tmux.value("alternate_on") == "1"
    ident = process_of(tmux)
    os.kill(ident["pid"], signal.SIGTERM)
    tmux.shows("ended 143")
    assert tmux.value("alternate_on") == "0"
    assert tmux.value("mouse_any_flag") == "0"
    assert tmux.value("cursor_flag") == "1"
    assert "sleep 1009" not in tmux.screen()
    sleeping()


def test_after_sigkill_the_boxes_go_on_and_the_next_workbench_shows_them(
    tmux: Tmux, repo: Path, sleeping: Callable[[], None]
) -> None:
    tmux.start(workbench(), repo)
    tmux.shows("sleep 1009")
    tmux.shows("host process+")  # a probe that is killed in its middle cannot tidy up
    os.kill(process_of(tmux)["pid"], signal.SIGKILL)
    tmux.shows("ended 137")
    sleeping()
    tmux.ask("respawn-pane", "-k", "-c", str(repo), workbench())
    tmux.shows("sleep 1009")


def test_a_dropped_connection_ends_the_workbench_and_no_box(
    tmux: Tmux, repo: Path, sleeping: Callable[[], None]
) -> None:
    tmux.start(workbench(), repo)
    tmux.shows("sleep 1009")
    ident = process_of(tmux)
    tmux.ask("kill-server")
    support.wait_until(lambda: not support.is_alive(ident), "the workbench ended", timeout=90)
    sleeping()


def test_ctrl_q_leaves_and_restores_the_terminal(tmux: Tmux, repo: Path) -> None:
    tmux.start(workbench(), repo)
    tmux.shows("no boxes in this repository")
    tmux.keys("C-q")
    tmux.shows("ended 0")
    assert tmux.value("alternate_on") == "0"


@pytest.mark.parametrize("term", ["screen-256color", "tmux-256color", "xterm", "linux"])
def test_terminals_of_several_kinds_draw(tmux: Tmux, repo: Path, term: str) -> None:
    tmux.start(workbench(TERM=term), repo, (80, 24))
    tmux.shows("no boxes in this repository")
    tmux.shows("? help")


def test_a_dumb_terminal_is_refused_in_one_sentence_and_left_as_it_was(tmux: Tmux, repo: Path) -> None:
    tmux.start(workbench(TERM="dumb"), repo)
    tmux.shows("ended 3")
    assert "TERM=dumb" in tmux.screen()
    assert "cloche ls" in tmux.screen()
    assert tmux.value("alternate_on") == "0"


def test_no_colour_is_sent_under_no_color(tmux: Tmux, repo: Path, sleeping: Callable[[], None]) -> None:
    tmux.start(workbench(NO_COLOR="1"), repo)
    tmux.shows("sleep 1009")
    tmux.shows("▶ running")
    colours = tmux.ask("capture-pane", "-p", "-e")
    assert "\x1b[38;" not in colours
    assert "\x1b[48;" not in colours
    assert "▶ running" in colours


def test_resizing_in_the_middle_of_output(tmux: Tmux, repo: Path, sleeping: Callable[[], None]) -> None:
    tmux.start(workbench(), repo, (200, 50))
    tmux.shows("sleep 1009")
    tmux.ask("resize-window", "-x", "20", "-y", "5")
    tmux.shows("too small")
    tmux.ask("resize-window", "-x", "80", "-y", "24")
    tmux.shows("sleep 1009")


def test_what_a_box_prints_touches_neither_title_nor_clipboard(tmux: Tmux, repo: Path) -> None:
    """The same sequences are sent by a box to its pane, its terminal, a file name and an argv."""
    engine = Engine(repo)
    engine.create(NewBox(name="loud", tier="process"))
    osc = "\\033]0;OWNED\\007\\033]2;OWNED\\007\\033]52;c;T1dORUQ=\\007\\233]0;OWNED\\007"
    script = f"printf '{osc}\\n'; touch \"$(printf 'f{osc}')\"; exec sh -c 'sleep 1010' \"$(printf '{osc}')\""
    with subprocess.Popen(
        support.cloche_argv("run", "loud", "--", "sh", "-c", script),
        cwd=repo,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            tmux.start(workbench(), repo, (120, 40))
            tmux.shows("sleep 1010")
            tmux.shows("\\x1b]0;OWNED\\x07")
            tmux.keys("Enter")
            tmux.shows("fleet")
            tmux.keys("2")
            tmux.shows("f\\x1b]0;OWNED")
            tmux.keys("4")
            tmux.shows("session-start")
            tmux.keys("t")
            tmux.shows("every key goes to it")
            tmux.keys(f"printf '{osc}'; echo done-$((1+1))", "Enter")
            tmux.shows("done-2")
            tmux.keys("C-]")
            assert "OWNED" not in tmux.value("pane_title")
            assert tmux.ask("list-buffers") == ""
        finally:
            engine.stop("loud")
            process.wait(20)
