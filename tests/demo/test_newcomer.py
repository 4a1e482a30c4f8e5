"""What somebody who types `cloche demo` sees on a terminal, and how soon."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.demo import sample
from tests.conftest import Home
from tests.support import cloche_argv, run, wait_until

pytestmark = [pytest.mark.flow, pytest.mark.terminal]

SOON = 120.0  # seconds, on however busy a machine


class Terminal:
    """A tmux server of one test's own, with one pane of 120x40."""

    def __init__(self, socket: Path) -> None:
        self.words = ["tmux", "-S", str(socket), "-f", os.devnull]

    def start(self, argv: list[str], cwd: Path) -> None:
        # The session outlives its command, so that the last screen and message can be read.
        line = f"{shlex.join(argv)}; echo left with $?; sleep 60"
        done = run([*self.words, "new-session", "-d", "-x", "120", "-y", "40", line], cwd=cwd)
        assert done.code == 0, done.err

    def screen(self) -> str:
        return run([*self.words, "capture-pane", "-p"]).out

    def press(self, key: str) -> None:
        assert run([*self.words, "send-keys", key]).code == 0

    def end(self) -> None:
        run([*self.words, "kill-server"])


@pytest.fixture
def terminal(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is missing: apt install tmux")
    monkeypatch.setenv("XDG_DATA_HOME", str(home.root / "d"))
    opened = Terminal(home.root / "tmux")
    yield opened
    opened.end()
    assert run(cloche_argv("demo", "--remove"), cwd=home.root).code == 0


def shows(terminal: Terminal, pattern: str) -> Callable[[], bool]:
    return lambda: re.search(pattern, terminal.screen()) is not None


def test_trees_refusals_and_a_diff_come_on_the_screen(terminal: Terminal, home: Home) -> None:
    begin = time.monotonic()
    terminal.start(cloche_argv("demo"), home.root)
    for what, pattern in (
        ("a helper that left its parent is in the tree of its box", r"http\.server"),
        ("refusals are counted", r"denied [1-9]"),
        ("a diff is counted", r"\+6 -5 in 2 files"),
        ("the box that was proposed asks for a person", r"1 needs you"),
    ):
        left = SOON - (time.monotonic() - begin)
        wait_until(shows(terminal, pattern), f"{what}, within {SOON} s:\n{terminal.screen()}", timeout=left)

    terminal.press("C-q")
    wait_until(shows(terminal, r"left with 0"), "the workbench closes")
    assert "The agents go on" in terminal.screen()
    rows = run(cloche_argv("ls"), cwd=sample.folder()).out
    assert re.search(r"fix-watering\s+process\s+running", rows), "closing the workbench ends nothing"
