"""Bringing a real box onto where its branch is now, with both providers of a tree."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from backends.boxes.manifest import load
from backends.engine import Engine
from backends.errors import Busy, ClocheError, Refused
from backends.trees.rewriting import Rewriter
from backends.trees.source import base_ref
from tests import support
from tests.boxes import provided
from tests.boxes.provided import ONCE, run

FILES = {
    "lines": b"".join(b"line %d\n" % n for n in range(1, 21)),
    "gone": b"to go\n",
    "kept": b"kept\n",
    "docs/a": b"a\n",
    "docs/b": b"b\n",
    "folder/x/y": b"y\n",
    "file": b"f\n",
    "data": b"\0base",
    ".gitignore": b"*.log\n",
}


repo = provided.repository(FILES)
engine = provided.engine_with("b")


def upstream(repo: Path, files: dict[str, bytes], *gone: str) -> str:
    """The branch gains a commit."""
    for name in gone:
        support.git(repo, "rm", "-q", "-r", name)
    support.write_files(repo, files)
    support.git(repo, "add", "-f", "--", *files)
    support.git(repo, "commit", "-q", "-m", "upstream")
    return support.git(repo, "rev-parse", "HEAD")


def proposed(engine: Engine, repo: Path) -> dict[str, str]:
    """What the box proposes now: path and status, against its base."""
    engine.propose("b")
    found = {one.path.decode(): one.status for one in engine.review("b").diff.changes}
    engine.reopen("b")
    return found


def test_what_the_branch_gained_is_in_the_box_and_only_its_own_change_is_proposed(
    engine: Engine, repo: Path
) -> None:
    run(engine, "sed -i 3s/.*/BOX/ lines; echo new > mine; rm kept; ln -s mine link")
    tip = upstream(
        repo,
        {
            "lines": FILES["lines"].replace(b"line 17\n", b"UP\n"),
            "docs": b"a file now\n",
            "file/inner": b"a folder now\n",
            "deep/er/new": b"n\n",
            "tool": b"#!/bin/sh\n",
        },
        "docs",
        "gone",
        "folder",
        "file",
    )
    before = support.git(repo, "for-each-ref", "refs/heads"), support.git(repo, "status", "--porcelain")
    engine.propose("b")
    done = engine.rebase("b", as_name="t")
    assert (done.branch, done.new, done.conflicts) == ("refs/heads/main", tip, ())
    assert (
        support.git(repo, "for-each-ref", "refs/heads"),
        support.git(repo, "status", "--porcelain"),
    ) == before
    assert support.git(repo, "rev-parse", base_ref("b")) == tip
    manifest = load(engine.find("b"))
    assert (manifest.state, manifest.base, manifest.snapshot) == ("idle", tip, None)
    run(engine, "grep -qx BOX lines && grep -qx UP lines && test -f docs && test -f file/inner")
    run(engine, "test ! -e gone && test ! -e folder/x/y && test ! -e kept")
    assert proposed(engine, repo) == {"lines": "M", "mine": "A", "kept": "D", "link": "A"}
    engine.propose("b")
    plan = engine.plan_apply("b")
    assert (plan.mode, plan.old) == ("fast-forward", tip)


def test_a_box_is_rebased_twice_and_what_it_removed_may_come_back(engine: Engine, repo: Path) -> None:
    run(engine, "rm -r docs; echo 1 > one")
    upstream(repo, {"more": b"m\n"})
    assert engine.rebase("b").conflicts == ()
    upstream(repo, {"docs/c": b"c\n", "more": b"again\n"})
    assert engine.rebase("b").conflicts == ()
    run(engine, "test -f docs/c && test ! -e docs/a && grep -qx again more")
    assert proposed(engine, repo) == {"docs/a": "D", "docs/b": "D", "one": "A"}


def test_conflicts_are_named_file_by_file_and_left_to_be_solved_in_the_box(
    engine: Engine, repo: Path
) -> None:
    run(engine, "sed -i 3s/.*/BOX/ lines; rm gone; printf '\\0box' > data")
    tip = upstream(
        repo,
        {"lines": FILES["lines"].replace(b"line 3\n", b"UP\n"), "gone": b"changed\n", "data": b"\0upstream"},
    )
    done = engine.rebase("b", as_name="t")
    assert dict(done.conflicts) == {b"lines": "contents", b"gone": "modify/delete", b"data": "binary"}
    run(engine, "grep -q '^<<<<<<<' lines && grep -qx BOX lines && grep -qx UP lines")
    run(engine, "test \"$(tr -d '\\0' < data)\" = box")
    records = [one.data for one in engine.journal("b") if one.kind == "rebase"]
    assert [(one["new"], one["who"], one["scripted"]) for one in records] == [(tip, "t", True)]
    told = records[0]["conflicts"]
    assert isinstance(told, list) and ["lines", "contents"] in told


def test_an_ignored_file_in_the_way_stays_and_nothing_is_changed(engine: Engine, repo: Path) -> None:
    run(engine, "echo mine > a.log; mkdir -p sub.log; echo deep > sub.log/x; echo 1 > one")
    base = load(engine.find("b")).base
    for name in ("a.log", "sub.log"):
        upstream(repo, {name: b"theirs\n", "aa": name.encode()})
        with pytest.raises(Busy) as caught:
            engine.rebase("b")
        assert caught.value.code == "in-the-way" and name in caught.value.why
        assert load(engine.find("b")).base == base
        run(engine, "grep -qx mine a.log && grep -qx deep sub.log/x && test ! -e aa")
        support.git(repo, "reset", "-q", "--hard", base)


def test_a_link_out_of_the_box_is_never_written_through(engine: Engine, repo: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("host\n")
    run(engine, f"rm -r docs; ln -s {outside} docs; ln -s {outside}/a new.log")
    upstream(repo, {"docs/a": b"changed\n", "docs/c": b"c\n"})
    done = engine.rebase("b")
    assert done.conflicts
    assert sorted(os.listdir(outside)) == ["a"] and (outside / "a").read_text() == "host\n"


def test_a_branch_that_was_rewritten_is_followed_as_well(engine: Engine, repo: Path) -> None:
    run(engine, "echo 1 > one")
    support.git(repo, "commit", "-q", "--amend", "-m", "other")
    tip = upstream(repo, {"more": b"m\n"})
    assert engine.rebase("b").new == tip
    assert proposed(engine, repo) == {"one": "A"}


def test_a_disk_that_is_full_in_the_middle_leaves_the_base_and_a_second_try_ends_it(
    engine: Engine, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(engine, "sed -i 3s/.*/BOX/ lines")
    base = load(engine.find("b")).base
    tip = upstream(repo, {"a": b"a\n", "lines": FILES["lines"].replace(b"line 17\n", b"UP\n")}, "gone")

    def full(self: Rewriter, name: bytes, fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Rewriter, "_give", full)
        with pytest.raises(ClocheError) as caught:
            engine.rebase("b")
    assert caught.value.code == "not-written"
    assert load(engine.find("b")).base == base == support.git(repo, "rev-parse", base_ref("b"))
    done = engine.rebase("b")
    assert (done.new, done.conflicts) == (tip, ())
    run(engine, "grep -qx BOX lines && grep -qx UP lines && test ! -e gone")
    assert proposed(engine, repo) == {"lines": "M"}


def test_an_apply_before_a_rebase_is_no_longer_undone(engine: Engine, repo: Path) -> None:
    run(engine, "echo 1 > one; echo 2 > two")
    upstream(repo, {"more": b"m\n"})
    engine.propose("b")
    with engine.decisions("b", "t") as desk:
        desk.set([(b"one", desk.file(b"one").all)], "accepted")
    assert engine.apply("b", as_name="t", part=True).mode == "merge"
    tip = support.git(repo, "rev-parse", "main")
    assert engine.rebase("b").new == tip
    assert proposed(engine, repo) == {"two": "A"}
    with pytest.raises(Refused) as caught:
        engine.unapply("b", as_name="t")
    assert caught.value.code == "not-applied" and "rebased" in caught.value.why
    assert support.git(repo, "rev-parse", "main") == tip


@ONCE
def test_it_is_refused_where_it_makes_no_sense(engine: Engine, repo: Path) -> None:
    with pytest.raises(Refused, match="it is created"):
        engine.rebase("b")
    run(engine, "echo 1 > one")
    with pytest.raises(Refused) as caught:
        engine.rebase("b")
    assert caught.value.code == "nothing-to-rebase"
    support.git(repo, "checkout", "-q", "--detach")
    support.git(repo, "branch", "-q", "-D", "main")
    with pytest.raises(Refused) as caught:
        engine.rebase("b")
    assert caught.value.code == "branch-gone"


@ONCE
def test_it_can_be_given_on_the_command_line(engine: Engine, repo: Path) -> None:
    run(engine, "sed -i 3s/.*/BOX/ lines")
    upstream(repo, {"lines": FILES["lines"].replace(b"line 3\n", b"UP\n")})
    done = support.run(support.cloche_argv("rebase", "b", "--as", "t"), cwd=repo)
    assert done.code == 0
    assert "conflict (contents): lines" in done.out
    again = support.run(support.cloche_argv("rebase", "b"), cwd=repo)
    assert again.code == 3 and "still at its base" in again.err
