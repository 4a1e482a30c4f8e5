"""The source repository: found without Git, revisions resolved, references changed by compare-and-swap."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backends.boxes.layout import state_dir
from backends.errors import Busy, Refused, UsageError
from backends.trees import source
from backends.trees.values import Base, Source
from tests.support import git, make_repo


def found(where: Path) -> Source:
    place = source.discover(where)
    assert place is not None
    return place


def test_a_subfolder_belongs_to_the_repository_above(repo: Path) -> None:
    assert found(repo / "src") == Source(str(repo), str(repo / ".git"), str(repo / ".git"))


def test_a_linked_worktree_has_its_own_head_and_the_shared_objects(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    place = found(tmp_path / "side")
    assert place.common_dir == str(repo / ".git")
    assert source.resolve(place).ref == "refs/heads/side"
    assert source.git(place).objects == repo / ".git" / "objects"


def test_a_bare_repository_is_found(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    assert found(tmp_path / "bare.git") == Source("", str(tmp_path / "bare.git"), str(tmp_path / "bare.git"))


def test_no_repository_gives_none(tmp_path: Path) -> None:
    assert source.discover(tmp_path) is None


def test_repositories_in_the_folder_of_boxes_are_not_found() -> None:
    inside = make_repo(state_dir() / "key" / "box" / "tree" / "nested")
    assert source.discover(inside) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_repository_of_another_user_is_refused_until_it_is_declared_safe(
    repo: Path, home: object
) -> None:
    os.chown(repo / ".git", 54321, 54321)
    with pytest.raises(Refused, match="not yours"):
        source.discover(repo)
    Path(os.environ["HOME"], ".gitconfig").write_text(f"[safe]\n\tdirectory = {repo}\n")
    assert found(repo).work_tree == str(repo)


def test_a_revision_gives_commit_tree_and_the_branch_it_names(repo: Path) -> None:
    commit, tree = git(repo, "rev-parse", "HEAD"), git(repo, "rev-parse", "HEAD^{tree}")
    git(repo, "tag", "-a", "v1", "-m", "one")
    place = found(repo)
    assert source.resolve(place) == Base(commit, tree, "refs/heads/main")
    assert source.resolve(place, "main") == Base(commit, tree, "refs/heads/main")
    for rev in ("v1", commit, commit[:10], "HEAD^0", ":/first", "main@{0}"):
        assert source.resolve(place, rev) == Base(commit, tree, ""), rev


def test_a_detached_head_names_no_branch(repo: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    assert source.resolve(found(repo)).ref == ""


@pytest.mark.parametrize(
    "rev", ["", "-x", "--all", "nope", "HEAD..HEAD", "HEAD:README.md", "a\0b", "HEAD\nHEAD"]
)
def test_what_names_no_commit_is_a_usage_error(repo: Path, rev: str) -> None:
    with pytest.raises(UsageError):
        source.resolve(found(repo), rev)


def test_an_unborn_head_is_refused_with_the_branch_and_the_remedy(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    for rev in ("HEAD", "trunk"):
        with pytest.raises(Refused) as error:
            source.resolve(found(tmp_path), rev)
        assert "refs/heads/trunk" in error.value.why
        assert "git commit --allow-empty" in error.value.next_step


def test_an_unborn_head_does_not_hide_a_branch_that_exists(repo: Path) -> None:
    git(repo, "symbolic-ref", "HEAD", "refs/heads/new")
    assert source.resolve(found(repo), "main").ref == "refs/heads/main"
    with pytest.raises(Refused, match="base"):
        source.resolve(found(repo))


def test_replacement_references_do_not_change_what_a_commit_is(repo: Path) -> None:
    place = found(repo)
    before = source.resolve(place)
    (repo / "other").write_text("other\n")
    git(repo, "add", "other")
    git(repo, "commit", "-q", "-m", "second")
    git(repo, "replace", before.commit, git(repo, "rev-parse", "HEAD"))
    assert source.resolve(place, before.commit) == before._replace(ref="")


def test_a_base_is_kept_once_and_released_only_where_it_is(repo: Path) -> None:
    place = found(repo)
    base = source.resolve(place)
    source.keep(place, "one", base)
    assert git(repo, "rev-parse", "refs/cloche/one/base") == base.commit
    with pytest.raises(Busy):
        source.keep(place, "one", base)
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    moved = git(repo, "rev-parse", "HEAD")
    git(repo, "update-ref", "refs/cloche/one/base", moved)
    with pytest.raises(Busy):
        source.release(place, "one", base.commit)
    source.release(place, "one", moved)
    assert git(repo, "for-each-ref", "refs/cloche") == ""
    source.release(place, "one", moved)


def test_a_kept_base_survives_prune(repo: Path) -> None:
    place = found(repo)
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    base = source.resolve(place)
    source.keep(place, "one", base)
    git(repo, "reset", "-q", "--hard", "HEAD^")
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "-q", "--prune=now")
    assert git(repo, "cat-file", "-t", base.commit) == "commit"


def test_an_anchor_is_swapped_only_from_the_expected_value(repo: Path) -> None:
    place = found(repo)
    assert source.read_anchor(place, "one") is None
    first = source.set_anchor(place, "one", b"1 abc\n", "")
    with pytest.raises(Busy):
        source.set_anchor(place, "one", b"2 def\n", "")
    source.set_anchor(place, "one", b"2 def\n", first)
    assert source.read_anchor(place, "one") == b"2 def\n"
    source.release(place, "one", "0" * 40)
    assert git(repo, "for-each-ref", "refs/cloche") == ""


def test_drift_counts_what_the_branch_gained(repo: Path) -> None:
    place = found(repo)
    base = source.resolve(place)
    assert source.drift(place, base.commit, base.ref) == 0
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(repo, "commit", "-q", "--allow-empty", "-m", "third")
    assert source.drift(place, base.commit, base.ref) == 2
    assert source.drift(place, base.commit, "refs/heads/gone") is None
    assert source.drift(place, base.commit, "") is None


def test_reference_updates_run_no_hook(repo: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    hook = repo / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    git(repo, "update-ref", "refs/heads/probe", "HEAD")
    assert marker.exists(), "the hook itself works"
    marker.unlink()
    place = found(repo)
    source.keep(place, "one", source.resolve(place))
    source.set_anchor(place, "one", b"x", "")
    assert not marker.exists()


def test_a_revision_is_looked_for_meanwhile_and_found_once(repo: Path) -> None:
    place = found(repo)
    with source.Resolving(place, "HEAD") as looking:
        assert looking.result() == source.resolve(place) == looking.result()
    with source.Resolving(place, "no-such-name") as looking, pytest.raises(UsageError):
        looking.result()
    with source.Resolving(place, "HEAD"):
        pass  # left without a question: Git is ended and taken
