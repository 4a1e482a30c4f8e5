"""History for people comes through GitPython, whose Git runs as ours does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backends.trees import source
from backends.trees.values import Source
from tests.support import git


@pytest.fixture
def origin(repo: Path) -> Source:
    git(repo, "commit", "-q", "--allow-empty", "-m", "second [red]\x1b[31m")
    git(repo, "branch", "side", "HEAD^")
    git(repo, "branch", "cloche/box", "HEAD^")
    found = source.discover(repo)
    assert found is not None
    return found


def test_branches_and_commits(origin: Source, repo: Path) -> None:
    from backends.trees import history

    assert {row.ref for row in history.branches(origin)} == {"refs/heads/main", "refs/heads/side"}
    assert [row.subject for row in history.commits(origin, "refs/heads/main")] == [
        "second [red]\x1b[31m",
        "first",
    ]
    assert [row.id for row in history.commits(origin, "main", limit=1)] == [git(repo, "rev-parse", "main")]


def test_what_drift_consists_of(origin: Source, repo: Path) -> None:
    from backends.trees import history

    base = git(repo, "rev-parse", "HEAD^")
    assert [row.author for row in history.gained(origin, base, "refs/heads/main")] == ["Test"]
    assert history.gained(origin, base, "refs/heads/gone") == ()
    assert source.drift(origin, base, "refs/heads/main") == 1


def test_its_git_has_our_environment(origin: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from backends.trees import history

    marker = tmp_path / "environments"
    real = next(path for path in ("/usr/bin/git", "/usr/local/bin/git") if Path(path).exists())
    (tmp_path / "git").write_text(
        f'#!/bin/sh\nenv >> {marker}\necho "args $*" >> {marker}\nexec {real} "$@"\n'
    )
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("API_TOKEN", "secret")
    history.branches(origin)
    history.commits(origin, "main")
    seen = marker.read_text()
    assert "GIT_CONFIG_GLOBAL=/dev/null" in seen
    assert "core.hooksPath=/dev/null" in seen
    assert "API_TOKEN" not in seen
    assert "GIT_CONFIG_COUNT" not in seen
