"""Diffs compare objects: complete, byte-exact, and the same under any configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backends.snapshots import DiffStat
from backends.trees import diff, quarantine
from backends.trees.diff import parse
from tests.support import git, run
from tests.trees.conftest import Box, MakeBox
from tests.trees.test_checkout import BYTES, NAMES
from tests.trees.test_snapshot import put

ZERO = "0" * 40


def change_much(box: Box) -> None:
    for text, content in BYTES.items():
        put(box, text.encode(), content)
    for name in NAMES:
        put(box, b"names/" + name, name + b"\n")
    put(box, b"README.md", b"# sample\r\n\r\nA changed repository\x0c.\r\n")
    (box.tree / "src" / "add.py").rename(box.tree / "src" / "plus.py")
    (box.tree / "tests" / "test_add.py").unlink()
    (box.tree / "run.sh").chmod(0o644)
    os.symlink("README.md", box.tree / "link")


def test_the_patch_gives_identical_bytes_and_modes_in_a_fresh_clone(
    box: Box, repo: Path, tmp_path: Path
) -> None:
    """G4, G5, G6: every kind of content and name, through git apply."""
    change_much(box)
    tree = box.snapshot().tree
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repo), "clone")
    done = run(["git", "apply", "--index", "--whitespace=nowarn", "-"], cwd=clone, stdin=box.patch(tree))
    assert done.code == 0, done.err
    assert git(clone, "write-tree") == tree


def test_every_name_is_listed_once(box: Box) -> None:
    change_much(box)
    rows = diff.changes(quarantine.git(box.paths), box.base.tree, box.snapshot().tree)
    listed = [row.path.removeprefix(b"names/") for row in rows if row.path.startswith(b"names/")]
    assert sorted(listed) == sorted(NAMES)


def test_rows_tell_kind_modes_and_counts(box: Box) -> None:
    change_much(box)
    rows = {
        row.path: row for row in diff.changes(quarantine.git(box.paths), box.base.tree, box.snapshot().tree)
    }
    renamed = rows[b"src/plus.py"]
    assert (renamed.status, renamed.old_path, renamed.added, renamed.deleted) == ("R", b"src/add.py", 0, 0)
    assert (rows[b"nul.bin"].status, rows[b"nul.bin"].added) == ("A", None)
    assert (rows[b"link"].new_mode, rows[b"link"].added) == (0o120000, 1)
    assert (rows[b"run.sh"].old_mode, rows[b"run.sh"].new_mode) == (0o100755, 0o100644)
    assert (rows[b"tests/test_add.py"].status, rows[b"tests/test_add.py"].new_oid) == ("D", ZERO)
    assert (rows[b"README.md"].added, rows[b"README.md"].deleted) == (3, 3)
    assert rows[b"crlf.txt"].added == 2


def test_a_file_that_became_a_link_is_one_row(box: Box) -> None:
    (box.tree / "README.md").unlink()
    os.symlink("run.sh", box.tree / "README.md")
    rows = diff.changes(quarantine.git(box.paths), box.base.tree, box.snapshot().tree)
    assert [(row.status, row.old_mode, row.new_mode) for row in rows] == [("T", 0o100644, 0o120000)]


@pytest.mark.boundary
def test_no_configuration_changes_the_diff(
    repo: Path, make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G9: neither the user's, nor the source's, nor a later commit on the branch."""
    box = make_box(repo)
    change_much(box)
    before = diff.diff(box.paths, box.base.commit, box.base.tree, box.snapshot().tree)
    hostile = {
        "diff.noprefix": "true", "diff.mnemonicPrefix": "true", "color.ui": "always",
        "color.diff": "always", "diff.external": "/bin/false", "core.quotePath": "false",
        "core.autocrlf": "true", "diff.renames": "false", "diff.algorithm": "patience", "diff.context": "0",
        "diff.interHunkContext": "9", "diff.submodule": "log", "diff.orderFile": "/etc/passwd",
        "diff.wordRegex": ".", "core.pager": "false", "diff.relative": "true",
        "diff.suppressBlankEmpty": "true", "diff.indentHeuristic": "false", "diff.colorMoved": "zebra",
        "core.abbrev": "4", "diff.ignoreSubmodules": "all", "core.attributesFile": "/etc/passwd",
    }  # fmt: skip
    user = Path(os.environ["HOME"], ".gitconfig")
    for key, value in hostile.items():
        git(repo, "config", key, value)
        assert run(["git", "config", "--file", str(user), key, value]).code == 0
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/bin/false")
    monkeypatch.setenv("GIT_DIFF_OPTS", "-u0")
    (repo / ".gitattributes").write_text("* -diff\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-q", "-m", "later")
    after = diff.diff(box.paths, box.base.commit, box.base.tree, box.snapshot().tree)
    assert after == before
    assert before.changes
    assert b"diff --git a/README.md b/README.md" in before.patch


