"""Reading on a real terminal: it is lent to the editor and taken back; the clipboard gets what was meant."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.engine import Engine, NewBox
from tests import support
from tests.workbench.test_tmux import Tmux, workbench

pytestmark = [
    pytest.mark.usefixtures("kept"),
    pytest.mark.terminal,
    pytest.mark.flow,
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


HELP = "esc closes"


def answers(terminal: Tmux) -> bool:
    """Whether the help comes when it is asked for; a key may have been nobody's."""
    terminal.keys("?")
    try:
        support.wait_until(lambda: HELP in terminal.screen(), "the help comes", timeout=3.0, step=0.1)
    except AssertionError:
        return False
    return True


def copies_the_second_line(terminal: Tmux) -> bool:
    """Whether a line is copied, from the top of the diff; while the list of files has the keys, none is."""
    terminal.keys("g", "down", "down", "down", "y")
    try:
        support.wait_until(lambda: "1 line copied" in terminal.screen(), "it is", timeout=3.0, step=0.1)
    except AssertionError:
        return False
    return True


@pytest.fixture
def terminal(home: Any) -> Iterator[Tmux]:
    made = Tmux(home.root)
    yield made
    left = made.children()
    made.ask("kill-server")
    support.wait_until(lambda: not any(map(support.is_alive, left)), "nothing is left", timeout=90)


def test_the_editor_has_the_terminal_and_gives_it_back(terminal: Tmux, repo: Path, home: Any) -> None:
    engine = Engine(repo)
    key = engine.create(NewBox(name="read", tier="process")).key
    script = "printf 'one\\ntwo \\033]0;owned\\007\\nthree\\n' > new.txt"
    support.run(support.cloche_argv("run", "read", "--", "sh", "-c", script), cwd=repo)
    support.wait_until(lambda: engine.view(key).row.state == "idle", "the box is idle")
    engine.propose(key)
    editor = home.root / "my-editor"
    editor.write_text(
        '#!/bin/sh\necho "editing $(wc -c < "$1") bytes"; read answer; echo "$answer" > "$1.no"\n'
    )
    editor.chmod(0o755)
    terminal.start(workbench(EDITOR=str(editor)), repo, (120, 36))
    terminal.shows("read")
    terminal.shows("host process+")
    terminal.keys("E")
    terminal.shows("Evidence")
    terminal.shows("two \\x1b]0;owned\\x07")
    terminal.keys("e")
    terminal.shows("editing 25 bytes")
    assert "Evidence" not in terminal.screen()
    terminal.keys("done", "Enter")
    terminal.shows("Evidence")
    # What is typed in the moment in which the terminal changes hands belongs to nobody.
    support.wait_until(lambda: answers(terminal), "keys reach the workbench again", timeout=90)
    terminal.keys("Escape")
    support.wait_until(lambda: HELP not in terminal.screen(), "the help is closed", timeout=90)
    terminal.keys("Enter")
    support.wait_until(lambda: copies_the_second_line(terminal), "the diff has the keys", timeout=90)
    assert terminal.ask("show-buffer").strip() == "two \\x1b]0;owned\\x07"
    assert "owned" not in terminal.value("pane_title")
