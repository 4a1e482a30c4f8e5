"""Applying what was accepted of a real box's proposal: exactly that lands, the rest stays.

With both providers of a tree, and over new starts of the box.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.boxes.manifest import load
from backends.engine import Engine, NewBox
from backends.errors import Busy, ClocheError, Refused, UsageError
from backends.evidence.journal import verify
from backends.gate import moving
from backends.gate.patch import ACCEPTED, REJECTED, everything, selected_patch
from backends.snapshots import ApplyOutcome
from backends.trees import layers
from backends.trees.source import base_ref
from backends.verbs import rebasing
from tests import support
from tests.boxes import provided
from tests.boxes.provided import ONCE, run
from tests.support import Done

Cli = Callable[..., Done]
FILES = {
    "lines": b"".join(b"line %d\n" % n for n in range(1, 41)),
    "gone": b"to go\n",
    "moved": b"".join(b"moved %d\n" % n for n in range(30)),
    "tool": b"#!/bin/sh\n",
    "docs/a": b"a\n",
    "docs/b": b"b\n",
}
CHANGE = (
    "sed -i -e '3s/.*/LINE 3/' -e '30s/.*/LINE 30/' -e '20d' lines; rm gone; mv moved away; chmod 755 tool;"
    "printf 'one\\ntwo\\nthree\\n' > fresh; printf 'a\\0b' > data; ln -s fresh link; rm -r docs;"
    "echo f > docs;"
    "printf 'odd\\n' > \"$(printf 'n\\377 \"x')\""
)
ODD = b'n\xff "x'


repo = provided.repository(FILES)
engine = provided.engine_with("b", change=CHANGE)


def decide(engine: Engine) -> bytes:
    """Some of everything is accepted; the patch that `git apply` takes for exactly that."""
    with engine.decisions("b", "ann") as desk:
        lines = desk.file(b"lines")
        desk.set([(b"lines", lines.hunk(0)), (b"fresh", desk.file(b"fresh").new_lines(2, 2))], ACCEPTED)
        for path in (b"gone", b"tool", b"data", ODD):
            desk.set([(path, desk.file(path).all)], ACCEPTED)
        desk.set([(b"link", desk.file(b"link").all)], REJECTED)
        return selected_patch(desk.git, desk.selection())


def take(engine: Engine, **how: Any) -> ApplyOutcome:
    """Apply after whatever the gate warns of was acknowledged."""
    with engine.decisions("b", "ann") as desk:
        desk.acknowledge(row.key for row in desk.warnings())
    return engine.apply("b", **how)


def refs(repo: Path) -> dict[str, str]:
    """All references but the journal's anchor, which every act moves."""
    lines = support.git(repo, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {name: oid for name, oid in map(str.split, lines) if not name.endswith("/anchor")}


def everywhere(repo: Path) -> tuple[object, ...]:
    status = support.git(repo, "status", "--porcelain")
    return refs(repo), status, support.git(repo, "rev-parse", "HEAD"), (repo / ".git/index").read_bytes()


def by_git_apply(repo: Path, base: str, text: bytes, where: Path) -> str:
    """The tree that Git alone makes of a patch on ``base``."""
    support.git(repo, "worktree", "add", "-q", "--detach", str(where), base)
    support.git(where, "apply", "--index", "--binary", "-", stdin=text)
    tree = support.git(where, "write-tree")
    support.git(repo, "worktree", "remove", "--force", str(where))
    return tree


@pytest.mark.usefixtures("kept")
def test_exactly_the_accepted_part_lands_and_the_rest_stays(
    engine: Engine, repo: Path, tmp_path: Path
) -> None:
    base = support.git(repo, "rev-parse", "main")
    text = decide(engine)
    wanted = by_git_apply(repo, base, text, tmp_path / "w")
    whole = engine.review("b").snapshot.id
    before = refs(repo)
    plan = engine.plan_apply("b", as_name="t", message="take some\n\nSigned-off-by: A <a@b.invalid>")
    assert refs(repo) == before and (plan.tree, plan.parents, plan.partial) == (wanted, (base,), True)
    assert plan.accepted and plan.left and plan.combination == "combination not run"
    done = take(
        engine, as_name="t", message="take some\n\nSigned-off-by: A <a@b.invalid>", part=True, seen=plan
    )
    assert (done.tree, done.accepted, done.left) == (wanted, plan.accepted, plan.left)
    assert support.git(repo, "rev-parse", "main^{tree}") == wanted
    assert support.git(repo, "log", "-1", "--format=%P") == base
    assert support.git(repo, "log", "-1", "--format=%B") == plan.message.strip()
    assert support.git(repo, "status", "--porcelain") == "?? cloche.toml"
    names = support.git(repo, "log", "-1", "--format=%(trailers:keyonly)").split()
    assert names == [
        "Signed-off-by", "Cloche-Box", "Cloche-Snapshot", "Cloche-Policy", "Cloche-Partial",
        "Cloche-Applied-By-Script",
    ]  # fmt: skip
    after = refs(repo)
    assert {name for name in after if after[name] != before[name]} == {"refs/heads/main", base_ref("b")}
    assert after.keys() == before.keys() and after[base_ref("b")] == done.new

    row = next(row for row in engine.boxes() if row.name == "b")
    assert (row.state, row.base, row.base_ref, row.drift) == ("idle", done.new, "refs/heads/main", 0)
    rest = engine.snapshot_diff("b")
    assert (rest.base, rest.tree) == (done.new, whole)
    assert {change.path for change in rest.changes} == {
        b"lines", b"fresh", b"away", b"link", b"docs", b"docs/a", b"docs/b"
    }  # fmt: skip
    (kind, data) = next((r.kind, r.data) for r in engine.journal("b") if r.kind == "apply")
    assert (data["partial"], data["combination"]) == (True, "combination not run")
    assert data["accepted"] == done.accepted and data["left"] == done.left
    assert verify(engine.find("b").journal).problems == ()
    assert all(row.verdict == "ok" for row in engine.doctor("b") if "base" in row.id), kind


def test_the_box_goes_on_with_the_rest_and_all_of_it_lands_in_the_end(engine: Engine, repo: Path) -> None:
    decide(engine)
    whole = engine.review("b").snapshot.id
    lower = layers.used(engine.find("b"))
    first = take(engine, as_name="t", part=True)
    # Started anew, the box sees its files as it left them, and its own repository as it was.
    run(engine, "test ! -e gone; test -L link; grep -q 'LINE 30' lines; test -f docs; test -x tool")
    run(engine, f'test "$(git rev-parse HEAD)" = {first.old}; echo more >> fresh; echo later > later')
    engine.stop("b")
    assert layers.used(engine.find("b")) == lower
    snapshot = engine.propose("b")
    assert (snapshot.base, snapshot.base_tree) == (first.new, first.tree) and snapshot.id != whole
    view = engine.review("b")
    assert view.progress is not None and view.progress.rejected, "what was rejected is still rejected"
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"later", desk.file(b"later").all)], ACCEPTED)
    second = take(engine, as_name="t", part=True)
    assert support.git(repo, "diff", "--name-only", "HEAD^", "HEAD") == "later"
    assert engine.snapshot_diff("b").tree == snapshot.id
    engine.propose("b")
    with engine.decisions("b", "ann") as desk:
        desk.set(everything(desk.patch), ACCEPTED)
    third = take(engine, as_name="t", part=True)
    assert not third.partial and third.old == second.new and third.tree == snapshot.id
    assert support.git(repo, "rev-parse", "main^{tree}") == snapshot.id
    assert support.git(repo, "status", "--porcelain") == "?? cloche.toml"
    assert support.git(repo, "fsck", "--strict", "--no-dangling") == ""
    engine.remove("b")
    assert refs(repo).keys() == {"refs/heads/main"}


