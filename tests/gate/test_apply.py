"""Apply carries exactly what was reviewed, or changes nothing; and nothing of the source's runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from backends.boxes.layout import state_dir
from backends.errors import Busy, ClocheError, Refused
from backends.evidence.journal import read, verify
from backends.gate import apply as module
from backends.gate import merging, worktree
from backends.gate.apply import apply
from backends.snapshots import ApplyOutcome, CheckRow
from backends.trees.git import Git
from backends.trees.values import Source
from tests import support
from tests.gate.world import Tree, World, disk

LINK = 0o120000
BRANCH = "refs/heads/main"


def run(
    world: World, tree: str, *, squash: bool = False, scripted: bool = False, branch: str = BRANCH
) -> ApplyOutcome:
    return apply(
        world.paths, world.source, world.snapshot(tree), branch=branch, who="me", squash=squash,
        scripted=scripted, purpose="add a greeting", policy_digest="d" * 64,
    )  # fmt: skip


def state(world: World) -> tuple[str, str, str, dict[bytes, tuple[int, bytes]], bytes]:
    """Everything of the source that a person would miss: refs, HEAD, status, files, index."""
    return (
        world.git("for-each-ref"),
        world.git("rev-parse", "HEAD"),
        world.status(),
        disk(world.repo),
        (world.repo / ".git" / "index").read_bytes(),
    )


def commit(world: World, files: dict[str, bytes], message: str = "meanwhile") -> str:
    support.write_files(world.repo, files)
    world.git("add", "-A")
    world.git("commit", "-q", "-m", message)
    return world.git("rev-parse", "HEAD")


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
    assert f"Cloche-Proposal: {tree}" in text
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
        assert "reopen" in caught.value.next_step
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
        apply(world.paths, world.source, world.snapshot(tree), branch=BRANCH, who="me", checks=[row])


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

    monkeypatch.setattr(module, "_swap", swap)
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
        apply(world.paths, world.source, forged, branch=BRANCH, who="me")
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


# ------------------------------------------------------------------------------- nothing of theirs runs


def _trap(path: Path, marker: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho $0 >> {marker}\ncat\n")
    path.chmod(0o755)
    return path


HOOKS = (
    "applypatch-msg", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-merge",
    "pre-merge-commit", "post-checkout", "post-index-change", "reference-transaction", "post-rewrite",
    "fsmonitor-watchman", "pre-auto-gc", "update", "post-update", "pre-push",
)  # fmt: skip


@pytest.mark.parametrize("moved", [False, True])
def test_no_hook_filter_driver_or_monitor_of_the_source_runs(
    world: World, tmp_path: Path, moved: bool
) -> None:
    marker = tmp_path / "marker"
    script = _trap(tmp_path / "script", marker)
    # README.md is edited on both sides below, so that a content merge takes place.
    lines = b"".join(b"line %d\n" % n for n in range(30))
    world.base = commit(world, {"README.md": lines, ".gitattributes": b"* filter=f diff=d merge=m\n"})
    world.base_tree = world.git("rev-parse", "HEAD^{tree}")
    tree = world.changed(
        {b"README.md": lines + b"theirs\n", b".husky": {b"post-merge": (0o100755, b"#!/bin/sh\n")}}
    )
    if moved:
        commit(world, {"README.md": b"ours\n" + lines})
    for hook in HOOKS:
        _trap(world.repo / ".git" / "hooks" / hook, marker)
        _trap(world.repo / "hookdir" / hook, marker)
    (world.repo / ".git" / "info" / "exclude").write_text("hookdir\n")
    for key in (
        "core.fsmonitor", "filter.f.smudge", "filter.f.clean", "filter.f.process", "diff.d.textconv",
        "diff.d.command", "merge.m.driver", "diff.external", "core.pager", "core.editor", "core.sshCommand",
        "gpg.program", "core.alternateRefsCommand", "core.askPass", "credential.helper",
        "uploadpack.packObjectsHook",
    ):  # fmt: skip
        world.git("config", key, str(script))
    world.git("config", "core.hooksPath", str(world.repo / "hookdir"))
    world.git("config", "commit.gpgSign", "true")
    world.git("config", "filter.f.required", "true")
    world.git("config", "alias.commit-tree", f"!{script}")
    marker.unlink(missing_ok=True)
    outcome = run(world, tree)
    assert not marker.exists(), marker.read_text()
    assert outcome.mode == ("merge" if moved else "fast-forward")
    assert (world.repo / "README.md").read_bytes() == (b"ours\n" if moved else b"") + lines + b"theirs\n"
    support.run(["git", "status"], cwd=world.repo)
    assert marker.exists(), "the traps work: the person's own Git springs them"
    assert outcome.notes == (
        "changed files are meant to pass the filter f; Cloche runs none: do it in your checkout",
    )


def test_a_hostile_submodule_of_the_checkout_is_not_entered(world: World, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    script = _trap(tmp_path / "script", marker)
    module = support.make_repo(tmp_path / "module")
    world.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(module), "mod")
    world.base = commit(world, {})
    world.base_tree = world.git("rev-parse", "HEAD^{tree}")
    (world.repo / "mod" / "README.md").write_bytes(b"edited in the submodule\n")
    for key in ("core.fsmonitor", "core.pager", "diff.external", "filter.f.clean"):
        support.git(world.repo / "mod", "config", key, str(script))
    (world.repo / ".git" / "modules" / "mod" / "info" / "attributes").write_text("* filter=f\n")
    marker.unlink(missing_ok=True)
    run(world, world.changed({b"hello.txt": b"hello\n"}))
    assert not marker.exists()
    assert (world.repo / "hello.txt").exists()


def test_the_configuration_of_the_person_does_not_change_what_is_applied(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = (
        "[diff]\n\tnoprefix = true\n\texternal = false\n[color]\n\tui = always\n[core]\n\tquotePath = false\n"
    )
    config += (
        "\tautocrlf = true\n[merge]\n\trenames = false\n[user]\n\tname = Ann\n\temail = ann@example.invalid\n"
    )
    Path(os.environ["HOME"], ".gitconfig").write_text(config)
    world.git("config", "--unset", "user.name")
    tree = world.changed({b"\xc3\xa9.txt": b"a\r\nb\r\n", b"lf.txt": b"a\nb\n"})
    commit(world, {"other.txt": b"other\n"})
    run(world, tree)
    assert world.git("log", "-1", "--format=%an") == "Ann"
    assert world.quarantine.run("cat-file", "blob", f"{tree}:\xc3\xa9.txt".encode("latin-1")) == b"a\r\nb\r\n"
    assert world.git("ls-tree", "--format=%(objectname)", "main", "lf.txt") == world.git(
        "ls-tree", "--format=%(objectname)", tree, "lf.txt"
    )
    home = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=world.repo, capture_output=True, env=home, check=True
    )
    assert done.stdout == b"", "the person's own Git finds the checkout clean"


def test_without_any_identity_the_login_commits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.git("config", "--unset", "user.name")
    world.git("config", "--unset", "user.email")
    run(world, world.changed({b"a": b"x"}))
    assert world.git("log", "-1", "--format=%an") != ""


def test_a_purpose_cannot_forge_trailers_or_reach_a_terminal(world: World) -> None:
    tree = world.changed({b"a": b"x"})
    apply(
        world.paths, world.source, world.snapshot(tree), branch=BRANCH, who="me",
        purpose="fix\n\nCloche-Policy: forged\n\x1b[31m",
    )  # fmt: skip
    subject, *rest = world.git("log", "-1", "--format=%B").split("\n")
    assert subject == "fix Cloche-Policy: forged \\x1b[31m"
    assert not any("forged" in line for line in rest)


def test_a_hook_file_that_was_applied_does_not_run_at_the_next_commit(world: World, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    body = f"#!/bin/sh\ntouch {marker}\n".encode()
    tree = world.changed(
        {b"hooks": {b"pre-commit": (0o100755, body)}, b".githooks": {b"pre-commit": (0o100755, body)}}
    )
    run(world, tree)
    commit(world, {"later": b"x"})
    assert not marker.exists()
    assert not (world.repo / ".git" / "hooks" / "pre-commit").exists()


def test_git_is_started_only_by_the_one_module() -> None:
    for path in (support.ROOT / "backends" / "gate").glob("*.py"):
        text = path.read_text()
        assert "subprocess" not in text and "os.system" not in text and "Popen" not in text, path
    assert Git is not None
