"""What was accepted is tried as exactly that, in a box of its own, and nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes.layout import cache_dir, state_dir
from backends.boxes.manifest import load
from backends.engine import Engine, NewBox, Streams
from backends.errors import Busy, ClocheError, NoSuchBox, Refused, UsageError
from backends.evidence.journal import verify
from backends.gate.patch import ACCEPTED, REJECTED
from backends.trees import layers
from backends.verbs import trial_box
from tests import support
from tests.boxes import provided
from tests.boxes.provided import NULL, PROVIDERS, QUIET
from tests.support import Done

Cli = Callable[..., Done]
FILES = {
    "lines": b"".join(b"line %d\n" % n for n in range(1, 41)),
    "gone": b"to go\n",
    "docs/a": b"a\n",
    ".gitignore": b"*.log\nout/\n",
}
CHANGE = (
    "sed -i -e '3s/.*/LINE 3/' -e '30s/.*/LINE 30/' lines; rm gone; rm -r docs; echo f > docs;"
    "echo one > one; echo two > two; echo l > a.log; mkdir -p out sub; echo o > out/o; echo l > sub/b.log"
)


# For what is about the host's side alone: how a box gets its tree cannot matter there.
ONCE = pytest.mark.parametrize("provider", ["checkout"], indirect=True)


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def repo(provider: str, home: object, tmp_path: Path) -> Path:
    made = support.make_repo(tmp_path / "repo", FILES)
    (made / "cloche.toml").write_text(f'[profiles.default]\ntree = "{provider}"\n')
    return made


engine = provided.engine_with("b", change=CHANGE)


def propose(engine: Engine, name: str, script: str) -> None:
    engine.create(NewBox(name=name))
    assert engine.run(name, ["sh", "-ec", script], streams=QUIET).exit == 0
    engine.propose(name)


def accept(engine: Engine, *paths: bytes) -> None:
    with engine.decisions("b", "ann") as desk:
        desk.set([(path, desk.file(path).all) for path in paths], ACCEPTED)


def attempt(engine: Engine, script: str, *, onto_tip: bool = False, keep: bool = False) -> tuple[int, str]:
    """The exit of what was tried, and what it printed."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as out:
        try:
            done = engine.try_accepted(
                "b",
                ["sh", "-c", script],
                onto_tip=onto_tip,
                keep=keep,
                as_name="t",
                streams=Streams(NULL, write, write),
            )
        finally:
            os.close(write)
        return done.trial.exit, out.read().decode()


def source(repo: Path) -> tuple[str, str, str]:
    """All of the source repository that a try could leave something in."""
    return (
        support.git(repo, "for-each-ref"),
        support.git(repo, "cat-file", "--batch-check", "--batch-all-objects"),
        support.git(repo, "status", "--porcelain"),
    )


def test_exactly_what_is_accepted_runs_in_a_clean_checkout_of_a_fresh_box(engine: Engine, repo: Path) -> None:
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"lines", desk.file(b"lines").hunk(0)), (b"one", desk.file(b"one").all)], ACCEPTED)
        desk.set([(b"two", desk.file(b"two").all)], REJECTED)
    view = engine.review("b")
    assert (view.combination, view.tried) == ("not-run", ())
    before = source(repo)
    script = (
        "grep -q 'LINE 3$' lines && ! grep -q 'LINE 30' lines && test -e one && test ! -e two && test -e gone"
        ' && test -f docs/a && test -z "$(git status --porcelain)" && git rev-parse HEAD^ HEAD^{tree}'
    )
    code, said = attempt(engine, script)
    assert code == 0, said
    base, tree = said.split()
    assert base == support.git(repo, "rev-parse", "HEAD")
    assert source(repo) == before
    plan = engine.plan_apply("b", as_name="t")
    assert (plan.tree, plan.combination) == (tree, "combination ran, exit 0")
    assert "Cloche-Partial: " in plan.message and "combination ran, exit 0" in plan.message
    view = engine.review("b")
    (trial,) = view.tried
    assert view.combination == "ran"
    assert (trial.tree, trial.taken, trial.whole, trial.onto, trial.fits) == (tree, tree, False, "", True)
    assert (trial.snapshot, trial.who, trial.box, trial.kept) == (view.snapshot.id, "t", "try-b", False)
    assert trial.argv[:2] == ("sh", "-c") and trial.exit == 0 and trial.wall >= 0
    assert [row.name for row in engine.boxes()] == ["b"]
    assert verify(engine.find("b").journal).problems == ()


