"""The commits of a real box, kept: proposed, shown, applied, and undone, as people and scripts do it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import support
from tests.support import Done

pytestmark = [pytest.mark.flow, pytest.mark.real]
Cli = Callable[..., Done]

STEPS = """
set -e
git config user.name 'An Agent'; git config user.email agent@inside.example
printf 'one\\n' > one; git add one; git commit -qm 'Add one'
printf 'two\\n' > two; chmod +x two; git mv README.md READ.md; git add two; git commit -qm 'Add two

With a reason.'
"""


def ok(done: Done) -> Done:
    assert done.code == 0, done.err + done.out
    return done


def worked(cli: Cli, box: str, script: str = STEPS) -> None:
    """A box whose agent ran ``script``, proposed."""
    ok(cli("new", box))
    ok(cli("run", box, "--", "/bin/sh", "-c", script))
    ok(cli("propose", box))


def commits_of(cli: Cli, box: str) -> dict[str, object]:
    value = json.loads(ok(cli("review", box, "--json")).out)["commits"]
    assert isinstance(value, dict)
    return value


def test_commits_are_shown_and_applied_as_they_are(cli: Cli, repo: Path) -> None:
    worked(cli, "keeps")
    found = commits_of(cli, "keeps")
    assert found["keepable"] is True and found["why"] == ""
    assert [row["subject"] for row in found["rows"]] == ["Add one", "Add two"]
    base = support.git(repo, "rev-parse", "HEAD")
    plan = json.loads(ok(cli("apply", "keeps", "--keep-commits", "--dry-run", "--json")).out)["plan"]
    assert plan["mode"] == "fast-forward"
    done = json.loads(
        ok(cli("apply", "keeps", "--keep-commits", "--as", "test", "--acknowledge", "all", "--json")).out
    )
    assert done["new"] == found["head"] == support.git(repo, "rev-parse", "main")
    assert support.git(repo, "log", "--format=%s|%an|%ae", f"{base}..main").split("\n") == [
        "Add two|An Agent|agent@inside.example",
        "Add one|An Agent|agent@inside.example",
    ]
    assert support.git(repo, "status", "--porcelain") == ""
    support.git(repo, "fsck", "--strict")


def test_a_series_is_applied_by_git_am_with_the_same_trees_messages_and_authors(cli: Cli, repo: Path) -> None:
    worked(cli, "mails")
    out = repo.parent / "out"
    ok(cli("export", "mails", "--out", str(out), "--series"))
    names = sorted(path.name for path in out.glob("0*.patch"))
    assert names == ["0001-Add-one.patch", "0002-Add-two.patch"]
    receipt = json.loads((out / "receipt.json").read_text())
    assert receipt["commits"]["identity"] == "claimed by the box"
    ok(cli("verify", str(out)))
    fresh = repo.parent / "fresh"
    support.git(repo.parent, "clone", "-q", str(repo), str(fresh))
    support.git(fresh, "am", "-q", *(str(out / name) for name in names))
    ok(cli("apply", "mails", "--keep-commits", "--as", "test", "--acknowledge", "all"))
    shown = ("log", "-2", "--date=raw", "--format=%T%n%an%n%ae%n%ad%n%B")
    assert support.git(fresh, *shown) == support.git(repo, *shown)