def test_the_same_tree_gives_nothing(box: Box) -> None:
    same = diff.diff(box.paths, box.base.commit, box.base.tree, box.base.tree)
    assert (same.changes, same.patch) == ((), b"")


def test_counts_of_the_snapshot_are_those_of_the_diff(box: Box) -> None:
    change_much(box)
    taken = box.snapshot()
    rows = diff.changes(quarantine.git(box.paths), box.base.tree, taken.tree)
    assert taken.stat == DiffStat(
        len(rows), sum(row.added or 0 for row in rows), sum(row.deleted or 0 for row in rows)
    )


@pytest.mark.parametrize("to", [b"way/way", b"away"])
def test_a_patch_that_moves_a_link_and_puts_a_folder_at_its_name_applies(
    repo: Path, make_box: MakeBox, tmp_path: Path, to: bytes
) -> None:
    os.symlink("run.sh", repo / "way")
    git(repo, "add", "way")
    git(repo, "commit", "-q", "-m", "a link")
    box = make_box(repo)
    (box.tree / "way").unlink()
    (box.tree / "way").mkdir()
    os.symlink("run.sh", box.tree / os.fsdecode(to))
    put(box, b"way/new", b"similarity index 100%\nrename from way\nrename to x\n")
    (box.tree / "src" / "add.py").rename(box.tree / "src" / "plus.py")
    (box.tree / "run.sh").rename(box.tree / "walk.sh")
    (box.tree / "walk.sh").chmod(0o644)
    tree = box.snapshot().tree
    patch = box.patch(tree)
    assert patch.count(b"\nrename to ") == 3
    link = git(repo, "rev-parse", "HEAD:way")
    said = f"index {link}..{link} 120000\n".encode()
    assert patch.count(b"rename from way\nrename to " + to + b"\n" + said) == 1
    own = (*diff.COMMON, *diff.PATCH, box.base.tree, tree)
    assert patch.replace(said, b"") == quarantine.git(box.paths).run(*own)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repo), "clone")
    done = run(["git", "apply", "--index", "-"], cwd=clone, stdin=patch)
    assert done.code == 0, done.err
    assert git(clone, "write-tree") == tree


RAW = b":100644 100644 %s %s M" % (b"1" * 40, b"2" * 40)


@pytest.mark.parametrize(
    ("output", "rows"),
    [
        (b"", []),
        (RAW + b"\0a\0" + b"1\t2\ta\0", [(b"a", None, "M", 1, 2)]),
        (RAW + b"\0:x\0" + b"-\t-\t:x\0", [(b":x", None, "M", None, None)]),
        (RAW + b"\0a\tb\nc\0" + b"0\t0\ta\tb\nc\0", [(b"a\tb\nc", None, "M", 0, 0)]),
        (
            RAW[:-1] + b"R090\0old\0new\0" + RAW + b"\0z\0" + b"3\t4\t\0old\0new\0" + b"5\t6\tz\0",
            [(b"new", b"old", "R", 3, 4), (b"z", None, "M", 5, 6)],
        ),
    ],
)
def test_rows_of_diff_tree(output: bytes, rows: list[tuple[object, ...]]) -> None:
    assert [(row.path, row.old_path, row.status, row.added, row.deleted) for row in parse(output)] == rows
