"""What a box left in its repository to be run by others is told, and never run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backends.trees import diff, findings
from backends.trees.findings import config_keys
from tests.support import run
from tests.trees.conftest import Box


def told(box: Box) -> set[tuple[str, str]]:
    return {(one.kind, one.text.split("=")[0]) for one in findings.find(box.paths)}


def test_a_fresh_repository_has_none(box: Box) -> None:
    assert findings.find(box.paths) == ()


@pytest.mark.boundary
def test_hostile_keys_are_told_and_nothing_of_them_runs(box: Box, tmp_path: Path) -> None:
    """G1: the programs would touch a marker; overview, snapshot and diff are taken."""
    marker = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {marker}\n")
    script.chmod(0o755)
    keys = (
        "core.fsmonitor", "diff.x.textconv", "diff.external", "core.pager", "core.sshCommand", "core.editor",
        "filter.x.clean", "includeIf.gitdir:/.path", "alias.status", "credential.helper", "core.hooksPath",
        "merge.x.driver", "gpg.program", "uploadpack.packObjectsHook", "url.ext::sh.insteadOf",
    )  # fmt: skip
    for key in keys:
        run(["git", "config", "--file", str(box.paths.repo / "config"), key, str(script)], cwd=tmp_path)
    (box.tree / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    (box.tree / "README.md").write_text("changed\n")
    assert {text.lower() for kind, text in told(box) if kind == "git-config"} == {key.lower() for key in keys}
    taken = box.snapshot()
    assert {one.path for one in taken.findings} == {b".git/config"}
    diff.diff(box.paths, box.base.commit, box.base.tree, taken.tree)
    assert not marker.exists()


def test_hooks_attributes_and_other_repositories_are_told(box: Box) -> None:
    """G2: a hook that was renamed into place counts as one."""
    repo = box.paths.repo
    (repo / "x").write_text("#!/bin/sh\n")
    (repo / "hooks").mkdir()
    (repo / "x").rename(repo / "hooks" / "pre-commit")
    (repo / "hooks" / "pre-push.sample").write_text("")
    (repo / "info" / "attributes").write_text("* filter=evil\n")
    (repo / "modules" / "sub").mkdir(parents=True)
    (repo / "modules" / "sub" / "config").write_text("[core]\n\tfsmonitor = evil\n")
    found = {(one.kind, one.path) for one in findings.find(box.paths)}
    assert found == {
        ("hook", b".git/hooks/pre-commit"),
        ("git-attributes", b".git/info/attributes"),
        ("git-config", b".git/modules/sub/config"),
    }


def test_links_and_pipes_in_the_place_of_files_are_told_and_not_followed(box: Box, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("[core]\n\tfsmonitor = of-the-host\n")
    (box.paths.repo / "config").unlink()
    os.symlink(tmp_path / "outside", box.paths.repo / "config")
    os.mkfifo(box.paths.repo / "config.worktree")
    os.symlink(tmp_path, box.paths.repo / "hooks")
    found = findings.find(box.paths)
    assert {(one.kind, one.path) for one in found} == {
        ("odd-file", b".git/config"),
        ("odd-file", b".git/config.worktree"),
        ("hook", b".git/hooks"),
    }
    assert not any("of-the-host" in one.text for one in found)


def test_the_list_is_bounded(box: Box) -> None:
    lines = "".join(f"[alias]\n\ta{number} = !x\n" for number in range(5000))
    (box.paths.repo / "config").write_text(lines)
    found = findings.find(box.paths)
    assert len(found) == findings.MOST + 1
    assert found[-1].kind == "more"


def test_no_private_repository_gives_none(box: Box) -> None:
    box.paths.repo.rename(box.paths.root / "away")
    assert findings.find(box.paths) == ()


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        (b"[core]\n\tfsmonitor = x\n", [(b"core.fsmonitor", b"x")]),
        (b"[CORE] FsMonitor=x", [(b"core.fsmonitor", b"x")]),
        (b'[diff "A b"]\n textconv = y', [(b"diff.A b.textconv", b"y")]),
        (b'[a "q\\"r"]\nk', [(b'a.q\\"r.k', b"")]),
        (b"[core]\n\tfsmon\\\nitor = x\n", [(b"core.fsmonitor", b"x")]),
        (b"[core]\r\n\tpager = x\r\n", [(b"core.pager", b"x")]),
        (b"[diff.A]\nexternal=x\n", [(b"diff.a.external", b"x")]),
        (b"# [core]\n; pager = x\n", []),
        (b"\xff\xfe[", []),
    ],
)
def test_configuration_is_read_leniently(content: bytes, pairs: list[tuple[bytes, bytes]]) -> None:
    assert config_keys(content) == pairs
