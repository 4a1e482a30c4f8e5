"""What an error or a note proposes next can be typed as it stands and is not refused itself."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes import liveness
from backends.engine import Engine
from tests import support
from tests.support import Done, cloche_argv

Cli = Callable[..., Done]
EDIT = "open('new.txt', 'w').write('new\\n'); open('raw', 'wb').write(bytes(range(256)))"


def ok(done: Done) -> Done:
    assert done.code == 0, done.err + done.out
    return done


def note(done: Done) -> str:
    (found,) = re.findall(r"next: (.*)", done.err)
    return str(found)


def test_a_run_whose_keeper_died_names_a_command_that_works(cli: Cli, repo: Path) -> None:
    ok(cli("new", "b"))
    running = subprocess.Popen(
        cloche_argv("run", "b", "--", "sleep", "300"), cwd=repo, stderr=subprocess.PIPE, text=True
    )
    paths = Engine(repo).find("b")
    support.wait_until(
        lambda: [row.command for row in Engine(repo).processes("b")] == ["sleep 300"], "the command runs"
    )
    keeper = liveness.read(paths).keeper
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    _, said = running.communicate(timeout=60)
    step = note(Done(running.returncode, "", said))
    assert step == "cloche status b"
    ok(cli(*shlex.split(step)[1:]))
    ok(cli("rm", "--force", "b"))


def test_a_proposal_that_the_gate_refuses_is_not_offered_to_be_carried_out(cli: Cli) -> None:
    ok(cli("new", "b"))
    ok(cli("run", "b", "--", "ln", "-s", "/etc/passwd", "leak"))
    step = note(ok(cli("propose", "b")))
    assert "export" not in step and "apply" not in step and step.startswith("cloche reopen b, ")
    ok(cli("reopen", "b"))
    ok(cli("run", "b", "--", "rm", "leak"))
    step = note(ok(cli("propose", "b")))
    assert "cloche export b --out DIR" in step and "cloche apply b" in step


@pytest.mark.parametrize("kind", ["empty", "clone"])
def test_a_box_without_a_branch_is_offered_no_apply_and_its_report_says_how_with_git(
    cli: Cli, repo: Path, tmp_path: Path, kind: str
) -> None:
    ok(cli("new", "b", *(["--empty"] if kind == "empty" else ["--clone", str(repo)])))
    ok(cli("run", "b", "--", "python3", "-c", EDIT))
    step = note(ok(cli("propose", "b")))
    assert "apply" not in step and "cloche export b --out DIR" in step
    out = tmp_path / "out"
    ok(cli("export", "b", "--out", str(out)))
    text = (out / "report.md").read_text().partition("## How to apply")[2]
    assert "cloche apply" not in text and ("git init" in text) == (kind == "empty")
    (command,) = [line.strip() for line in text.splitlines() if "git apply" in line or "&& git -C" in line]
    if kind == "empty":
        fresh = out / "NEW"
        subprocess.run(["sh", "-ec", command], cwd=out, check=True, capture_output=True)
    else:
        fresh = tmp_path / "NEW"
        assert "git clone URL NEW" in text
        support.git(tmp_path, "clone", "-q", str(repo), str(fresh))
        (fresh / "patch.diff").write_bytes((out / "patch.diff").read_bytes())
        subprocess.run(["sh", "-ec", command], cwd=fresh, check=True, capture_output=True)
    assert (fresh / "new.txt").read_bytes() == b"new\n"
    assert (fresh / "raw").read_bytes() == bytes(range(256))
    assert support.git(fresh, "write-tree") == Engine(repo).review("b").snapshot.id
