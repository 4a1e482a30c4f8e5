"""A review at a real terminal, by keys: what was seen is kept though the workbench is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.engine import Engine, NewBox
from backends.gate.patch import compose_tree, selected_patch
from tests import support
from tests.workbench.test_tmux import Tmux, process_of, workbench

pytestmark = [
    pytest.mark.usefixtures("kept"),
    pytest.mark.terminal,
    pytest.mark.flow,
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

SCRIPT = (
    "seq 1 60 | sed 's/^/line = /' > many.py; "
    "sed -i 's/line = 5$/line = five/; s/line = 30$/line = thirty/; s/line = 55$/line = more/' many.py; "
    "printf 'new\\n' > other.py"
)


@pytest.fixture
def tmux(home: Any) -> Iterator[Tmux]:
    made = Tmux(home.root)
    yield made
    left = made.children()
    made.ask("kill-server")
    support.wait_until(
        lambda: not any(map(support.is_alive, left)), "nothing of the window is left", timeout=40
    )


def git(folder: Path, *words: str, text: bytes | None = None) -> bytes:
    return subprocess.run(["git", *words], cwd=folder, input=text, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
def test_what_was_seen_is_kept_though_the_workbench_is_killed(
    tmux: Tmux, repo: Path, tmp_path: Path, size: tuple[int, int]
) -> None:
    (repo / "many.py").write_text("".join(f"line = {number}\n" for number in range(1, 61)))
    git(repo, "add", "many.py")
    git(repo, "commit", "-q", "-m", "many")
    engine = Engine(repo)
    engine.create(NewBox(name="b", tier="process"))
    support.run(support.cloche_argv("run", "b", "--", "sh", "-c", SCRIPT), cwd=repo)
    support.wait_until(lambda: engine.view("b").row.state == "idle", "the box is idle")
    engine.propose("b")
    tmux.start(workbench(), repo, size)
    tmux.shows("+4 -3 in 2 files")
    tmux.shows("┏")  # the pane has the keys
    tmux.keys("E")
    tmux.shows("many.py")
    open_desk = ("○8", "open 8")  # in signs where it is narrow
    support.wait_until(lambda: any(sign in tmux.screen() for sign in open_desk), "the desk is open", step=0.1)
    tmux.keys("l")
    tmux.shows("hunk 2/3")
    tmux.keys("Space")
    tmux.shows("accepted 2")
    tmux.keys("l")
    tmux.shows("hunk 3/3")
    tmux.keys("-")
    tmux.shows("rejected 2")
    tmux.keys("c")
    tmux.shows("ctrl+s keeps")
    tmux.keys("-l", "rather 56")
    tmux.shows("rather 56")
    tmux.keys("C-s")
    tmux.shows("┃ rather 56")
    os.kill(process_of(tmux)["pid"], signal.SIGKILL)
    tmux.shows("ended 137")
    with engine.decisions("b", "next") as desk:
        done = desk.progress()
        assert (done.accepted, done.rejected) == (2, 2)
        assert [(one.path, one.line, one.text) for one in done.comments] == [(b"many.py", 52, "rather 56")]
        selection = desk.selection()
        tree = compose_tree(desk.git, selection)
        content = desk.git.run("cat-file", "blob", f"{tree}:many.py")
        patch = selected_patch(desk.git, selection)
    # An independent git-apply(1) of the accepted part comes to the same bytes.
    git(tmp_path, "clone", "-q", str(repo), "copy")
    git(tmp_path / "copy", "apply", "-", text=patch)
    lines = [b"line = thirty" if number == 30 else b"line = %d" % number for number in range(1, 61)]
    assert (tmp_path / "copy" / "many.py").read_bytes() == content == b"\n".join(lines) + b"\n"
    assert not (tmp_path / "copy" / "other.py").exists()
    engine.remove("b", force=True)