@ONCE
def test_what_was_tried_counts_only_for_what_is_still_accepted(engine: Engine) -> None:
    accept(engine, b"one")
    assert attempt(engine, "exit 7")[0] == 7
    assert engine.review("b").combination == "ran"
    accept(engine, b"two")
    view = engine.review("b")
    assert view.combination == "not-run" and [one.fits for one in view.tried] == [False]
    assert engine.plan_apply("b", as_name="t").combination == "combination not run"
    with engine.decisions("b", "ann") as desk:
        desk.undo()
    assert engine.review("b").tried[0].fits
    assert engine.plan_apply("b", as_name="t").combination == "combination ran, exit 7"
    done = engine.apply("b", as_name="t", part=True)
    assert done.combination == "combination ran, exit 7"
    (record,) = [one.data for one in engine.journal("b") if one.kind == "apply"]
    assert record["combination"] == "combination ran, exit 7"


@ONCE
def test_a_later_proposal_begins_without_what_was_tried_of_the_one_before(engine: Engine) -> None:
    attempt(engine, "true")
    assert len(engine.review("b").tried) == 1
    engine.reopen("b")
    assert engine.run("b", ["sh", "-c", "echo more > more"], streams=QUIET).exit == 0
    engine.propose("b")
    assert engine.review("b").tried == ()


def test_all_of_it_is_tried_where_nothing_was_decided(engine: Engine) -> None:
    code, said = attempt(engine, "test -f docs && test -e two && test ! -e gone && git rev-parse HEAD^{tree}")
    view = engine.review("b")
    assert code == 0 and said.strip() == view.snapshot.id
    assert view.combination == "whole" and view.tried[0].whole and view.tried[0].fits


@ONCE
def test_all_of_it_merged_onto_another_tip_is_a_combination_that_did_not_run(
    engine: Engine, repo: Path
) -> None:
    assert engine.plan_apply("b", as_name="t").combination == ""
    (repo / "later").write_text("later\n")
    support.git(repo, "add", "later")
    support.git(repo, "commit", "-q", "-m", "later")
    assert attempt(engine, "true")[0] == 0  # on its base
    assert engine.plan_apply("b", as_name="t").combination == "combination not run"
    assert attempt(engine, "exit 3", onto_tip=True)[0] == 3
    done = engine.apply("b", as_name="t", part=True)
    assert (done.partial, done.combination) == (False, "combination ran, exit 3")
    (record,) = [one.data for one in engine.journal("b") if one.kind == "apply"]
    assert record["combination"] == "combination ran, exit 3"


def test_it_is_tried_on_the_tip_of_today(engine: Engine, repo: Path) -> None:
    accept(engine, b"one")
    (repo / "later").write_text("later\n")
    support.git(repo, "add", "later")
    support.git(repo, "commit", "-q", "-m", "later")
    before = source(repo)
    assert attempt(engine, "test -e one && test ! -e later")[0] == 0
    # What would be applied now is a merge, and that is another tree.
    assert engine.plan_apply("b", as_name="t").combination == "combination not run"
    code, said = attempt(
        engine, "test -e one && test -e later && git rev-parse HEAD^{tree} HEAD^1", onto_tip=True
    )
    assert code == 0
    tree, parent = said.split()
    assert parent == support.git(repo, "rev-parse", "main") and source(repo) == before
    plan = engine.plan_apply("b", as_name="t")
    assert (plan.tree, plan.combination) == (tree, "combination ran, exit 0")
    alone, merged = engine.review("b").tried
    assert (alone.onto, merged.onto, merged.fits) == ("", parent, True)
    support.git(repo, "commit", "-q", "--allow-empty", "-m", "and on")
    assert [one.fits for one in engine.review("b").tried] == [True, False]