def test_the_rest_in_turn_can_be_undone_by_the_box_itself(engine: Engine) -> None:
    decide(engine)
    take(engine, as_name="t", part=True)
    # Back to what was taken, file by file: nothing is left to propose.
    run(
        engine,
        "sed -i -e '29s/.*/line 30/' lines; mv away moved; rm link docs; mkdir docs; echo a > docs/a;"
        "echo b > docs/b; printf 'two\\n' > fresh; sed -i '19a line 20' lines",
    )
    assert engine.snapshot_diff("b").changes == ()


def test_what_was_taken_stays_tracked_when_the_box_ignores_it_later(engine: Engine) -> None:
    decide(engine)
    take(engine, as_name="t", part=True)
    run(
        engine,
        "mkdir build; echo x > build/x; printf '%s\\n' data build fresh gone > .gitignore; echo y > gone",
    )
    changes = {change.path: change.status for change in engine.snapshot_diff("b").changes}
    assert changes[b".gitignore"] == "A" and changes[b"fresh"] == "M"
    assert not changes.keys() & {b"data", b"gone", b"build/x"}
    engine.propose("b")
    with engine.decisions("b", "ann") as desk:
        desk.set([(b".gitignore", desk.file(b".gitignore").all)], ACCEPTED)
    assert take(engine, as_name="t", part=True).partial
    assert b"data" not in {change.path for change in engine.snapshot_diff("b").changes}


