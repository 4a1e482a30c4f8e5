"""Git is started with an environment of its own, or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from backends.errors import ClocheError, Refused
from backends.trees.git import Git


def fake_git(folder: Path, script: str) -> None:
    program = folder / "git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def test_nothing_of_the_callers_environment_reaches_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_git(tmp_path, "env")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/bin/evil")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    seen = dict(line.split("=", 1) for line in Git(tmp_path).run("status").decode().splitlines())
    assert seen["GIT_DIR"] == str(tmp_path)
    assert seen["GIT_CONFIG_GLOBAL"] == "/dev/null"
    assert seen["GIT_OPTIONAL_LOCKS"] == "0"
    assert seen["PWD"] == "/"
    assert not {"GIT_EXTERNAL_DIFF", "AWS_SECRET_ACCESS_KEY", "XDG_STATE_HOME"} & set(seen)


def test_user_and_system_configuration_decide_nothing(repo: Path) -> None:
    Path(os.environ["HOME"], ".gitconfig").write_text('[core]\n\tpager = evil\n[alias]\n\tx = "!evil"\n')
    keys = Git(repo / ".git").run("config", "--list", "--show-origin").decode()
    assert "evil" not in keys


def test_missing_git_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("backends.trees.git.SYSTEM_PATH", str(tmp_path))
    with pytest.raises(Refused) as error:
        Git(tmp_path).run("version")
    assert error.value.next_step == "apt-get install git"


def test_a_relative_folder_in_path_is_never_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path, "echo evil")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    assert b"evil" not in Git(tmp_path).run("version")


def test_a_failure_carries_gits_last_words(repo: Path) -> None:
    with pytest.raises(ClocheError, match="alid object name"):
        Git(repo / ".git").run("cat-file", "-t", "nope")


def test_a_command_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_git(tmp_path, "exec sleep 30")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ClocheError, match="did not end"):
        Git(tmp_path).run("version", timeout=0.2)