@ONCE
def test_a_conflict_with_the_tip_is_busy_and_leaves_nothing(engine: Engine, repo: Path) -> None:
    (repo / "one").write_text("another one\n")
    support.git(repo, "add", "one")
    support.git(repo, "commit", "-q", "-m", "conflict")
    with pytest.raises(Busy) as caught:
        attempt(engine, "true", onto_tip=True)
    assert caught.value.code == "conflict" and "one" in caught.value.why
    assert [row.name for row in engine.boxes()] == ["b"] and engine.review("b").tried == ()


@ONCE
def test_the_policy_is_the_reviewed_boxs_own(engine: Engine, repo: Path) -> None:
    digest = load(engine.find("b")).policy_digest
    (repo / "cloche.toml").write_text("[profiles.default]\nresources.procs = 77\n")
    engine.try_accepted("b", ["true"], keep=True, streams=QUIET)
    kept = load(engine.find("try-b"))
    assert kept.policy_digest == digest and kept.detached and kept.tier == load(engine.find("b")).tier
    assert kept.payload_uid != load(engine.find("b")).payload_uid or os.geteuid() != 0
    assert engine.find("try-b").policy.read_bytes() == engine.find("b").policy.read_bytes()


@ONCE
def test_what_is_refused_there_is_told(engine: Engine) -> None:
    done = engine.try_accepted("b", ["sh", "-c", "echo x > /usr/no"], streams=QUIET)
    assert done.trial.exit != 0 and done.trial.denied == 1
    assert done.trial.denials == (("fs-write", "/usr/no", 1),)
    assert engine.tally("b").total == 0, "the reviewed box was refused nothing"


@ONCE
def test_secrets_of_the_command_are_not_written_down(engine: Engine) -> None:
    done = engine.try_accepted("b", ["true", "--token=hunter2-s3cret"], keep=True, streams=QUIET)
    assert done.trial.argv == ("true", "--token=[redacted]")
    for box in ("b", "try-b"):
        for file in engine.find(box).root.glob("*.json*"):
            assert b"hunter2" not in file.read_bytes()


def test_a_kept_box_needs_neither_the_reviewed_one_nor_a_branch(
    engine: Engine, repo: Path, tmp_path: Path
) -> None:
    accept(engine, b"one")
    engine.try_accepted("b", ["true"], keep=True, streams=QUIET)
    assert not trial_box.abandoned(engine.find("try-b"))
    engine.stop("b")
    engine.remove("b")
    engine.gc()
    assert [row.name for row in engine.boxes()] == ["try-b"]
    script = "git fsck && test -e one && echo later > later && git add -A && git commit -qm later"
    assert engine.run("try-b", ["sh", "-c", script], streams=QUIET).exit == 0
    assert [change.path for change in engine.snapshot_diff("try-b").changes] == [b"later"]
    engine.propose("try-b")
    assert engine.export("try-b", tmp_path / "out").files
    with pytest.raises(Refused) as caught:
        engine.apply("try-b", as_name="t")
    assert caught.value.code == "detached"
    engine.remove("try-b")
    assert not support.git(repo, "for-each-ref", "refs/cloche")


@ONCE
def test_several_kept_boxes_have_names_of_their_own(engine: Engine) -> None:
    names = [engine.try_accepted("b", ["true"], keep=True, streams=QUIET).trial.box for _ in range(3)]
    assert names == ["try-b", "try-b-2", "try-b-3"]


def test_without_history_the_fresh_box_has_the_tree_alone(engine: Engine, repo: Path) -> None:
    text = (repo / "cloche.toml").read_text()
    (repo / "cloche.toml").write_text(text + 'history = "none"\n')
    engine.stop("b")
    engine.remove("b", True)
    propose(engine, "b", CHANGE)
    code, said = attempt(engine, "git fsck && git rev-list --count HEAD && git status --porcelain", keep=True)
    assert code == 0 and said.split()[-1] == "1"
    assert engine.snapshot_diff("try-b").changes == ()


def test_a_shallow_source_is_enough(provider: str, home: object, tmp_path: Path) -> None:
    full = support.make_repo(tmp_path / "full", FILES)
    support.git(full, "commit", "-q", "--allow-empty", "-m", "second")
    support.git(tmp_path, "clone", "-q", "--depth", "1", full.as_uri(), "cut")
    (tmp_path / "cut" / "cloche.toml").write_text(f'[profiles.default]\ntree = "{provider}"\n')
    engine = Engine(tmp_path / "cut")
    propose(engine, "b", CHANGE)
    code, said = attempt(engine, "git rev-list --count HEAD && git fsck")
    assert code == 0 and said.split()[0] == "2"
    assert attempt(engine, "test -e one", onto_tip=True)[0] == 0


