"""Commits of boxes of every kind of source and tree: kept, or refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import support
from tests.support import Done

pytestmark = [pytest.mark.flow, pytest.mark.real]
Cli = Callable[..., Done]

STEPS = """
git config user.name 'An Agent'; git config user.email agent@inside.example
printf 'one\\n' > one; git add one; git commit -qm 'Add one'
printf 'two\\n' > two; git add two; git commit -qm 'Add two'
"""


def ok(done: Done) -> Done:
    assert done.code == 0, done.err + done.out
    return done


def proposed(cli: Cli, where: Path, *new: str) -> Any:
    """What is told of the commits of a box "b" made in ``where``."""
    ok(cli("new", "b", *new, cwd=where))
    ok(cli("run", "b", "--", "/bin/sh", "-ec", STEPS, cwd=where))
    ok(cli("propose", "b", cwd=where))
    return json.loads(ok(cli("review", "b", "--json", cwd=where)).out)["commits"]


def applied(cli: Cli, where: Path, *new: str) -> None:
    found = proposed(cli, where, *new)
    assert found["keepable"] is True, found["why"]
    ok(cli("apply", "b", "--keep-commits", "--as", "test", "--acknowledge", "all", cwd=where))
    assert support.git(where, "rev-parse", "main") == found["head"]
    assert support.git(where, "log", "-2", "--format=%s|%an") == "Add two|An Agent\nAdd one|An Agent"
    assert (where / "two").read_bytes() == b"two\n"
    support.git(where, "fsck", "--strict")


@pytest.mark.parametrize("provider", ["checkout", "overlay"])
def test_of_either_provider_of_trees(cli: Cli, repo: Path, provider: str) -> None:
    (repo / "cloche.toml").write_text(f'[profiles.default]\ntree = "{provider}"\n')
    support.git(repo, "add", "-A")
    support.git(repo, "commit", "-qm", "profile")
    applied(cli, repo)


def test_of_a_repository_of_sha256(cli: Cli, tmp_path: Path) -> None:
    place = tmp_path / "wide"
    place.mkdir()
    support.git(place, "init", "-q", "-b", "main", "--object-format=sha256")
    support.write_files(place, support.SMALL_FILES)
    support.git(place, "add", "-A")
    support.git(place, "commit", "-qm", "first")
    applied(cli, place)


def test_of_a_shallow_source(cli: Cli, repo: Path, tmp_path: Path) -> None:
    support.write_files(repo, {"second": b"x\n"})
    support.git(repo, "add", "-A")
    support.git(repo, "commit", "-qm", "second")
    support.git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", "shallow")
    applied(cli, tmp_path / "shallow")


def test_of_a_box_that_began_empty_as_a_series(cli: Cli, repo: Path, tmp_path: Path) -> None:
    assert proposed(cli, repo, "--empty")["keepable"] is True
    out = tmp_path / "out"
    ok(cli("export", "b", "--out", str(out), "--series"))
    support.git(repo, "am", "-q", *sorted(str(path) for path in out.glob("0*.patch")))
    assert support.git(repo, "log", "-2", "--format=%s|%an") == "Add two|An Agent\nAdd one|An Agent"


def test_a_stranger_s_code_comes_without_history_and_has_none_to_keep(cli: Cli, repo: Path) -> None:
    assert proposed(cli, repo, "--clone", str(repo)) is None
    done = cli("export", "b", "--out", "out", "--series", "--json")
    error = json.loads(done.err)
    assert error["why"] == "the box was given no history to go on from"
    assert error["next"] == "export one patch: cloche export b --out DIR"


def test_without_history_there_is_nothing_to_go_on_from(cli: Cli, repo: Path) -> None:
    (repo / "cloche.toml").write_text('[profiles.default]\nhistory = "none"\n')
    support.git(repo, "add", "-A")
    support.git(repo, "commit", "-qm", "profile")
    assert proposed(cli, repo) is None
    done = cli("apply", "b", "--keep-commits", "--as", "test", "--json")
    assert json.loads(done.err)["why"] == "the box was given no history to go on from"


def test_at_the_tier_workspace_they_lie_in_the_repository_already(cli: Cli, repo: Path) -> None:
    assert proposed(cli, repo, "--tier", "workspace") is None
    done = cli("apply", "b", "--keep-commits", "--as", "test", "--json")
    assert json.loads(done.err)["why"] == (
        "at the tier workspace they lie on the branch cloche/b of your repository already"
    )
    assert support.git(repo, "log", "-1", "--format=%s", "cloche/b") == "Add two"
