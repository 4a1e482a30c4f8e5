"""Applying on a terminal: the person is told branch, commit, snapshot and policy, and says yes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import support
from tests.cli.quick import ran
from tests.cli.screen import Screen
from tests.support import Done

pytestmark = pytest.mark.flow
Cli = Callable[..., Done]


@pytest.fixture
def snapshot(repo: Path) -> str:
    engine = ran(repo, "echo x > x; mkdir -p .github/workflows; echo y > .github/workflows/a.yml")
    engine.propose("b")
    return engine.review("b").snapshot.id


def test_yes_applies_what_was_named(snapshot: str, repo: Path, cli: Cli) -> None:
    tip = support.git(repo, "rev-parse", "main")
    with Screen(repo, "apply", "b", cols=200) as screen:
        text = screen.until(b"type y to acknowledge: ").decode()
        assert "branch main" in text and tip[:12] in text and snapshot in text
        assert "policy" in text and ".github/workflows/a.yml" in text, "what the gate flags is said before"
        screen.type(b"y\n")
        screen.until(b"type yes to apply: ")
        screen.type(b"yes\n")
        assert screen.wait() == 0
    assert support.git(repo, "rev-parse", "main^{tree}") == snapshot
    records = json.loads(cli("log", "b", "--json").out)["records"]
    applied = next(r["data"] for r in records if r["kind"] == "apply")
    assert applied["scripted"] is False
    (seen,) = (r["data"] for r in records if r["kind"] == "acknowledged")
    assert seen["scripted"] is False and seen["who"] == applied["who"] and seen["snapshot"] == snapshot
    assert [one["path"] for one in seen["warnings"]] == [".github/workflows/a.yml"]
    assert applied["acknowledged"] == [one["key"] for one in seen["warnings"]]


@pytest.mark.parametrize("answer", [b"no\n", b"\n", b"y\n", b"\x04"])
def test_anything_else_applies_nothing(snapshot: str, repo: Path, answer: bytes) -> None:
    tip = support.git(repo, "rev-parse", "main")
    with Screen(repo, "apply", "b", "--acknowledge", "all") as screen:
        screen.until(b"type yes to apply: ")
        screen.type(answer)
        assert screen.wait() == 3
    assert support.git(repo, "rev-parse", "main") == tip


@pytest.mark.parametrize("answer", [b"no\n", b"\n", b"\x04"])
def test_a_warning_that_is_not_acknowledged_ends_it(
    snapshot: str, repo: Path, cli: Cli, answer: bytes
) -> None:
    tip = support.git(repo, "rev-parse", "main")
    with Screen(repo, "apply", "b", cols=200) as screen:
        screen.until(b"type y to acknowledge: ")
        screen.type(answer)
        assert screen.wait() == 3
    assert support.git(repo, "rev-parse", "main") == tip
    assert json.loads(cli("review", "b", "--json").out)["acknowledged"] == []


def test_a_part_is_told_as_one_and_what_moved_meanwhile_is_named(snapshot: str, repo: Path, cli: Cli) -> None:
    tip = support.git(repo, "rev-parse", "main")
    assert cli("accept", "b", "x").code == 0
    with Screen(repo, "apply", "b", "-m", "only x", cols=200) as screen:
        text = screen.until(b"type yes to apply: ").decode()
        assert "combination not run" in text and "only x" in text and f"parents  {tip}" in text
        assert "Cloche-Partial: 2 of 4 lines and parts" in text and ".github" not in text
        assert cli("accept", "b", "--all").code == 0
        screen.type(b"yes\n")
        assert "these changed: the content, the decisions, the message" in screen.until(b"dry-run").decode()
        assert screen.wait() == 5
    assert support.git(repo, "rev-parse", "main") == tip
    assert cli("accept", "b", ".github/workflows/a.yml", "--reject").code == 0
    with Screen(repo, "apply", "b", cols=200) as screen:
        screen.until(b"type yes to apply: ")
        screen.type(b"yes\n")
        screen.until(b"combination not run")
        assert screen.wait() == 0
    assert support.git(repo, "diff", "--name-only", tip, "main") == "x"


def applied(cli: Cli) -> None:
    done = cli("apply", "b", "--as", "test", "--acknowledge", "all", "--message", "Add x")
    assert done.code == 0, done.err


def test_an_undo_says_what_goes_back_and_waits_for_a_yes(snapshot: str, repo: Path, cli: Cli) -> None:
    before = support.git(repo, "rev-parse", "main")
    applied(cli)
    tip = support.git(repo, "rev-parse", "main")
    with Screen(repo, "unapply", "b", cols=200) as screen:
        text = screen.until(b"type yes to undo: ").decode()
        assert f"main: {tip[:12]} -> {before[:12]}" in text and "Add x" in text
        assert "1 commit with 2 changed files" in text and str(repo) in text and "becomes proposed" in text
        screen.type(b"yes\n")
        assert screen.wait() == 0
    assert support.git(repo, "rev-parse", "main") == before


@pytest.mark.parametrize("answer", [b"no\n", b"\n", b"y\n", b"\x04"])
def test_anything_else_undoes_nothing(snapshot: str, repo: Path, cli: Cli, answer: bytes) -> None:
    applied(cli)
    tip = support.git(repo, "rev-parse", "main")
    with Screen(repo, "unapply", "b") as screen:
        screen.until(b"type yes to undo: ")
        screen.type(answer)
        assert screen.wait() == 3
    assert support.git(repo, "rev-parse", "main") == tip


def test_an_undo_is_of_what_was_shown(snapshot: str, repo: Path, cli: Cli) -> None:
    applied(cli)
    with Screen(repo, "unapply", "b") as screen:
        screen.until(b"type yes to undo: ")
        support.git(repo, "commit", "-q", "--allow-empty", "-m", "moved on")
        tip = support.git(repo, "rev-parse", "main")
        screen.type(b"yes\n")
        assert screen.wait() == 5
    assert support.git(repo, "rev-parse", "main") == tip