def test_undo_brings_branch_checkout_and_box_back(engine: Engine, repo: Path) -> None:
    base = everywhere(repo)
    decide(engine)
    whole = engine.review("b").snapshot
    done = take(engine, as_name="t", part=True)
    undone = engine.unapply("b", as_name="t")
    assert (undone.old, undone.new, undone.state) == (done.new, done.old, "idle")
    assert everywhere(repo)[:3] == base[:3] and (repo / "gone").exists() and not (repo / "data").exists()
    assert engine.snapshot_diff("b").tree == whole.id
    with pytest.raises(Refused) as caught:
        engine.unapply("b", as_name="t")
    assert caught.value.code == "not-applied"
    again = engine.propose("b")
    assert again[:3] == whole[:3]
    progress = engine.review("b").progress
    assert progress is not None and progress.accepted, "the same proposal has the same decisions"
    take(engine, as_name="t", part=True)
    kinds = [record.kind for record in engine.journal("b")]
    assert kinds.count("apply") == 2 and kinds.count("unapply") == 1 and kinds.count("base") == 3


def test_undo_of_a_whole_apply_makes_the_box_proposed_again(engine: Engine, repo: Path) -> None:
    before = everywhere(repo)
    take(engine, as_name="t")
    assert engine.unapply("b", as_name="t").state == "proposed"
    assert everywhere(repo)[:3] == before[:3]
    assert take(engine, as_name="t").tree == engine.review("b").snapshot.id


@pytest.mark.parametrize("act", ["apply", "unapply"])
@pytest.mark.parametrize("happened", [False, True])
def test_a_crash_around_the_swap_is_settled_by_whoever_comes_next(
    engine: Engine, repo: Path, monkeypatch: pytest.MonkeyPatch, act: str, happened: bool
) -> None:
    decide(engine)
    if act == "unapply":
        take(engine, as_name="t", part=True)
    before, swap = load(engine.find("b")), moving.swap_refs

    def dying(*args: object) -> None:
        if happened:
            swap(*args)  # type: ignore[arg-type]
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(moving, "swap_refs", dying)
        patched.setattr(rebasing, "settle", lambda held: None)  # nothing runs after a crash
        patched.setattr(moving, "_bring_back", lambda *args: None)
        with pytest.raises(Crash):
            take(engine, as_name="t", part=True) if act == "apply" else engine.unapply("b", as_name="t")
    assert load(engine.find("b")).pending is not None
    if act == "apply" and not happened:
        engine.reopen("b")
    else:
        engine.propose("b")
    now = load(engine.find("b"))
    assert now.pending is None and (now.base != before.base) is happened
    assert support.git(repo, "rev-parse", base_ref("b")) == now.base
    engine.remove("b")


@pytest.mark.parametrize("act", ["apply", "unapply"])
@pytest.mark.parametrize("happened", [False, True])
def test_a_crash_around_the_swap_of_a_whole_apply_is_settled_as_well(
    engine: Engine, repo: Path, monkeypatch: pytest.MonkeyPatch, act: str, happened: bool
) -> None:
    if act == "unapply":
        take(engine, as_name="t")
    before, swap = load(engine.find("b")), moving.swap_refs

    def dying(*args: object) -> None:
        if happened:
            swap(*args)  # type: ignore[arg-type]
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(moving, "swap_refs", dying)
        patched.setattr(rebasing, "settle", lambda held: None)  # nothing runs after a crash
        if happened:
            patched.setattr(moving, "_bring_back", lambda *args: None)
        with pytest.raises(Crash):
            take(engine, as_name="t") if act == "apply" else engine.unapply("b", as_name="t")
    assert load(engine.find("b")).state == before.state
    applied = (act == "apply") is happened
    if applied:
        assert engine.unapply("b", as_name="t").state == "proposed"
    else:
        with pytest.raises(Refused):
            engine.plan_unapply("b")
        assert take(engine, as_name="t").mode == "fast-forward"
    assert load(engine.find("b")).pending is None
    assert support.git(repo, "status", "--porcelain") == "?? cloche.toml"


