"""The corpus at a real terminal: what is decided and applied by keys is what Git alone would apply."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.review import corpus
from tests.review.acting import BOX, Scene
from tests.workbench.test_tmux import Tmux, workbench

pytestmark = [
    pytest.mark.usefixtures("kept"),
    pytest.mark.terminal,
    pytest.mark.flow,
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


@pytest.fixture
def tmux(home: Any) -> Iterator[Tmux]:
    made = Tmux(home.root)
    yield made
    left = made.children()
    made.ask("kill-server")
    support.wait_until(
        lambda: not any(map(support.is_alive, left)), "nothing of the window is left", timeout=90
    )


def frame(tmux: Tmux) -> str:
    """What is above the words of the field for the box's name, with its colours."""
    rows = tmux.ask("capture-pane", "-pe").splitlines()
    return next((above for above, row in pairwise(rows) if "to arm Apply" in row), "")


def test_what_is_accepted_at_a_terminal_is_what_git_alone_would_apply(tmux: Tmux, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.run(corpus.filling(scene.marker))
    scene.run(corpus.REPAIRING)
    scene.engine.stop(BOX)
    scene.configure()
    tip = support.git(scene.repo, "rev-parse", "main")
    scene.engine.propose(BOX)
    paths = [change.path for change in scene.engine.review(BOX).diff.changes]
    tmux.start(workbench(), scene.repo, (120, 40))
    title = tmux.value("pane_title")
    tmux.shows("◆ proposed")
    tmux.shows("┏")  # the pane has the keys
    tmux.keys("E")
    tmux.shows(f"Files {len(paths)}")
    tmux.shows("○80")
    # The list: every file before many.txt, all in one go; what is refused is rejected.
    keys = []
    for path in paths[: paths.index(b"many.txt")]:
        keys += ["-" if path == b"leak" else "Space", "J"]
    tmux.keys(*keys)
    tmux.shows("✓28 ✗1 ○51")
    # The diff: the second hunk of many.txt, of which one added line is taken back.
    tmux.keys("Enter", "l", "Space", "s", "s", "Down", "Down", "Space")
    tmux.shows("✓30 ✗1 ○49")
    want = scene.by_git_apply("first", tip, scene.accepted_patch())
    tmux.keys("P")
    tmux.shows("warnings stand")
    found = re.search(r"(\d+) warnings stand", tmux.screen())
    assert found is not None
    tmux.keys("BTab", "BTab")
    for number in range(int(found[1])):
        tmux.keys("Space")
        tmux.shows(f"{number + 1} acknowledged")
    before = frame(tmux)
    tmux.keys("Tab")
    support.wait_until(lambda: frame(tmux) != before, "the field for the name has the keys")
    tmux.keys(*BOX)
    tmux.shows("Apply makes exactly this commit")
    tmux.keys("Enter")
    tmux.shows("▸ No")
    tmux.keys("Right", "Enter")
    tmux.shows("main is now")
    assert scene.branch("taken") == want
    assert tmux.value("pane_title") == title
    assert tmux.ask("list-buffers") == ""
    scene.sound()
    tmux.keys("q")
    scene.engine.remove(BOX, force=True)