def test_a_detached_box_is_tried_as_well_and_has_no_tip(home: object, tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.create(NewBox(name="b", empty=True))
    assert engine.run("b", ["sh", "-c", "echo one > one"], streams=QUIET).exit == 0
    engine.propose("b")
    assert attempt(engine, "test -e one && git fsck")[0] == 0
    with pytest.raises(Refused) as caught:
        attempt(engine, "true", onto_tip=True)
    assert caught.value.code == "no-branch"


@pytest.mark.boundary
def test_the_fresh_box_cannot_reach_the_reviewed_one_or_change_what_is_reviewed(
    engine: Engine, repo: Path
) -> None:
    paths = engine.find("b")
    seen = engine.review("b")
    before = source(repo)
    targets = [paths.root, paths.quarantine, repo, state_dir(), cache_dir()]
    script = "; ".join(f"ls {path} && exit 1; echo x > {path}/x && exit 1" for path in targets)
    script += "; echo x > one; git commit -qam x; git gc -q --prune=now; rm -rf .git/* ./*; exit 0"
    assert attempt(engine, script)[0] == 0
    after = engine.review("b")
    assert (after.snapshot, after.diff, after.checks) == (seen.snapshot, seen.diff, seen.checks)
    assert source(repo) == before
    assert support.run(["git", "--git-dir", str(paths.quarantine), "fsck"]).code == 0


@pytest.mark.boundary
def test_nothing_inside_a_box_may_try(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_BOX", "x/b")
    with pytest.raises(Refused) as caught:
        attempt(engine, "true")
    assert caught.value.code == "inside-box"


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        (lambda engine: engine.reopen("b"), "no-proposal"),
        (lambda engine: engine.abort("b"), "no-proposal"),
        (lambda engine: engine.find("b").policy.write_bytes(b"{}"), "policy"),
    ],
)
@ONCE
def test_what_cannot_be_tried_is_refused_and_leaves_nothing(
    engine: Engine, repo: Path, prepare: Callable[[Engine], object], code: str
) -> None:
    prepare(engine)
    before = source(repo)
    with pytest.raises(ClocheError) as caught:
        attempt(engine, "true")
    assert code in caught.value.code
    assert [row.name for row in engine.boxes()] == ["b"] and source(repo) == before


@ONCE
def test_a_command_is_needed_and_nothing_accepted_is_nothing_to_try(engine: Engine) -> None:
    with pytest.raises(UsageError):
        engine.try_accepted("b", [])
    with engine.decisions("b", "ann") as desk:
        desk.set([(b"one", desk.file(b"one").all)], REJECTED)
    with pytest.raises(Refused) as caught:
        engine.try_accepted("b", ["true"])
    assert caught.value.code == "nothing-accepted" and "not tried" in caught.value.what


def test_a_worktree_of_the_repository_is_not_tried_in_it(home: object, tmp_path: Path) -> None:
    repo = support.make_repo(tmp_path / "repo", FILES)
    engine = Engine(repo)
    engine.create(NewBox(name="b", tier="workspace"))
    assert engine.run("b", ["sh", "-c", "echo one > one"], streams=QUIET).exit == 0
    engine.propose("b")
    before = source(repo)
    with pytest.raises(Refused) as caught:
        attempt(engine, "true")
    assert caught.value.code == "try-workspace" and source(repo) == before


@ONCE
def test_a_box_that_was_removed_meanwhile_gets_no_evidence(engine: Engine) -> None:
    def remove(_: object) -> None:
        engine.remove("b")

    with pytest.raises(NoSuchBox):
        engine.try_accepted("b", ["true"], streams=QUIET, on_session=remove)
    assert engine.boxes() == () and not list(state_dir().glob("*/try-*"))