class Crash(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("how", ["moved", "dirty", "proposed"])
@ONCE
def test_undo_refuses_and_changes_nothing(engine: Engine, repo: Path, how: str) -> None:
    decide(engine)
    take(engine, as_name="t", part=True)
    if how == "moved":
        support.git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    elif how == "dirty":
        (repo / "lines").write_bytes(b"mine")
    else:
        engine.propose("b")
    before, manifest = everywhere(repo), load(engine.find("b"))
    with pytest.raises((Busy, Refused)) as caught:
        engine.unapply("b", as_name="t")
    codes = {"moved": "branch-moved", "dirty": "checkout-not-clean", "proposed": "wrong-state"}
    assert caught.value.code == codes[how]
    assert everywhere(repo)[:3] == before[:3]
    assert load(engine.find("b"))._replace(journal=None) == manifest._replace(journal=None)


def test_a_part_is_merged_onto_a_branch_that_moved_on(engine: Engine, repo: Path) -> None:
    decide(engine)
    (repo / "other").write_bytes(b"other\n")
    support.git(repo, "add", "other")
    support.git(repo, "commit", "-q", "-m", "meanwhile")
    before = everywhere(repo)
    with pytest.raises(Refused) as caught:
        take(engine, as_name="t", part=True, squash=True)
    assert caught.value.code == "partial-squash" and everywhere(repo) == before
    plan = engine.plan_apply("b", as_name="t")
    done = take(engine, as_name="t", part=True)
    assert (done.mode, done.tree) == ("merge", plan.tree)
    assert tuple(support.git(repo, "log", "-1", "--format=%P").split()) == plan.parents
    rest = engine.snapshot_diff("b")
    assert rest.base == plan.parents[1] and b"other" not in {change.path for change in rest.changes}
    engine.propose("b")
    with engine.decisions("b", "ann") as desk:
        desk.set(everything(desk.patch), ACCEPTED)
    take(engine, as_name="t", part=True)
    assert (repo / "other").read_bytes() == b"other\n" and (repo / "link").is_symlink()
    assert support.git(repo, "status", "--porcelain") == "?? cloche.toml"


@ONCE
def test_onto_a_new_branch_leaves_the_recorded_one(engine: Engine, repo: Path) -> None:
    decide(engine)
    before = everywhere(repo)
    for name, kind in (("main", Refused), ("main/x", Refused), ("a..b", UsageError), ("-x", UsageError),
                       ("@{-1}", UsageError), ("a b", UsageError)):  # fmt: skip
        with pytest.raises(kind):
            take(engine, as_name="t", part=True, onto=name)
        assert everywhere(repo) == before
    done = take(engine, as_name="t", part=True, onto="topic/some")
    assert (done.branch, done.old) == ("refs/heads/topic/some", "")
    after = refs(repo)
    assert after.pop("refs/heads/topic/some") == done.new and after.pop(base_ref("b")) == done.new
    was = dict(before[0])  # type: ignore[call-overload]
    del was[base_ref("b")]
    assert after == was and everywhere(repo)[1:] == before[1:]
    row = next(row for row in engine.boxes() if row.name == "b")
    assert (row.base_ref, row.drift) == ("refs/heads/topic/some", 0)
    support.git(repo, "switch", "-q", "topic/some")
    with pytest.raises(Refused) as caught:
        engine.unapply("b", as_name="t")
    assert caught.value.code == "checked-out"
    support.git(repo, "switch", "-q", "main")
    assert engine.unapply("b", as_name="t").new == ""
    assert refs(repo) == before[0]


@ONCE
def test_every_refusal_leaves_nothing(engine: Engine, repo: Path) -> None:
    before = everywhere(repo)
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"docs", desk.file(b"docs").all)], ACCEPTED)
    assert _refused(engine, part=True) == "blocked-parts"
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"docs", desk.file(b"docs").all)], REJECTED)
    assert _refused(engine, part=True) == "nothing-accepted"
    decide(engine)
    assert _refused(engine) == "part-accepted"
    assert _refused(engine, part=True, message=" \n") == "bad-message"
    plan = engine.plan_apply("b", as_name="t")
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"data", desk.file(b"data").all)], REJECTED)
    assert _refused(engine, part=True, seen=plan) == "plan-moved"
    (repo / "lines").write_bytes(b"mine")
    assert _refused(engine, part=True) == "checkout-not-clean"
    support.git(repo, "checkout", "-q", "lines")
    support.git(repo, "update-ref", base_ref("b"), support.git(repo, "commit-tree", "-m", "x", "HEAD^{tree}"))
    assert _refused(engine, part=True) == "base-moved"
    support.git(repo, "update-ref", base_ref("b"), "HEAD")
    assert everywhere(repo)[:3] == before[:3] and load(engine.find("b")).state == "proposed"
    assert (repo / "gone").exists() and not (repo / "data").exists()


