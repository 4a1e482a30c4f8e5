"""Git on the host, where a box has been: what runs, and what a person is told (S5)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths, state_dir
from tests.support import Done

Cli = Callable[..., Done]

HOSTILE = """
set -e
mkdir -p objects refs/heads nested/.git/objects nested/.git/refs bare/objects bare/refs
for place in . nested/.git bare; do
    echo 'ref: refs/heads/main' > $place/HEAD
    printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nfsmonitor="touch RAN; false"\\n' > $place/config
done
printf 'worktree=.\\n' >> config
touch objects/x refs/heads/x bare/objects/x bare/refs/x
"""


@pytest.mark.parametrize("kind", [(), ("--empty",)])
def test_a_prompt_in_a_boxs_tree_runs_nothing_and_a_diff_names_the_repositories_in_it(
    cli: Cli, kind: tuple[str, ...], tmp_path: Path
) -> None:
    assert cli("new", "hostile", *kind).code == 0
    ran = tmp_path / "ran"
    assert cli("run", "hostile", "--", "sh", "-c", HOSTILE.replace("RAN", str(ran))).code == 0
    tree = BoxPaths(next(state_dir().glob("*/hostile"))).written
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_COUNT": "1",
           "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}  # fmt: skip
    for folder in (tree, tree / "objects"):
        done = subprocess.run(["git", "status"], cwd=folder, env=env, capture_output=True, text=True)
        assert "On branch box" in done.stdout, done.stderr
    assert not ran.exists()
    told = cli("diff", "hostile", "--stat")
    assert told.code == 0
    for path in ("nested/.git", "bare", "."):
        assert f"look at {path}: " in told.err
    assert "your prompt start" in told.err
    proposed = cli("propose", "hostile")
    assert "refuse: nested/.git" in proposed.out
    assert "refuse: bare" in proposed.out
