"""What apply refuses changes nothing: conflicts, changes of the person, hostile objects, races."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backends.errors import Busy, ClocheError, Conflict, Refused
from backends.evidence.journal import read
from backends.gate import apply as module
from backends.gate import merging, moving, worktree
from backends.gate.apply import Request, apply
from backends.snapshots import CheckRow
from tests import support
from tests.gate.applying import BRANCH, LINK, commit, run, state
from tests.gate.world import Tree, World

# --------------------------------------------------------------------------------------- nothing changes


def test_a_conflict_changes_nothing_and_names_the_files(world: World) -> None:
    tree = world.changed({b"README.md": b"# theirs\n", b"fine.txt": b"x\n", b"\xffodd\n": b"theirs"})
    commit(world, {"README.md": b"# ours\n"})
    support.write_files(world.repo, {os.fsdecode(b"\xffodd\n"): b"ours"})
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "odd")
    before = state(world)
    for squash in (False, True):
        with pytest.raises(Busy) as caught:
            run(world, tree, squash=squash)
        assert caught.value.code == "conflict" and caught.value.exit_code == 5
        assert "README.md" in caught.value.why and os.fsdecode(b"\xffodd\n") in caught.value.why
        assert "cloche rebase" in caught.value.next_step
        assert isinstance(caught.value, Conflict)
        assert dict(caught.value.files) == {b"README.md": "contents", b"\xffodd\n": "contents"}
    assert state(world) == before
    assert world.fsck() == ""
    assert [r.kind for r in read(world.paths.journal)] == ["created"]
    assert not list(world.paths.root.glob("apply-*"))


@pytest.mark.parametrize("staged", [False, True])
def test_changes_of_the_person_in_tracked_files_stop_it(world: World, staged: bool) -> None:
    (world.repo / "src" / "add.py").write_bytes(b"my own work\n")
    if staged:
        world.git("add", "-A")
    before = state(world)
    with pytest.raises(Busy) as caught:
        run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert caught.value.code == "checkout-not-clean" and "src/add.py" in caught.value.why
    assert state(world)[:4] == before[:4]


def test_a_touched_but_equal_file_is_clean(world: World) -> None:
    os.utime(world.repo / "README.md", (1, 1))
    run(world, world.changed({b"README.md": b"# new\n"}))
    assert (world.repo / "README.md").read_bytes() == b"# new\n"


@pytest.mark.parametrize("ignored", [False, True])
def test_an_untracked_file_in_the_way_is_not_overwritten(world: World, ignored: bool) -> None:
    if ignored:
        (world.repo / ".git" / "info" / "exclude").write_text("hello.txt\n")
    (world.repo / "hello.txt").write_bytes(b"mine")
    before = state(world)
    objects = set((world.repo / ".git" / "objects").rglob("*"))
    with pytest.raises(Busy) as caught:
        run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert "hello.txt" in caught.value.why
    assert state(world)[:4] == before[:4]
    assert set((world.repo / ".git" / "objects").rglob("*")) == objects, "no object enters before the checks"


def test_a_refused_proposal_leaves_no_object_in_the_source(world: World) -> None:
    before = state(world)
    objects = set((world.repo / ".git" / "objects").rglob("*"))
    bad: tuple[Tree, ...] = (
        {b"sub": {b".GIT": {b"config": b"x"}}}, {b"l": (LINK, b"/etc/passwd")}, {b"m": (0o160000, b"1" * 40)},
        {b"d": {b"HEAD": b"x", b"objects": {b"a": b""}, b"refs": {b"b": b""}}}, {b"..": {b"x": b"y"}},
    )  # fmt: skip
    for nodes in bad:
        with pytest.raises(Refused) as caught:
            run(world, world.changed(nodes))
        assert caught.value.code == "gate-refused"
    assert state(world) == before
    assert set((world.repo / ".git" / "objects").rglob("*")) == objects


def test_a_row_that_was_refused_in_the_review_counts_although_the_objects_pass(world: World) -> None:
    row = CheckRow("special-file", "refuse", "it is a block device", b"dev")
    tree = world.changed({b"a": b"x"})
    with pytest.raises(Refused, match="dev: it is a block device"):
        apply(world.paths, world.source, world.snapshot(tree), Request(BRANCH, "me", checks=[row]))


def test_two_harmless_halves_that_merge_into_a_repository_are_refused(world: World) -> None:
    tree = world.changed({b"docs": {b"HEAD": b"ref: refs/heads/x\n"}})
    commit(world, {"docs/objects/a": b"x", "docs/refs/b": b"x"})
    before = state(world)
    with pytest.raises(Refused, match="docs: is a repository to Git"):
        run(world, tree)
    assert state(world) == before


def test_the_branch_that_moves_during_the_apply_wins_and_the_checkout_comes_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = world.changed({b"hello.txt": b"hello\n"})
    real = merging.carry
    other = world.git("commit-tree", world.base_tree, "-p", world.base, "-m", "other")

    def carry(*args: object) -> None:
        real(*args)  # type: ignore[arg-type]
        world.git("update-ref", BRANCH, other)

    monkeypatch.setattr(merging, "carry", carry)
    with pytest.raises(Busy) as caught:
        run(world, tree)
    assert caught.value.code == "branch-moved"
    assert world.git("rev-parse", "main") == other
    assert not (world.repo / "hello.txt").exists()
    assert world.status() == "" and world.fsck() == ""


@pytest.mark.parametrize("stuck", [False, True])
def test_an_interrupt_at_the_last_step_brings_the_files_back_or_says_that_it_could_not(
    world: World, monkeypatch: pytest.MonkeyPatch, stuck: bool
) -> None:
    def swap(*args: object) -> None:
        if stuck:
            (world.repo / "hello.txt").write_bytes(b"edited meanwhile")
        raise KeyboardInterrupt

    monkeypatch.setattr(moving, "swap_refs", swap)
    with pytest.raises(ClocheError if stuck else KeyboardInterrupt) as caught:
        run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert world.git("rev-parse", "main") == world.base
    if stuck:
        assert isinstance(caught.value, ClocheError) and caught.value.code == "checkout-left"
        assert (world.repo / "hello.txt").read_bytes() == b"edited meanwhile"
    else:
        assert world.status() == "" and not (world.repo / "hello.txt").exists()
    assert [r.kind for r in read(world.paths.journal)] == ["created", "apply-start"]


def test_a_rewritten_branch_is_not_merged_back(world: World) -> None:
    secret = commit(world, {"dropped.txt": b"dropped on purpose\n"})
    world.base, world.base_tree = secret, world.git("rev-parse", "HEAD^{tree}")
    tree = world.changed({b"hello.txt": b"hello\n"})
    world.git("reset", "-q", "--hard", "HEAD^")
    commit(world, {"new.txt": b"x"})
    before = state(world)
    with pytest.raises(Busy) as caught:
        run(world, tree)
    assert caught.value.code == "branch-rewritten"
    assert state(world) == before


@pytest.mark.parametrize(
    ("branch", "code"), [("", "no-branch"), ("refs/heads/gone", "branch-gone"), ("refs/tags/v1", "no-branch")]
)
def test_without_the_recorded_branch_there_is_nowhere_to_apply(world: World, branch: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        run(world, world.changed({b"a": b"x"}), branch=branch)
    assert caught.value.code == code and "cloche export" in caught.value.next_step


def test_a_branch_that_is_an_alias_of_another_is_refused(world: World) -> None:
    world.git("branch", "real")
    world.git("switch", "-q", "real")
    world.git("symbolic-ref", BRANCH, "refs/heads/real")
    with pytest.raises(Refused) as caught:
        run(world, world.changed({b"a": b"x"}))
    assert caught.value.code == "symbolic-branch"


def test_an_empty_proposal_is_refused(world: World) -> None:
    with pytest.raises(Refused) as caught:
        run(world, world.base_tree)
    assert caught.value.code == "nothing-to-apply"


def test_a_base_tree_that_is_not_the_bases_is_refused(world: World) -> None:
    tree = world.changed({b"a": b"x"})
    forged = world.snapshot(tree)._replace(base_tree=world.changed({b"b": b"x"}))
    with pytest.raises(Refused) as caught:
        apply(world.paths, world.source, forged, Request(BRANCH, "me"))
    assert caught.value.code == "other-base"


def test_a_merge_or_rebase_under_way_stops_it(world: World) -> None:
    tree = world.changed({b"a": b"x"})
    git_dir = world.repo / ".git"
    (git_dir / "MERGE_HEAD").write_text(world.base + "\n")
    with pytest.raises(Busy) as caught:
        run(world, tree)
    assert caught.value.code == "under-way"
    (git_dir / "MERGE_HEAD").unlink()
    (git_dir / "rebase-merge").mkdir()
    (git_dir / "rebase-merge" / "head-name").write_text(BRANCH + "\n")
    world.git("checkout", "-q", "--detach")
    with pytest.raises(Busy) as caught:
        run(world, tree)
    assert caught.value.code == "under-way"


def test_another_git_at_work_in_the_checkout_is_busy(world: World) -> None:
    (world.repo / ".git" / "index.lock").touch()
    before = state(world)
    with pytest.raises(Busy):
        run(world, world.changed({b"a": b"x"}))
    (world.repo / ".git" / "index.lock").unlink()
    assert state(world)[:4] == before[:4]


def test_a_branch_held_by_a_box_or_checked_out_twice_is_refused(world: World, tmp_path: Path) -> None:
    world.git("switch", "-q", "-c", "elsewhere")
    inside = world.paths.root / "tree"
    world.git("worktree", "add", "-q", str(inside), "main")
    with pytest.raises(Refused) as caught:
        run(world, world.changed({b"a": b"x"}))
    assert caught.value.code == "checked-out-in-box"
    world.git("worktree", "add", "-q", "-f", str(tmp_path / "second"), "main")
    with pytest.raises(Busy) as busy:
        run(world, world.changed({b"a": b"x"}))
    assert busy.value.code == "checked-out-twice"


def test_an_object_that_fails_gits_own_check_does_not_enter(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run_checks", lambda *args, **kw: ())
    before = state(world)
    with pytest.raises(ClocheError):
        run(world, world.changed({b"sub": {b".git": {b"config": b"x"}}}))
    assert state(world)[:4] == before[:4]
    assert world.fsck() == ""


def test_the_gate_holds_twice_fsck_at_import_names_the_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run_checks", lambda *args, **kw: ())
    monkeypatch.setattr(worktree, "checkout_of", lambda *args: None)
    with pytest.raises(Refused) as caught:
        run(world, world.changed({b"sub": {b".git": {b"config": b"x"}}}))
    assert caught.value.code == "fsck"
    assert not list((world.repo / ".git" / "objects" / "pack").iterdir())
    assert not list(world.paths.root.glob("apply-*"))


def test_what_a_check_refused_is_said_once_and_the_way_on_names_the_box(world: World) -> None:
    tree = world.changed({b"leak": (LINK, b"/etc/passwd")})
    with pytest.raises(Refused) as caught:
        apply(
            world.paths, world.source, world.snapshot(tree),
            Request(BRANCH, "me", checks=world.checks(tree)),
        )  # fmt: skip
    assert caught.value.why.count("leak") == 1
    assert "cloche reopen box" in caught.value.next_step