@ONCE
def test_nothing_of_it_is_done_for_a_caller_inside_a_box(
    engine: Engine, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(engine)
    before = everywhere(repo)
    with monkeypatch.context() as patched:
        patched.setenv("CLOCHE_BOX", "k/b")
        for act in (engine.plan_apply, engine.apply, engine.unapply, engine.rebase):
            with pytest.raises(Refused) as caught:
                act("b", as_name="t")
            assert caught.value.code == "inside-box"
        with pytest.raises(Refused):
            engine.plan_unapply("b")
    assert everywhere(repo) == before


def _refused(engine: Engine, **words: object) -> str:
    with pytest.raises(ClocheError) as caught:
        take(engine, as_name="t", **words)
    return caught.value.code


@ONCE
def test_what_the_gate_refuses_can_be_left_out_and_not_taken(repo: Path) -> None:
    engine = Engine(repo)
    engine.create(NewBox(name="b"))
    run(engine, "ln -s /etc/passwd leak; echo ok > ok")
    engine.propose("b")
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"leak", desk.file(b"leak").all)], ACCEPTED)
    assert _refused(engine, part=True) == "gate-refused"
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"leak", desk.file(b"leak").all)], REJECTED)
        desk.set([(b"ok", desk.file(b"ok").all)], ACCEPTED)
    take(engine, as_name="t", part=True)
    assert (repo / "ok").exists() and not (repo / "leak").is_symlink()
    engine.stop("b")


@pytest.mark.parametrize("repo", ["checkout"], indirect=True)
def test_a_box_that_is_a_worktree_of_the_repository_goes_on_as_well(repo: Path) -> None:
    engine = Engine(repo)
    engine.create(NewBox(name="b", tier="workspace"))
    run(engine, CHANGE)
    engine.propose("b")
    text = decide(engine)
    base = support.git(repo, "rev-parse", "main")
    done = take(engine, as_name="t", part=True)
    assert by_git_apply(repo, base, text, repo.parent / "w") == done.tree
    run(engine, f'test "$(git rev-parse HEAD)" = {base}; test -f docs; echo later > later')
    engine.stop("b")
    assert {c.path for c in engine.snapshot_diff("b").changes} >= {b"later", b"link", b"docs"}
    assert engine.unapply("b", as_name="t").state == "idle"
    assert support.git(repo, "rev-parse", "main") == base
    engine.remove("b")
    assert refs(repo) == {"refs/heads/main": base}


@ONCE
def test_the_command_line_says_that_the_combination_was_not_run(
    engine: Engine, repo: Path, cli: Cli, tmp_path: Path
) -> None:
    decide(engine)
    out = tmp_path / "out"
    assert cli("export", "b", "--out", str(out)).code == 0
    receipt = json.loads((out / "receipt.json").read_text())
    assert receipt["decided"]["combination"] == "combination not run" and receipt["applied"] == []
    assert "combination not run" in (out / "report.md").read_text()
    shown = cli("apply", "b", "--dry-run")
    assert shown.code == 0 and "combination not run" in shown.out and "Cloche-Partial" in shown.out
    plan = json.loads(cli("apply", "b", "--dry-run", "--as", "t", "--json").out)["plan"]
    refused = cli("apply", "b", "--as", "t")
    assert refused.code == 3 and "tool: became executable" in refused.err
    done = cli("apply", "b", "--as", "t", "--acknowledge", "all")
    assert done.code == 0 and "combination not run" in done.out
    assert support.git(repo, "rev-parse", "main^{tree}") == plan["tree"]
    assert support.git(repo, "log", "-1", "--format=%B") == plan["message"].strip()
    assert cli("propose", "b").code == 0
    assert cli("export", "b", "--out", str(tmp_path / "rest")).code == 0
    assert "combination not run" in (tmp_path / "rest" / "report.md").read_text()
    receipt = json.loads((tmp_path / "rest" / "receipt.json").read_text())
    assert [one["combination"] for one in receipt["applied"]] == ["combination not run"]
    assert all(line.startswith("ok") for line in cli("verify", str(tmp_path / "rest")).out.splitlines()[1:])
    assert cli("reopen", "b").code == 0
    assert cli("unapply", "b", "--as", "t").code == 0
