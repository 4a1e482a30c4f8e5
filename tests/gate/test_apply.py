"""Apply carries exactly what was reviewed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from backends.boxes.layout import state_dir
from backends.evidence.journal import read, verify
from backends.trees.values import Source
from tests import support
from tests.gate.applying import BRANCH, LINK, commit, run
from tests.gate.world import World, disk

# ------------------------------------------------------------------------------------------- carried over


def test_a_proposal_on_an_unmoved_branch_is_one_commit_with_exactly_the_reviewed_tree(world: World) -> None:
    tree = world.changed({b"hello.txt": b"hello\n", b"run.sh": b"#!/bin/sh\n"})
    outcome = run(world, tree)
    assert (outcome.branch, outcome.old, outcome.mode, outcome.who) == (
        BRANCH,
        world.base,
        "fast-forward",
        "me",
    )
    assert world.git("rev-parse", "main") == outcome.new
    assert world.git("rev-parse", "main^{tree}") == tree
    assert world.git("rev-parse", "main^") == world.base
    assert world.status() == ""
    assert (world.repo / "hello.txt").read_bytes() == b"hello\n"
    assert not os.access(world.repo / "run.sh", os.X_OK)
    assert world.fsck() == ""
    assert "cloche apply box: fast-forward" in world.git("reflog", "-1", "main")
    text = world.git("log", "-1", "--format=%an <%ae>%n%B")
    assert text.startswith("Test <test@example.invalid>\nadd a greeting\n\nCloche-Box: repo-0123456789/box\n")
    assert f"Cloche-Snapshot: {tree}" in text
    assert "Cloche-Applied-By-Script" not in text


def test_the_apply_is_journalled_and_a_script_is_named(world: World) -> None:
    outcome = run(world, world.changed({b"a": b"x"}), scripted=True)
    *_, start, record = read(world.paths.journal)
    assert (start.kind, record.kind) == ("apply-start", "apply") and start.data == record.data
    assert {k: record.data[k] for k in ("branch", "old", "new", "mode", "who", "scripted")} == {
        "branch": BRANCH, "old": world.base, "new": outcome.new, "mode": "fast-forward", "who": "me",
        "scripted": True,
    }  # fmt: skip
    assert verify(world.paths.journal).problems == ()
    assert "Cloche-Applied-By-Script: me" in world.git("log", "-1", "--format=%B")


def test_a_moved_branch_is_merged_with_both_parents(world: World) -> None:
    tree = world.changed({b"hello.txt": b"hello\n"})
    tip = commit(world, {"other.txt": b"other\n"})
    outcome = run(world, tree)
    assert outcome.mode == "merge"
    first, second = world.git("log", "-1", "--format=%P", "main").split()
    assert first == tip
    assert world.git("rev-parse", f"{second}^{{tree}}") == tree
    assert world.git("rev-parse", f"{second}^") == world.base
    assert (world.repo / "hello.txt").read_bytes() == b"hello\n"
    assert (world.repo / "other.txt").read_bytes() == b"other\n"
    assert world.status() == "" and world.fsck() == ""


@pytest.mark.parametrize("moved", [False, True])
def test_squash_is_one_commit_on_the_tip(world: World, moved: bool) -> None:
    tree = world.changed({b"hello.txt": b"hello\n"})
    tip = commit(world, {"other.txt": b"other\n"}) if moved else world.base
    outcome = run(world, tree, squash=True)
    assert (outcome.mode, outcome.old) == ("squash", tip)
    assert world.git("log", "-1", "--format=%P", "main") == tip
    assert (world.repo / "hello.txt").read_bytes() == b"hello\n"
    assert world.status() == "" and world.fsck() == ""


G6_NAMES = (
    b"-rf", b"a b", b"new\nline", b"tab\there", b'quo"te', b"back\\slash", b"\xff\xfe", "\U0001f600".encode(),
    b"x" * 255, b"$(id)", b"[b]", b"*.py",
)  # fmt: skip
G5_TEXTS = (
    b"crlf\r\n",
    b"lone\rcr\n",
    b"form\x0cfeed\n",
    "u\u2028v\n".encode(),
    b"latin \xe9\n",
    b"no newline",
)


def test_strange_bytes_names_modes_and_links_arrive_as_they_were_reviewed(world: World) -> None:
    nodes: dict[bytes, object] = {
        name: (0o100755 if n % 2 else 0o100644, b"\0bin\n") for n, name in enumerate(G6_NAMES)
    }
    nodes |= {b"text%d" % n: text for n, text in enumerate(G5_TEXTS)}
    nodes |= {b"link": (LINK, b"src/add.py"), b"README.md": (0o100755, b"# now executable\0\n")}
    tree = world.changed(nodes)  # type: ignore[arg-type]
    run(world, tree)
    found = disk(world.repo)
    for n, name in enumerate(G6_NAMES):
        assert found[name] == (0o100 if n % 2 else 0, b"\0bin\n")
    for n, text in enumerate(G5_TEXTS):
        assert found[b"text%d" % n] == (0, text)
    assert found[b"link"] == (LINK, b"src/add.py")
    assert found[b"README.md"] == (0o100, b"# now executable\0\n")
    assert world.status() == ""
    assert world.git("rev-parse", "main^{tree}") == tree


def test_deleted_and_replaced_paths_follow(world: World) -> None:
    run(world, world.tree({b"src": b"a file now\n", b"README.md": {b"inner": b"a folder now\n"}}))
    assert disk(world.repo) == {b"src": (0, b"a file now\n"), b"README.md/inner": (0, b"a folder now\n")}
    assert world.status() == ""


def test_untracked_and_ignored_files_of_the_person_stay(world: World) -> None:
    (world.repo / ".git" / "info" / "exclude").write_text("ignored\n")
    support.write_files(world.repo, {"mine.txt": b"mine", "ignored": b"too"})
    run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert (world.repo / "mine.txt").read_bytes() == b"mine"
    assert (world.repo / "ignored").read_bytes() == b"too"


def test_a_branch_that_is_not_checked_out_moves_without_touching_files(world: World) -> None:
    world.git("switch", "-q", "-c", "elsewhere")
    before = disk(world.repo)
    outcome = run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert world.git("rev-parse", "main") == outcome.new
    assert world.git("symbolic-ref", "HEAD") == "refs/heads/elsewhere"
    assert disk(world.repo) == before and world.status() == ""


def test_the_linked_worktree_that_holds_the_branch_is_brought_along(world: World, tmp_path: Path) -> None:
    world.git("switch", "-q", "-c", "elsewhere")
    linked = tmp_path / 'linked: "tree'
    world.git("worktree", "add", "-q", str(linked), "main")
    run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert (linked / "hello.txt").read_bytes() == b"hello\n"
    assert support.git(linked, "status", "--porcelain") == ""
    assert not (world.repo / "hello.txt").exists() and world.status() == ""


def test_a_bare_source_is_applied_to(world: World, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(world.repo), str(bare)], check=True)
    world.source = Source("", str(bare), str(bare))
    outcome = run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert support.git(bare, "rev-parse", "main") == outcome.new
    assert support.git(bare, "show", "main:hello.txt") == "hello"
    assert support.git(bare, "fsck", "--strict") == ""


def test_a_split_index_is_read_and_the_checkout_stays_clean(world: World) -> None:
    world.git("update-index", "--split-index")
    assert list((world.repo / ".git").glob("sharedindex.*"))
    run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert (world.repo / "hello.txt").exists() and world.status() == ""


def test_a_shallow_source_is_applied_to(world: World, tmp_path: Path) -> None:
    commit(world, {"second": b"x"})
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{world.repo}", str(shallow)], check=True)
    from backends.boxes.layout import BoxPaths
    from backends.trees import quarantine

    world.repo = shallow
    world.source = Source(str(shallow), str(shallow / ".git"), str(shallow / ".git"))
    world.base, world.base_tree = world.git("rev-parse", "HEAD"), world.git("rev-parse", "HEAD^{tree}")
    world.paths = BoxPaths(state_dir() / "shallow-0123456789" / "box")
    world.paths.root.mkdir(parents=True)
    world.quarantine = quarantine.init(world.paths, shallow / ".git" / "objects")
    tree = world.changed({b"hello.txt": b"hello\n"})
    support.git(shallow, "config", "user.name", "Test")
    commit(world, {"third": b"x"})
    assert run(world, tree).mode == "merge"
    assert world.status() == "" and world.fsck() == ""


def test_apply_works_inside_a_repository_of_sha256(tmp_path: Path) -> None:
    from backends.boxes.layout import BoxPaths
    from backends.trees import quarantine

    world = World(tmp_path)
    repo = tmp_path / "sha256"
    subprocess.run(["git", "init", "-q", "-b", "main", "--object-format=sha256", str(repo)], check=True)
    support.git(repo, "config", "user.name", "Test")
    world.repo, world.source = repo, Source(str(repo), str(repo / ".git"), str(repo / ".git"))
    world.base = commit(world, {"a": b"x"})
    world.base_tree = world.git("rev-parse", "HEAD^{tree}")
    world.paths = BoxPaths(state_dir() / "sha256-0123456789" / "box")
    world.paths.root.mkdir(parents=True)
    world.quarantine = quarantine.init(world.paths, repo / ".git" / "objects", "sha256")
    run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert (repo / "hello.txt").exists() and world.status() == ""


def test_line_ends_are_written_as_the_attributes_of_the_tree_say(world: World) -> None:
    world.base = commit(world, {".gitattributes": b"*.txt text eol=crlf\n"})
    world.base_tree = world.git("rev-parse", "HEAD^{tree}")
    run(world, world.changed({b"a.txt": b"one\ntwo\n"}))
    assert (world.repo / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert world.status() == ""


def test_a_sparse_checkout_stays_sparse_where_nothing_changed(world: World) -> None:
    world.git("sparse-checkout", "set", "--no-cone", "/src/")
    assert not (world.repo / "README.md").exists()
    run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert not (world.repo / "README.md").exists()
    assert world.git("show", "main:hello.txt") == "hello"
    assert world.status() == "" and world.fsck() == ""
