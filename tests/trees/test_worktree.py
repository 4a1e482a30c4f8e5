"""The linked worktree of the workspace tier: as Git makes it, but raw, without hooks, and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.boxes.layout import BoxPaths, state_dir
from backends.errors import Busy, Refused
from backends.trees import provider, remove, snapshot, source, worktree
from backends.trees.values import Base, Source
from tests.support import git


class Place:
    def __init__(self, repo: Path) -> None:
        origin = source.discover(repo)
        assert origin is not None
        self.origin: Source = origin
        self.base: Base = source.resolve(origin)
        self.paths = BoxPaths(state_dir() / "sample" / "one")
        self.paths.root.mkdir(parents=True, mode=0o700)


@pytest.fixture
def place(repo: Path) -> Iterator[Place]:
    made = Place(repo)
    yield made
    remove.remove(made.paths.root)


def test_it_is_a_worktree_on_its_own_branch_and_clean(place: Place, repo: Path) -> None:
    provider.prepare_worktree(place.paths, place.origin, place.base)
    tree = place.paths.tree
    assert git(tree, "symbolic-ref", "HEAD") == "refs/heads/cloche/one"
    assert git(tree, "status", "--porcelain") == ""
    assert str(tree) in git(repo, "worktree", "list")
    (tree / "new").write_text("x")
    git(tree, "add", "new")
    git(tree, "commit", "-q", "-m", "inside")
    assert git(repo, "log", "--format=%s", "-1", "cloche/one") == "inside"


def test_its_snapshot_needs_no_private_repository(place: Place) -> None:
    provider.prepare_worktree(place.paths, place.origin, place.base)
    assert snapshot.snapshot(place.paths, place.base.tree).read == 0
    (place.paths.tree / "README.md").write_text("changed\n")
    taken = snapshot.snapshot(place.paths, place.base.tree, confine=False)
    assert taken.stat.files == 1
    assert taken.findings == ()


def test_no_hook_and_no_filter_runs(place: Place, repo: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    git(repo, "config", "filter.evil.smudge", f"touch {marker}; cat")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    provider.prepare_worktree(place.paths, place.origin, place.base)
    assert not marker.exists()


def test_release_takes_entry_and_branch_and_nothing_else(place: Place, repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    stale = tmp_path / "stale"
    git(repo, "worktree", "add", "-q", "-b", "stale", str(stale))
    remove.remove(stale)
    provider.prepare_worktree(place.paths, place.origin, place.base)
    assert worktree.release(place.paths, place.origin) == place.base.commit
    listed = git(repo, "worktree", "list", "--porcelain")
    assert str(place.paths.tree) not in listed
    assert str(tmp_path / "mine") in listed
    assert str(stale) in listed, "a worktree of the person's is not pruned"
    assert git(repo, "branch", "--list", "cloche/*") == ""
    assert worktree.release(place.paths, place.origin) == ""


def test_an_existing_branch_is_never_taken(place: Place, repo: Path) -> None:
    git(repo, "branch", "cloche/one")
    with pytest.raises(Busy, match="cloche/one"):
        worktree.add(place.paths, place.origin, place.base)
    assert git(repo, "branch", "--list", "cloche/one") == "cloche/one"


def test_a_failure_leaves_no_branch_and_no_entry(place: Place, repo: Path) -> None:
    oid = git(repo, "rev-parse", "HEAD:README.md")
    (repo / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    with pytest.raises(Refused):
        worktree.add(place.paths, place.origin, place.base)
    assert git(repo, "branch", "--list", "cloche/*") == ""
    assert len(git(repo, "worktree", "list").splitlines()) == 1
