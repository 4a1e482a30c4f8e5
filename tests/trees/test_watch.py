"""Changes in a tree are noticed, its links are not followed, and idleness is free."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.trees.watch import TreeWatch
from tests.support import descriptors


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    (path / "src" / "deep").mkdir(parents=True)
    (path / "src" / "a.py").write_text("a")
    return path


CHANGES: dict[str, Callable[[Path], object]] = {
    "write": lambda tree: (tree / "src" / "a.py").write_text("b"),
    "create": lambda tree: (tree / "src" / "deep" / "new").write_text("x"),
    "unlink": lambda tree: (tree / "src" / "a.py").unlink(),
    "mode": lambda tree: (tree / "src" / "a.py").chmod(0o700),
    "rename": lambda tree: (tree / "src" / "a.py").rename(tree / "b.py"),
    "folder": lambda tree: (tree / "other").mkdir(),
    "link": lambda tree: os.symlink("x", tree / "src" / "link"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_every_kind_of_change_is_noticed_once(tree: Path, kind: str) -> None:
    with TreeWatch(tree) as watch:
        assert not watch.wait(0)
        CHANGES[kind](tree)
        assert watch.wait(20.0)
        assert not watch.wait(0)


def test_new_folders_are_watched_with_all_below(tree: Path) -> None:
    with TreeWatch(tree) as watch:
        (tree / "one" / "two" / "three").mkdir(parents=True)
        assert watch.wait(20.0)
        watch.changed()
        (tree / "one" / "two" / "three" / "file").write_text("x")
        assert watch.wait(20.0)


def test_moved_folders_stay_watched(tree: Path) -> None:
    with TreeWatch(tree) as watch:
        (tree / "src").rename(tree / "lib")
        assert watch.wait(20.0)
        (tree / "lib" / "deep" / "sub").mkdir()
        assert watch.wait(20.0)
        (tree / "lib" / "deep" / "sub" / "file").write_text("x")
        assert watch.wait(20.0)


@pytest.mark.boundary
def test_links_are_never_followed(tree: Path, tmp_path: Path) -> None:
    """S14: links to the host's root, one there before and one made later, add no watch and no event."""
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    os.symlink("/", tree / "x")
    with TreeWatch(tree) as watch:
        folders = watch.folders
        assert folders == 3
        os.symlink(outside, tree / "y")
        assert watch.wait(20.0)
        assert watch.folders == folders
        (outside / "file").write_text("x")
        (outside / "sub" / "file").write_text("x")
        assert not watch.wait(0.1)


@pytest.mark.boundary
def test_a_folder_swapped_for_a_link_is_not_followed(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    with TreeWatch(tree) as watch:
        for _ in range(50):
            (tree / "new").mkdir()
            (tree / "new").rename(tree / "old")
            os.symlink(outside, tree / "new")
            watch.wait(0.05)
            (tree / "new").unlink()
            (tree / "old").rmdir()
        watch.wait(0.05)
        (outside / "sub" / "file").write_text("x")
        (outside / "file").write_text("x")
        assert not watch.wait(0.1)


def test_the_mount_point_and_nested_repositories_are_not_watched(tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / "sub" / ".git" / "objects").mkdir(parents=True)
    with TreeWatch(tree) as watch:
        assert watch.folders == 4


def test_too_many_folders_are_said(tree: Path) -> None:
    with TreeWatch(tree, most=2) as watch:
        assert watch.folders == 2
        assert not watch.complete
    with TreeWatch(tree) as watch:
        assert watch.complete


def test_a_removed_folder_frees_its_watch(tree: Path) -> None:
    with TreeWatch(tree) as watch:
        (tree / "src" / "deep").rmdir()
        assert watch.wait(20.0)
        watch.changed()
        assert watch.folders == 2


def test_nothing_is_spent_while_nothing_happens(tree: Path) -> None:
    with TreeWatch(tree) as watch:
        before = time.thread_time()
        assert not watch.wait(0.5)
        assert time.thread_time() - before < 0.05


def test_a_flood_is_taken_in_bounded_steps(tree: Path) -> None:
    with TreeWatch(tree) as watch:
        for number in range(20_000):
            (tree / "src" / f"f{number % 7}").write_text("x")
        assert watch.wait(20.0)
        assert not watch.wait(0)


def test_no_descriptor_stays_open(tree: Path) -> None:
    before = descriptors()
    with TreeWatch(tree):
        pass
    assert descriptors() == before
    with pytest.raises(OSError, match="No such file"):
        TreeWatch(tree / "missing")
    assert descriptors() == before