@pytest.mark.parametrize("step", ["mark", "intent", "files", "journal", "manifest"])
def test_a_failure_at_any_step_leaves_nothing(
    engine: Engine, repo: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backends.verbs import creation

    done = creation.Steps.done

    def fail(self: creation.Steps, name: str, undo: Callable[[], object] | None = None) -> None:
        done(self, name, undo)
        if name == step:
            raise OSError(28, "no space")

    monkeypatch.setattr(creation.Steps, "done", fail)
    before, folders = source(repo), set(state_dir().glob("*/*"))
    fds = support.descriptors()
    with pytest.raises(OSError, match="no space"):
        attempt(engine, "true")
    assert source(repo) == before and set(state_dir().glob("*/*")) == folders
    assert support.descriptors() == fds


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_try_leaves_is_gone_after_gc(engine: Engine, repo: Path, number: int) -> None:
    ready = repo.parent / "ready"
    argv = support.cloche_argv("try", "b", "--", "sh", "-c", "echo up; exec sleep 600")
    before = source(repo)
    with open(ready, "wb") as out:
        process = subprocess.Popen(argv, cwd=repo, stdout=out, stderr=subprocess.DEVNULL, stdin=NULL)
    try:
        support.wait_until(lambda: ready.read_bytes() == b"up\n", "the command runs", timeout=60)
        assert engine.gc() == () or all("try" not in row.box for row in engine.gc()), "its maker lives"
        process.send_signal(number)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    if number == signal.SIGKILL:
        assert trial_box.abandoned(engine.find("try-b"))
        (row,) = [row for row in engine.gc() if row.box.endswith("/try-b")]
        assert row.removed, row
    else:  # passed on to the command, which ends by it, and the box with it
        assert engine.review("b").tried[0].exit == 143
    assert [row.name for row in engine.boxes()] == ["b"] and source(repo) == before
    assert engine.review("b").combination == "whole"


def test_what_is_ignored_in_the_tree_is_listed(engine: Engine) -> None:
    view = engine.review("b")
    assert view.ignored.total == 3
    assert set(view.ignored.names) == {b"a.log", b"out/", b"sub/b.log"}
    assert not {b"a.log", b"out/o", b"sub/b.log"} & {change.path for change in view.diff.changes}


@ONCE
def test_the_list_of_what_is_ignored_is_bounded(engine: Engine) -> None:
    engine.reopen("b")
    script = "rm -rf a.log out sub; for n in $(seq 300); do : > $n.log; done; : > $(printf %0200d 0).log"
    assert engine.run("b", ["sh", "-c", script], streams=QUIET).exit == 0
    engine.propose("b")
    ignored = engine.review("b").ignored
    assert ignored.total == 301 and len(ignored.names) == 100
    assert sum(map(len, ignored.names)) <= 8192


def test_layers_of_a_try_go_with_it(engine: Engine, provider: str) -> None:
    accept(engine, b"one")
    attempt(engine, "true")
    engine.gc()
    kept = {folder.name for folder in layers.root().glob("*") if folder.is_dir()}
    assert kept == set(layers.used(engine.find("b")))


@ONCE
def test_the_command_line_passes_streams_and_the_exit_code(engine: Engine, cli: Cli, repo: Path) -> None:
    accept(engine, b"one")
    shown = cli("review", "b")
    assert "combination not run" in shown.out and "ignored, so no part of this: " in shown.out
    done = cli("try", "b", "--", "sh", "-c", "cat one; echo oops >&2; exit 9")
    assert (done.code, done.out) == (9, "one\n")
    assert "oops\n" in done.err and "tried the accepted part: exit 9" in done.err
    shown = cli("review", "b")
    assert "combination not run" not in shown.out and "exit 9" in shown.out
    assert "combination ran, exit 9" in cli("apply", "b", "--dry-run").out
    out = repo.parent / "out"
    assert cli("export", "b", "--out", str(out)).code == 0
    report = (out / "report.md").read_text()
    assert "## What was tried" in report and "combination ran, exit 9" in report and "a.log" in report
    receipt = json.loads((out / "receipt.json").read_bytes())
    assert receipt["decided"]["combination"] == "combination ran, exit 9"
    assert [one["exit"] for one in receipt["tried"]] == [9]
    assert cli("verify", str(out)).code == 0
    assert cli("try", "b").code == 2
