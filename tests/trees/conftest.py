"""One prepared box without processes: what a box's processes could write, the tests write themselves."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from backends.boxes.layout import BoxPaths, state_dir
from backends.trees import borrowing, diff, provider, quarantine, remove, snapshot, source
from backends.trees.values import Base, Limits, Source, TreeSnapshot
from tests.support import GIT_ENV
from tests.trees import layered


class Box(NamedTuple):
    """A box's folders and the source that it was made from."""

    paths: BoxPaths
    origin: Source
    base: Base

    @property
    def tree(self) -> Path:
        return self.paths.tree

    def snapshot(self, **limits: Any) -> TreeSnapshot:
        return snapshot.snapshot(self.paths, self.base.tree, limits=Limits(**limits))

    def patch(self, tree: str) -> bytes:
        return diff.patch(quarantine.git(self.paths), self.base.tree, tree)

    def blob(self, tree: str, path: str) -> bytes:
        return quarantine.git(self.paths).run("cat-file", "blob", f"{tree}:{path}")

    def names(self, tree: str) -> list[bytes]:
        out = quarantine.git(self.paths).run("ls-tree", "-r", "-z", "--name-only", tree)
        return out.split(b"\0")[:-1]

    def variables(self) -> dict[str, str]:
        return {
            "HOME": "/nonexistent",
            "GIT_DIR": str(self.paths.repo),
            "GIT_WORK_TREE": str(self.tree),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(map(str, borrowing.borrowed(self.paths))),
        }

    def inside(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Git as the box would run it in its tree, the borrowed objects lying where they lie on the host."""
        env = {**GIT_ENV, "PATH": os.environ["PATH"], **self.variables()}
        return subprocess.run(["git", *args], cwd=self.tree, env=env, capture_output=True, check=check)


MakeBox = Callable[..., Box]


@pytest.fixture
def make_box() -> Iterator[MakeBox]:
    """Makes boxes and removes them with the product's own removal."""
    made: list[BoxPaths] = []

    def make(where: Path, name: str = "one", rev: str = "HEAD", history: str = "full", **more: Any) -> Box:
        origin = source.discover(where)
        assert origin is not None
        base = source.resolve(origin, rev)
        paths = BoxPaths(state_dir() / "sample" / name)
        paths.root.mkdir(parents=True, mode=0o700)
        made.append(paths)
        provider.prepare(paths, origin, base, history=history, **more)
        return Box(paths, origin, base)

    yield make
    for paths in made:
        remove.remove(paths.root)


@pytest.fixture
def box(repo: Path, make_box: MakeBox) -> Box:
    """A box of the small sample repository."""
    return make_box(repo)


@pytest.fixture
def make_layered() -> Iterator[layered.MakeLayered]:
    """Makes boxes of provider ``overlay`` and removes them with the product's own removal."""
    made: list[BoxPaths] = []

    def make(where: Path, name: str = "one", rev: str = "HEAD", key: str = "sample") -> layered.Layered:
        one = layered.make(where, name, rev, key)
        made.append(one.paths)
        return one

    yield make
    for paths in made:
        remove.remove(paths.root)
