"""A name at the top that a snapshot leaves out: untracked only, at the root only, whatever it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.trees import quarantine, snapshot
from backends.trees.values import TreeSnapshot
from tests.support import git, make_repo
from tests.trees.conftest import Box, MakeBox
from tests.trees.layered import Layered, MakeLayered

NAME = "asked.md"


def taken(box: Box | Layered, apart: str = NAME) -> TreeSnapshot:
    return snapshot.snapshot(box.paths, box.base.tree, apart=apart)


def names(box: Box | Layered, tree: str) -> set[str]:
    out = quarantine.git(box.paths).run("ls-tree", "-r", "-z", "--name-only", tree)
    return {name.decode() for name in out.split(b"\0")[:-1]}


def make_file(at: Path) -> None:
    at.write_bytes(b"asked\n")


def make_folder(at: Path) -> None:
    at.mkdir()
    (at / "x").write_bytes(b"x\n")


def make_link(at: Path) -> None:
    at.symlink_to("README.md")


@pytest.mark.parametrize("make", [make_file, make_folder, make_link, os.mkfifo])
@pytest.mark.parametrize("layered", [False, True], ids=["checkout", "overlay"])
def test_what_has_the_name_is_left_out_at_the_top_alone(
    make: Callable[[Path], None], layered: bool, make_box: MakeBox, make_layered: MakeLayered, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "r")
    box: Box | Layered = make_layered(repo) if layered else make_box(repo)
    top = box.paths.written
    before = names(box, box.base.tree)
    make(top / NAME)
    (top / "below").mkdir()
    (top / "below" / NAME).write_bytes(b"kept\n")
    (top / "asked.MD").write_bytes(b"another name\n")
    found = taken(box)
    assert names(box, found.tree) == before | {f"below/{NAME}", "asked.MD"}
    assert found.skipped == () and found.ignored == 1
    if make is not os.mkfifo:
        assert names(box, taken(box, "").tree) > names(box, found.tree)


@pytest.mark.parametrize("layered", [False, True], ids=["checkout", "overlay"])
def test_what_the_base_tracks_is_carried(
    layered: bool, make_box: MakeBox, make_layered: MakeLayered, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "r", {NAME: b"tracked\n", "other.md/deep": b"deep\n"})
    box: Box | Layered = make_layered(repo) if layered else make_box(repo)
    top = box.paths.written
    if not layered:
        (top / NAME).unlink()
    (top / NAME).write_bytes(b"changed\n")
    (top / "other.md").mkdir(exist_ok=True)
    (top / "other.md" / "new").write_bytes(b"new\n")
    assert quarantine.git(box.paths).run("cat-file", "blob", f"{taken(box).tree}:{NAME}") == b"changed\n"
    assert "other.md/new" in names(box, taken(box, "other.md").tree)


def test_a_layer_that_has_the_name_shows_nothing_through(make_layered: MakeLayered, tmp_path: Path) -> None:
    """The base moved on and dropped a file that the layer below still has."""
    repo = make_repo(tmp_path / "r", {NAME: b"tracked\n", "kept": b"kept\n"})
    git(repo, "tag", "lower")
    git(repo, "rm", "-q", NAME)
    git(repo, "commit", "-q", "-m", "drop it")
    box = make_layered(repo, rev="lower")
    (box.paths.upper / NAME).write_bytes(b"asked\n")
    base = git(repo, "rev-parse", "HEAD^{tree}")
    found = snapshot.snapshot(box.paths, base, lower=box.base.tree, apart=NAME)
    assert found.tree == base
