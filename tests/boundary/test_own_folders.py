"""Attacks by what a box leaves in its own folders: on the host's Git, on its next launch (S5)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.tiers.protocol import LaunchSpec
from tests.boundary import harness


@pytest.fixture(params=[False, True], ids=["without a repository", "with one"])
def wanted(request: pytest.FixtureRequest) -> Iterator[LaunchSpec]:
    folder = Path(tempfile.mkdtemp(prefix="cloche-own-"))
    folder.chmod(0o755)
    yield harness.spec(harness.policy(), folder, repo=request.param)
    shutil.rmtree(folder)


BARE = """
mkdir -p /work/objects /work/refs/heads /work/src/deep
echo 'ref: refs/heads/main' > /work/HEAD
printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\n' > /work/config
printf 'fsmonitor="touch RAN; false"\\npager="touch RAN"\\n' >> /work/config
printf '[alias]\\nstatus="!touch RAN"\\n' >> /work/config
echo '* filter=x diff=x' > /work/.gitattributes
rm -rf /work/.git /work/.git/HEAD 2>/dev/null
echo evil > /work/.git/config 2>/dev/null; echo evil > /work/.git/HEAD 2>/dev/null
true
"""


def test_a_prompt_in_the_tree_runs_nothing_of_a_bare_repository_at_its_root(wanted: LaunchSpec) -> None:
    """Git, started by who owns the files and by who trusts every folder, finds a repository of nothing."""
    tree = wanted.paths.tree
    ran = wanted.paths.root / "ran"
    with harness.launched(wanted) as box:
        assert box.sh(BARE.replace("RAN", str(ran))).exit == 0
    wanted.paths.root.chmod(0o777)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    for uid in {os.geteuid(), wanted.payload_uid}:
        for folder in (tree, tree / "src", tree / "src/deep"):
            for command in (["status"], ["rev-parse", "--abbrev-ref", "HEAD"], ["diff"], ["ls-files", "-o"]):
                done = subprocess.run(
                    ["git", *command], cwd=folder, env=env, capture_output=True, text=True, user=uid
                )
                assert not ran.exists(), (folder, command)
                if command == ["status"]:
                    assert "On branch box" in done.stdout, done.stderr
    with harness.launched(wanted) as box:  # and the host's Git has left nothing that stops the box
        assert box.sh("echo again").out == "again\n"


def test_a_mount_point_that_is_gone_is_made_anew_before_the_box_runs(wanted: LaunchSpec) -> None:
    shutil.rmtree(wanted.paths.tree / ".git")
    with harness.launched(wanted):
        assert (wanted.paths.tree / ".git" / "HEAD").is_file()
        assert (wanted.paths.tree / ".git" / "config").is_file()


def test_a_box_that_closed_its_folders_and_took_names_starts_again(wanted: LaunchSpec) -> None:
    with harness.launched(wanted) as box:
        box.sh("for i in $(seq 2 60); do : > /work/.cloche-proof-$i; : > /home/box/.cloche-proof-$i; done")
        assert box.sh("echo kept > /work/kept; chmod 000 /work /home/box; true").exit == 0
    with harness.launched(wanted) as box:
        assert box.sh("cat kept").out == "kept\n"
        assert box.sh("chmod 000 /work/.git /work /home/box; true").exit == 0
    with harness.launched(wanted) as box:
        assert box.sh("cat kept").out == "kept\n"
