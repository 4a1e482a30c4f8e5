"""Making a box: base pinned, policy first, and nothing left behind by a failure at any step."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.boxes import manifest
from backends.boxes.layout import BoxPaths, state_dir
from backends.engine import Engine, NewBox
from backends.errors import Busy, ClocheError, Refused, UsageError
from backends.evidence import journal
from backends.verbs import creation
from tests import support
from tests.conftest import Home

TIERS = ("process", "workspace")


def everything(repo: Path) -> tuple[list[str], list[str], str, list[str]]:
    """References, worktrees and index of the source, and what lies in the state folder."""
    state = state_dir()
    files = sorted(str(p.relative_to(state)) for p in state.rglob("*")) if state.exists() else []
    return (
        support.git(repo, "for-each-ref").splitlines(),
        support.git(repo, "worktree", "list", "--porcelain").splitlines(),
        support.git(repo, "status", "--porcelain"),
        [name for name in files if "/" in name],
    )


class Injected(Exception):
    pass


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("step", [step for step in creation.STEPS if step != "origin"])
def test_a_failure_after_any_step_leaves_nothing(repo: Path, tier: str, step: str) -> None:
    before = everything(repo)

    def fail(done: str) -> None:
        if done == step:
            raise Injected(step)

    with pytest.raises(Injected) as raised:
        creation.create(NewBox(name="b", tier=tier), repo, fail)
    assert not getattr(raised.value, "__notes__", []), "everything could be taken back"
    assert everything(repo) == before
    creation.create(NewBox(name="b", tier=tier), repo)  # the name is free again
    Engine(repo).remove("b")


@pytest.mark.parametrize("step", creation.STEPS)
def test_a_failure_of_a_detached_box_leaves_nothing(repo: Path, step: str) -> None:
    before = everything(repo)

    def fail(done: str) -> None:
        if done == step:
            raise KeyboardInterrupt

    for request in (NewBox(name="b", empty=True), NewBox(name="b", clone=str(repo))):
        with pytest.raises(KeyboardInterrupt):
            creation.create(request, repo, fail)
        assert everything(repo) == before


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("step", [step for step in creation.STEPS if step != "origin"])
def test_gc_takes_back_what_a_killed_new_left(repo: Path, tier: str, step: str) -> None:
    before = everything(repo)
    program = (
        "import os, sys; from pathlib import Path\n"
        "from backends.verbs import creation; from backends.engine import NewBox\n"
        "def die(step):\n    if step == sys.argv[2]: os.kill(os.getpid(), 9)\n"
        "creation.create(NewBox(name='b', tier=sys.argv[3]), Path(sys.argv[1]), die)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(repo), step, tier], check=False)
    assert done.returncode == -9
    engine = Engine(repo)
    finished = step == "manifest"
    assert [row.name for row in engine.boxes()] == (["b"] if finished else [])
    if finished:
        engine.remove("b")
    else:
        (folder,) = state_dir().glob("*/b")
        if not (folder / "lock").exists():
            assert engine.gc() == () and folder.exists(), "its maker may be about to take the lock"
            os.utime(folder, (1, 1))
        outcomes = engine.gc()
        assert outcomes[0].removed, outcomes
        # With the box goes the layer that nobody else names.
        assert [outcome.box for outcome in outcomes[1:]] in ([], ["shared layers"])
    assert everything(repo) == before


def test_policy_and_base_are_written_before_anything_that_the_box_can_write(repo: Path) -> None:
    seen: dict[str, set[str]] = {}

    def look(step: str) -> None:
        (root,) = state_dir().glob("*/b")
        seen[step] = {path.name for path in root.iterdir()}

    creation.create(NewBox(name="b"), repo, look)
    assert not seen["policy"] & {"tree", "home", "repo", "tmp", "git"}
    assert "policy.json" in seen["policy"]
    assert {"tree", "home", "repo", "git"} <= seen["files"]
    assert "manifest.json" not in seen["journal"], "until all is there the box does not exist"


def test_a_box_keeps_the_base_and_the_policy_that_it_was_made_with(repo: Path) -> None:
    engine = Engine(repo)
    base = support.git(repo, "rev-parse", "HEAD")
    row = engine.create(NewBox(name="b", purpose="p", expires=5.0))
    paths = engine.find("b")
    (repo / "README.md").write_text("moved on\n")
    (repo / "cloche.toml").write_text('[profiles.default]\nnet.mode = "host"\n')
    support.git(repo, "commit", "-qam", "later")
    known = manifest.load(paths)
    assert (known.base, known.base_ref) == (base, "refs/heads/main")
    assert known.base_tree == support.git(repo, "rev-parse", f"{base}^{{tree}}")
    assert hashlib.sha256(paths.policy.read_bytes()).hexdigest() == known.policy_digest
    assert json.loads(paths.policy.read_text())["net"]["mode"] == "deny"
    assert support.git(repo, "rev-parse", "refs/cloche/b/base") == base
    assert engine.boxes()[0].drift == 1
    assert (row.purpose, row.expires, row.state) == ("p", 5.0, "created")
    assert engine.boxes()[0].needs == "overdue"
    (record,) = journal.read(paths.journal)
    assert record.kind == "created" and record.data["policy_digest"] == known.policy_digest
    assert known.journal == {"count": 1, "head": record.hash}


def test_the_folder_of_a_box_is_closed_to_others(repo: Path) -> None:
    paths = creation.create(NewBox(name="b"), repo)
    assert paths.root.stat().st_mode & 0o777 == 0o700
    assert paths.root.stat().st_uid == os.geteuid()
    known = manifest.load(paths)
    for folder in (paths.written, paths.home, paths.repo):
        status = folder.stat()
        assert status.st_mode & 0o077 == 0
        assert (status.st_uid, status.st_gid) == (known.payload_uid, known.payload_gid)
    for host_side in (paths.quarantine, paths.policy, paths.manifest, paths.journal):
        assert host_side.stat().st_uid == os.geteuid()
    if os.geteuid() == 0:
        other = creation.create(NewBox(name="c"), repo)
        assert known.payload_uid >= creation.PAYLOAD_UIDS
        assert manifest.load(other).payload_uid != known.payload_uid, "two boxes share no uid"
    else:
        assert known.payload_uid == os.geteuid()


def test_any_revision_can_be_the_base(repo: Path) -> None:
    first = support.git(repo, "rev-parse", "HEAD")
    support.git(repo, "tag", "v1")
    support.git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    support.git(repo, "branch", "side", "v1")
    engine = Engine(repo)
    for number, (rev, ref) in enumerate(
        {"v1": "", "side": "refs/heads/side", "HEAD~1": "", first[:9]: ""}.items()
    ):
        row = engine.create(NewBox(name=f"b{number}", rev=rev))
        assert (row.base, row.base_ref) == (first, ref)


@pytest.mark.parametrize("rev", ["nowhere", "--all", "HEAD:README.md", "", "HEAD^{tree}", "a\0b"])
def test_what_names_no_commit_is_refused_and_leaves_nothing(repo: Path, rev: str) -> None:
    before = everything(repo)
    with pytest.raises(UsageError):
        Engine(repo).create(NewBox(name="b", rev=rev))
    assert everything(repo) == before


def test_an_unborn_head_is_refused_by_name_with_the_remedy(home: Home) -> None:
    """Kind G11: no fallback to the checkout."""
    fresh = home.root / "fresh"
    fresh.mkdir()
    support.git(fresh, "init", "-q", "-b", "trunk")
    (fresh / "file").write_text("not committed")
    with pytest.raises(Refused) as refused:
        Engine(fresh).create(NewBox(name="b"))
    assert "refs/heads/trunk" in refused.value.why and "no commit" in refused.value.why
    assert "git commit" in refused.value.next_step
    assert not list(state_dir().glob("*/b"))


def test_a_name_is_taken_once_and_the_other_box_is_not_harmed(repo: Path) -> None:
    engine = Engine(repo)
    engine.create(NewBox(name="b"))
    before = everything(repo)
    with pytest.raises(Busy) as busy:
        engine.create(NewBox(name="b"))
    assert busy.value.code == "name-taken"
    assert everything(repo) == before


def test_a_branch_of_the_persons_is_neither_used_nor_removed(repo: Path) -> None:
    support.git(repo, "branch", "cloche/b")
    before = everything(repo)
    with pytest.raises(Busy, match="cloche/b"):
        Engine(repo).create(NewBox(name="b", tier="workspace"))
    assert everything(repo) == before


def test_a_reference_that_is_in_the_way_is_neither_used_nor_removed(repo: Path) -> None:
    support.git(repo, "update-ref", "refs/cloche/b/base", "HEAD")
    before = everything(repo)
    with pytest.raises(Busy):
        Engine(repo).create(NewBox(name="b"))
    assert everything(repo) == before


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (NewBox(name="B"), "name"),
        (NewBox(name="b", profile="nope"), "profile"),
        (NewBox(name="b", clone="x", empty=True), "both"),
    ],
)
def test_a_malformed_request_is_a_usage_error(repo: Path, request_: NewBox, word: str) -> None:
    before = everything(repo)
    with pytest.raises(UsageError) as error:
        Engine(repo).create(request_)
    assert word in str(error.value)
    assert everything(repo) == before


def test_outside_a_repository_nothing_is_guessed(home: Home) -> None:
    with pytest.raises(Refused) as refused:
        Engine(home.home).create(NewBox(name="b"))
    assert refused.value.code == "no-repository"


@pytest.mark.parametrize(
    ("text", "tier", "word"),
    [
        ('net.mode = "allow"\nnet.egress = ["example.com"]', "process", "net.mode"),
        ('net.mode = "host"', "supervised", "net.mode"),
        ("net.loopback = false", "supervised", "net.loopback"),
        ('net.mode = "allow"\nnet.egress = ["*.com"]', "", "*.com"),
        ('image = "x"', "process", "image"),
        ("", "container", "container"),
        ("", "microvm", "microvm"),
    ],
)
def test_what_cannot_be_enforced_is_refused_at_creation(repo: Path, text: str, tier: str, word: str) -> None:
    (repo / "cloche.toml").write_text(f"[profiles.p]\n{text}\n")
    before = everything(repo)
    with pytest.raises(ClocheError) as refused:
        Engine(repo).create(NewBox(name="b", profile="p", tier=tier))
    assert refused.value.exit_code in (2, 3) and word in str(refused.value)
    assert everything(repo) == before


@pytest.mark.parametrize("tier", ["process", "workspace"])
def test_a_refused_list_of_destinations_names_a_way_that_this_version_has(repo: Path, tier: str) -> None:
    (repo / "cloche.toml").write_text('[profiles.p]\nnet.mode = "allow"\nnet.egress = ["example.com"]\n')
    with pytest.raises(ClocheError) as refused:
        Engine(repo).create(NewBox(name="b", profile="p", tier=tier))
    assert "--tier supervised" in refused.value.next_step
    assert Engine(repo).create(NewBox(name="a", profile="p", tier="supervised")).tier == "supervised"
    assert 'net.mode = "deny"' in refused.value.next_step
    (repo / "cloche.toml").write_text('[profiles.p]\nnet.mode = "deny"\n')
    assert Engine(repo).create(NewBox(name="b", profile="p", tier=tier)).name == "b"


def test_auto_takes_the_supervised_tier_for_a_list_of_destinations(repo: Path) -> None:
    (repo / "cloche.toml").write_text('[profiles.p]\nnet.mode = "allow"\nnet.egress = ["example.com"]\n')
    assert Engine(repo).create(NewBox(name="b", profile="p")).tier == "supervised"


def test_the_digest_of_a_profile_is_that_of_a_box_made_of_it_now(repo: Path) -> None:
    engine = Engine(repo)
    (repo / "cloche.toml").write_text("[profiles.small]\nresources.procs = 7\n")
    for name in ("default", "small"):
        engine.create(NewBox(name=name, profile=name))
        assert engine.policy_digest(None, name) == engine.policy_digest(name)
        assert engine.policy_show(None, name) == engine.policy_show(name)


def test_auto_takes_the_process_tier_and_never_workspace(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(repo)
    assert engine.create(NewBox(name="a", tier="auto")).tier == "process"
    from backends import tiers
    from backends.tiers.protocol import Refusal

    refusal = Refusal("userns", "user namespaces are off", "turn them on")
    for name in ("process", "supervised"):
        monkeypatch.setattr(type(tiers.get(name)), "refusals", lambda self, policy: (refusal,))
    for tier in ("auto", "process"):
        with pytest.raises(Refused) as refused:
            engine.create(NewBox(name="b", tier=tier))
        assert "user namespaces are off" in refused.value.why


def test_a_cloche_toml_of_another_revision_only_narrows(repo: Path) -> None:
    support.git(repo, "checkout", "-q", "-b", "strange")
    (repo / "cloche.toml").write_text('[profiles.default]\nnet.mode = "host"\nresources.procs = 7\n')
    support.git(repo, "add", "-A")
    support.git(repo, "commit", "-qm", "a stranger's policy")
    support.git(repo, "checkout", "-q", "main")
    paths = creation.create(NewBox(name="b", rev="strange"), repo)
    policy = json.loads(paths.policy.read_text())
    assert policy["net"]["mode"] == "deny" and policy["resources"]["procs"] == 7


def two_at_once(make: Callable[[], BoxPaths]) -> list[object]:
    from concurrent.futures import ThreadPoolExecutor

    def attempt() -> object:
        try:
            return make()
        except ClocheError as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        return [job.result() for job in [pool.submit(attempt) for _ in range(4)]]


def test_of_several_that_want_one_name_at_once_exactly_one_gets_it(repo: Path) -> None:
    results = two_at_once(lambda: creation.create(NewBox(name="b"), repo))
    made = [one for one in results if isinstance(one, BoxPaths)]
    lost = [one for one in results if isinstance(one, ClocheError)]
    assert len(made) == 1 and len(lost) == 3
    assert {one.exit_code for one in lost} == {5}
    assert Engine(repo).boxes()[0].state == "created"
