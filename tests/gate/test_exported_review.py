"""An export is reviewed where its box is not: what it says is decoded, compared, made again, not trusted."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.errors import ClocheError, Refused, UsageError
from backends.evidence.receipts import to_bytes
from backends.gate.bundles import heads, view
from backends.gate.bundles.decoding import Misfit, decode
from backends.gate.export import export
from backends.gate.patch import read
from backends.snapshots import (
    Acknowledgement,
    BoxCommit,
    BoxCommits,
    DenialRow,
    Diff,
    Ignored,
    NotObserved,
    ReviewComment,
    ReviewedFile,
    ReviewProgress,
    ReviewView,
    SessionRow,
    Tally,
    Trial,
)
from backends.snapshots_bundle import ONLY_NOW, BundleView
from backends.snapshots_evidence import (
    Bulk,
    Dependency,
    InnerEnd,
    InnerRun,
    InnerTest,
    LockFile,
    Outside,
    ProposalEvidence,
    Ran,
    Secret,
)
from backends.trees import diff
from backends.trees.values import Source
from backends.verbs import bundles
from tests import support
from tests.gate.test_commits_series import Agent
from tests.gate.test_export import NAMES, TEXTS, outside_fences
from tests.gate.world import World, clone

LINK = 0o120000
ESCAPE = "\x1b]0;owned\x07\x1b[2J\u202e\r## Forged\n```\n<script>[x](http://evil)"


def everything(world: World) -> str:
    """A tree that differs from the base in every way that a patch can say."""
    nodes: dict[bytes, Any] = {
        name: (0o100755 if n % 2 else 0o100644, b"x\n") for n, name in enumerate(NAMES)
    }
    nodes |= {b"text%d" % n: text for n, text in enumerate(TEXTS)}
    nodes |= {
        b"link": (LINK, b"src/add.py"),
        b"run.sh": (0o100644, b"#!/bin/sh\nexec python3 -m pytest -q\n"),
    }
    nodes |= {b"README.md": (LINK, b"src"), b"moved": {b"add.py": b"def add(a, b):\n    return a + b\n"}}
    del nodes[b"\xff\xfe"]
    return world.tree(nodes)


def told(world: World, tree: str) -> ReviewView:
    """A review with something in every field that a receipt carries."""
    found = world.review(tree)
    path = found.diff.changes[0].path
    warned = next(row for row in found.checks if row.key)
    commit = BoxCommit(
        "a" * 40, tree, (world.base,), ESCAPE, ESCAPE, ESCAPE, ESCAPE, 1.0, ESCAPE, ESCAPE, 2.0, ""
    )
    trial = Trial(
        tree, tree, True, "c" * 40, tree, (ESCAPE,), 1, 2.5, 3, (("net", ESCAPE, 2),), "try-b", False, ESCAPE,
        4.0, True,
    )  # fmt: skip
    evidence = ProposalEvidence(
        (Ran(1, (ESCAPE,), True, 0, 1.5, "after"),), (
            InnerTest(
                (ESCAPE,), 2, (InnerEnd(0, "", "", 1), InnerEnd(None, "", ESCAPE, 1)),
                InnerRun(137, "SIGKILL", "", 1.0, "after", (ESCAPE,)),
            ),
        ), 9.0, 1,
        (Outside(path, 3.0, False),), 4, None,
        (LockFile(path, 1, 0, 0, 0, (Dependency(ESCAPE, "added", "", "1"),), ""),),
        (Secret(path, 3, ESCAPE, ESCAPE, True),), ((path, ESCAPE),), (Bulk(path, "generated", ESCAPE),),
        ESCAPE, 5, (ESCAPE,),
    )  # fmt: skip
    comment = ReviewComment(1, path, "k", "new", 1, ESCAPE, ESCAPE, ESCAPE, 5.0)
    progress = ReviewProgress(
        (ReviewedFile(path, 1, 2, 3, True, 1, (ESCAPE,), (), ()),), 1, 2, 3, (comment,), (1,), ESCAPE,
        "b" * 40, ((path, "changed"),), "d", (Acknowledgement(warned.key, ESCAPE, 6.0, True),),
    )  # fmt: skip
    denial = DenialRow("net", ESCAPE, ESCAPE, "kernel", "x", 1, ESCAPE, 2, 1.0, 2.0)
    world.journal.append(
        "request", {"who": ESCAPE, "scripted": False, "snapshot": tree, "comments": 2, "rejected": 3}
    )
    world.journal.append("denial", denial._asdict())
    return found._replace(
        progress=progress,
        tried=(trial,),
        combination="ran",
        evidence=evidence,
        commits=BoxCommits("a" * 40, (commit,), False, ESCAPE),
        ignored=Ignored(7, (path,)),
        tally=Tally((denial,), 2, 0, (NotObserved("dns", ESCAPE),), (("exec", 3),)),
        sessions=(SessionRow(1, (ESCAPE,), True, "exited", 1.0, 2.0, 0, 0.5, None, None),),
        diff=found.diff._replace(skipped=((path, ESCAPE),)),
        row=found.row._replace(purpose=ESCAPE),
    )


@pytest.fixture
def bundle(world: World, tmp_path: Path) -> Path:
    export(world.paths, told(world, everything(world)), tmp_path / "out")
    return tmp_path / "out"


def review(bundle: Path, place: Source | None = None) -> BundleView:
    return bundles.review(bundle, place, None)


def verdicts(found: BundleView) -> dict[str, str]:
    return {row.id: row.verdict for row in found.findings}


def forge(bundle: Path, change: Callable[[dict[str, Any]], None], patch: bytes | None = None) -> None:
    """Change the receipt, and the patch with a hash that fits: all that a sender can do without a key."""
    receipt = json.loads((bundle / "receipt.json").read_bytes())
    if patch is not None:
        (bundle / "patch.diff").write_bytes(patch)
        receipt["artefacts"]["patch.diff"]["sha256"] = hashlib.sha256(patch).hexdigest()
    change(receipt)
    (bundle / "receipt.json").write_bytes(to_bytes(receipt))


# ---------------------------------------------------------------------------------------------------- heads


def test_the_files_of_a_patch_are_those_that_git_names(world: World) -> None:
    tree = everything(world)
    patch = diff.patch(world.quarantine, world.base_tree, tree)
    wanted = diff.changes(world.quarantine, world.base_tree, tree)
    found = heads.changes(patch)
    assert {one.status for one in found} >= {"A", "D", "R", "M", "T"}
    assert [(one.path, one.old_path, one.status) for one in found] == [
        (one.path, one.old_path, one.status) for one in wanted
    ]
    for one, other in zip(found, wanted, strict=True):
        if one.new_oid:
            assert (one.old_oid, one.new_oid) == (other.old_oid, other.new_oid), one.path
        if one.new_mode or one.status == "D":
            assert (one.old_mode, one.new_mode) == (other.old_mode, other.new_mode), one.path
        if one.status != "T" and LINK not in (one.old_mode, one.new_mode):
            assert (one.added, one.deleted) == (other.added, other.deleted), one.path
    assert read(Diff(world.base, tree, found, patch, ()), world.base_tree).files


@pytest.mark.parametrize(
    "patch",
    [
        b"hello\n",
        b"diff --git a/a b/b\n",
        b"diff --git a/a b/a\nevil\n",
        b"diff --git a/a b/a\n--- a/a\n+++ b/other\n@@ -1 +1 @@\n-x\n+y\n",
        b"diff --git a/a b/a\nold mode 100644\nnew mode 140000\n",
        b"diff --git a/a b/a\nnew file mode 100644\nold mode 100644\n",
        b"diff --git a/a b/a\nrename from a\n",
        b"diff --git a/a b/b\nrename from x\nrename to y\n",
        b'diff --git "a/\\x41" "b/\\x41"\n',
        b"diff --git a/ b/\n",
        b"diff --git a/a b/a\nold mode 100644\nnew mode 100755\n" * 2,
        b"diff --git a/a b/a\n@@ -1,3 +1 @@\n-x\n",
        b"diff --git a/a b/a\nold mode 100644",
        b"\x1b[2J",
    ],
)
def test_a_patch_that_git_would_not_write_is_refused(patch: bytes) -> None:
    with pytest.raises(Refused) as caught:
        heads.changes(patch)
    assert caught.value.code == "patch-unread"


LINES = (
    b"diff --git a/a b/a\n", b"diff --git a/b b/b\n",
    b"index " + b"1" * 40 + b".." + b"2" * 40 + b" 100644\n",
    b"--- a/a\n", b"+++ b/a\n", b"@@ -1 +1 @@\n", b"-x\n", b"+y\n", b"GIT binary patch\n", b"literal 3\n",
    b"rename from a\n", b"rename to b\n", b"deleted file mode 100644\n", b"new file mode 120000\n", b"\n",
    b'"', b"\xff",
)  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=12))
@settings(max_examples=300, deadline=None)
def test_any_lines_are_a_patch_or_refused(lines: list[bytes]) -> None:
    try:
        found = heads.changes(b"".join(lines))
    except Refused:
        return
    assert len({one.path for one in found}) == len(found)


# --------------------------------------------------------------------------------------------------- receipt


def test_what_a_receipt_says_comes_back_as_it_was(world: World, tmp_path: Path) -> None:
    was = told(world, everything(world))
    export(world.paths, was, tmp_path / "out")
    found = review(tmp_path / "out")
    now = found.view
    for name in (
        "checks",
        "tried",
        "combination",
        "commits",
        "evidence",
        "ignored",
        "policy_digest",
        "sessions",
    ):
        assert getattr(now, name) == getattr(was, name), name
    assert now.progress == was.progress
    assert (now.diff.patch, now.diff.skipped, now.snapshot.id) == (
        was.diff.patch,
        was.diff.skipped,
        was.snapshot.id,
    )
    assert now.diff.changes == was.diff.changes or [c.path for c in now.diff.changes] == [
        c.path for c in was.diff.changes
    ]
    assert (now.row.key, now.row.tier, now.row.purpose) == (world.paths.key, "process", ESCAPE)
    (asked,) = found.requests
    assert (asked.who, asked.comments, asked.rejected) == (ESCAPE, 2, 3)
    assert not found.rerun and "in no repository" in found.why_not
    assert verdicts(found) == {
        "patch.diff": "ok", "report.md": "ok", "policy": "ok", "journal": "warn", "changes": "ok",
    }  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        found += places(one, (*path, key))
    return found


@given(st.data())
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_receipt_with_anything_in_any_place_is_read_or_a_misfit(bundle: Path, data: st.DataObject) -> None:
    receipt = json.loads((bundle / "receipt.json").read_bytes())
    patch = (bundle / "patch.diff").read_bytes()
    changes = heads.changes(patch)
    changed = copy.deepcopy(receipt)
    path = data.draw(st.sampled_from(places(receipt)))
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = data.draw(
        st.sampled_from(
            [None, True, -1, 1 << 70, 1e308, "", ESCAPE, "\ud800", [], {}, [[]], [None], {"x": 1}]
        )
    )
    try:
        view.listed(changed)
        found = view.view(changed, changes, patch)
        view.requests(changed)
    except Misfit:
        return
    assert all(row.verdict in ("pass", "warn", "refuse") for row in found.checks)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True), (int, 1.0), (float, float("nan")), (float, 1e300), (float, True), (str, 1), (bool, 1),
        (bytes, "\ud800"), (bytes, None), (tuple[int, ...], {}), (tuple[int, str], [1]), (Ignored, []),
        (Ignored, {"total": 1}),
    ],
)  # fmt: skip
def test_what_is_of_another_type_is_a_misfit(kind: Any, value: object) -> None:
    with pytest.raises(Misfit, match="here"):
        decode(kind, value, "here")


MANY = b"[" + b"[]," * 2_100_000 + b"[]]"


@pytest.mark.parametrize("text", [b'{"a": 1, "a": 2}', b'{"a": NaN}', b"[" * 100_000, MANY], ids=len)
def test_json_about_which_readers_disagree_or_that_has_no_end_is_no_receipt(
    bundle: Path, text: bytes
) -> None:
    (bundle / "receipt.json").write_bytes(text)
    with pytest.raises(UsageError):
        review(bundle)


# ----------------------------------------------------------------------------------------------------- rerun


def test_in_a_clone_with_the_base_the_tree_is_made_again_and_nothing_enters_the_clone(
    world: World, bundle: Path, tmp_path: Path
) -> None:
    fresh = clone(world, tmp_path / "fresh")
    before = support.git(fresh, "count-objects", "-v")
    place = Source(str(fresh), str(fresh / ".git"), str(fresh / ".git"))
    found = review(bundle, place)
    assert found.rerun and found.why_not == "" and verdicts(found)["tree"] == "ok"
    kept = [one for one in found.judged if one.when != "same"]
    assert all(one.row.id in bundles.ONLY_THERE for one in kept)
    assert found.view.diff.changes == diff.changes(world.quarantine, world.base_tree, found.view.snapshot.id)
    assert support.git(fresh, "count-objects", "-v") == before
    assert support.git(fresh, "status", "--porcelain") == ""


def test_a_repository_without_the_base_says_so(world: World, bundle: Path, tmp_path: Path) -> None:
    other = support.make_repo(tmp_path / "other", {"x": b"x\n"})
    found = review(bundle, Source(str(other), str(other / ".git"), str(other / ".git")))
    assert not found.rerun and "does not have the base" in found.why_not


def test_a_warning_that_was_taken_out_of_the_receipt_is_there_again(world: World, bundle: Path) -> None:
    forge(
        bundle,
        lambda receipt: receipt.update(checks=[r for r in receipt["checks"] if r["verdict"] == "pass"]),
    )
    found = review(bundle, world.source)
    fresh = [one.row.id for one in found.judged if one.when == ONLY_NOW and one.row.verdict == "warn"]
    assert "binary" in fresh and "executable" in fresh
    assert any(row.id == "binary" for row in found.view.checks)


def test_a_patch_that_makes_another_tree_fails(world: World, bundle: Path) -> None:
    patch = (bundle / "patch.diff").read_bytes()
    assert b"\n+def add" in patch or b"crlf" in patch
    forge(bundle, lambda _: None, patch.replace(b"+crlf\r", b"+CRLF\r"))
    found = review(bundle, world.source)
    assert verdicts(found)["patch.diff"] == "ok"
    assert verdicts(found)["tree"] == "fail" and not found.rerun


def test_a_patch_of_more_files_than_the_receipt_lists_fails_without_a_repository(bundle: Path) -> None:
    more = b"diff --git a/zz b/zz\nnew file mode 100644\nindex " + b"0" * 40 + b".." + b"1" * 40
    more += b"\n--- /dev/null\n+++ b/zz\n@@ -0,0 +1 @@\n+x\n"
    forge(bundle, lambda _: None, (bundle / "patch.diff").read_bytes() + more)
    found = review(bundle)
    assert verdicts(found)["changes"] == "fail"
    assert "zz" in next(row.evidence for row in found.findings if row.id == "changes")


def test_a_patch_into_git_itself_or_out_of_the_tree_is_not_applied(world: World, bundle: Path) -> None:
    for name in (b".git/hooks/post-checkout", b"../out"):
        text = b"diff --git a/%s b/%s\nnew file mode 100755\nindex %s..%s\n--- /dev/null\n+++ b/%s\n"
        patch = text % (name, name, b"0" * 40, b"1" * 40, name) + b"@@ -0,0 +1 @@\n+x\n"
        forge(bundle, lambda _: None, patch)
        found = review(bundle, world.source)
        assert verdicts(found)["tree"] == "fail" and not found.rerun


def test_a_base_tree_that_is_not_that_of_the_base_fails(world: World, bundle: Path) -> None:
    forge(bundle, lambda receipt: receipt["base"].update(tree=world.changed({b"x": b"y\n"})))
    assert verdicts(review(bundle, world.source))["tree"] == "fail"


@pytest.mark.parametrize("value", ["--help", "HEAD", "", "refs/heads/main", "\x1b[2J"])
def test_ids_that_are_none_reach_no_git(world: World, bundle: Path, value: str) -> None:
    for part, name in (("base", "tree"), ("base", "commit"), ("snapshot", "id")):
        was = json.loads((bundle / "receipt.json").read_bytes())[part][name]
        forge(bundle, lambda receipt, part=part, name=name: receipt[part].update({name: value}))  # type: ignore[misc]
        with pytest.raises(Refused, match="no object id"):
            review(bundle, world.source)
        forge(bundle, lambda receipt, part=part, name=name, was=was: receipt[part].update({name: was}))  # type: ignore[misc]


# ---------------------------------------------------------------------------------------------------- report


def test_no_text_poses_as_the_reports_own_in_any_section(bundle: Path) -> None:
    text = (bundle / "report.md").read_bytes().decode("utf-8")
    own = outside_fences(text)
    for heading in (
        "## What changes were requested", "## What was decided", "## What the reviewer said",
        "## What was tried", "## What the box committed", "## Dependencies",
    ):  # fmt: skip
        assert heading in own, heading
    for forged in ("Forged", "<script", "evil", "owned"):
        assert not any(forged in line for line in own), forged
        assert not any(line.startswith(forged) for line in text.split("\n"))
    assert text.replace("\n", "").isprintable()


def test_nothing_of_an_export_reaches_a_terminal_raw(world: World, bundle: Path, tmp_path: Path) -> None:
    for args in (("review", "--patch"), ("review", "--json"), ("verify",)):
        done = support.run(support.cloche_argv(*args, str(bundle)), cwd=world.repo)
        assert done.code in (0, 1), done.err
        said = done.out + done.err
        assert "owned" in said or args == ("verify",)
        assert not set(said) & set("\x1b\x07\r\u202e\x9b"), args
    forge(bundle, lambda receipt: receipt["box"].update(key=ESCAPE, name=ESCAPE, profile=ESCAPE))
    done = support.run(support.cloche_argv("review", str(bundle)), cwd=tmp_path)
    assert done.code == 0 and not set(done.out + done.err) & set("\x1b\x07\r\u202e")


def test_a_single_file_is_reviewed_as_the_folder_is(world: World, tmp_path: Path) -> None:
    was = told(world, everything(world))
    export(world.paths, was, tmp_path / "one.tar")
    found = review(tmp_path / "one.tar", world.source)
    assert found.rerun and found.view.progress == was.progress
    with pytest.raises(Refused) as caught:
        export(world.paths, was, tmp_path / "one.tar")
    assert caught.value.code == "out-not-empty"
    export(world.paths, was, tmp_path / "one.tar", force=True)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tar"] == ["one.tar"]
    (tmp_path / "dir.tar").mkdir()
    with pytest.raises(ClocheError):
        export(world.paths, was, tmp_path / "dir.tar", force=True)


# ---------------------------------------------------------------------------------------------------- series


def test_what_only_mails_hold_is_told_where_the_receipt_says_nothing_of_it(
    world: World, tmp_path: Path
) -> None:
    agent = Agent(world)
    agent.commit(b"one\n", {b"a": b"a\n", b"k": b"secret\n"})
    agent.commit(b"same\n", {b"k": b"other\n"})
    agent.commit(b"back\n", {b"k": b"secret\n"})
    (agent.place / "k").unlink()
    agent.commit(b"two\xe2\x80\xae\n", {b"b": b"b\n"})
    world.git("fetch", "-q", str(agent.place), "HEAD")
    out = tmp_path / "out"
    tree = world.git("rev-parse", "FETCH_HEAD^{tree}")
    export(world.paths, world.review(tree), out, series=agent.series())
    found = review(out, world.source)
    assert verdicts(found)["series"] == "ok"
    rows = [(one.row.verdict, one.row.reason, one.when) for one in found.judged if one.row.id == "commits"]
    assert rows == [
        (
            "warn",
            "2 versions of files are in the mails and not in the proposal: k in mail 1, k in mail 2",
            "only now",
        ),
        ("warn", "mail 4: its message or who made it holds U+202E RIGHT-TO-LEFT OVERRIDE", "only now"),
    ]


def test_mails_that_do_not_make_what_the_patch_makes_fail(world: World, tmp_path: Path) -> None:
    agent = Agent(world)
    agent.commit(b"one\n", {b"a": b"a\n"})
    agent.commit(b"two\n", {b"b": b"b\n"})
    world.git("fetch", "-q", str(agent.place), "HEAD")
    tree = world.git("rev-parse", "FETCH_HEAD^{tree}")
    out = tmp_path / "out"
    export(world.paths, world.review(tree), out, series=agent.series())
    assert verdicts(review(out, world.source))["series"] == "ok"
    assert verdicts(review(out))["series"] == "warn"  # nothing to try it on
    name = "0002-two.patch"
    good = (out / name).read_bytes()
    assert b"+b\n" in good

    def hashed(text: bytes) -> Callable[[dict[str, Any]], None]:
        def change(receipt: dict[str, Any]) -> None:
            receipt["artefacts"][name]["sha256"] = hashlib.sha256(text).hexdigest()

        return change

    for forged in (
        good.replace(b"+b\n", b"+B\n"),
        good + good,
        b"",
        b"\x1b[2J",
        good.replace(b"b/b", b"b/../b"),
    ):
        (out / name).write_bytes(forged)
        forge(out, hashed(forged))
        found = verdicts(review(out, world.source))
        assert found["series"] == "fail" and found["tree"] == found[name] == "ok", forged
    (out / name).unlink()
    assert verdicts(review(out, world.source))[name] == "fail"
