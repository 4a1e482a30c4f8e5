"""What the tests of a whole review share: a box that holds the corpus, and Git beside it as the judge."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from backends.boxes import liveness
from backends.engine import Engine, NewBox, Streams
from backends.gate.patch import selected_patch
from tests import support
from tests.gate.world import disk
from tests.review import corpus

BOX = "corpus"
PYTHON = "/usr/bin/python3"
HOST = {
    "diff.noprefix": "true", "color.ui": "always", "diff.external": "/bin/false", "core.quotePath": "false",
    "core.autocrlf": "true", "diff.renames": "copies",
}  # fmt: skip
"""What a user's configuration may say, and a review must not depend on."""


class Scene:
    """The source, one box of it, and a program on the host that must never run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = corpus.source(root / "repo")
        self.hidden = self.repo / "later.key"
        (self.repo / "cloche.toml").write_text(f'[profiles.default]\nfs.deny = ["{self.hidden}"]\n')
        (self.repo / ".git" / "info" / "exclude").write_text("/cloche.toml\n")
        self.ran = root / "ran"
        self.marker = root / "marker"
        self.marker.write_text(f"#!/bin/sh\ntouch {self.ran}\ncat\n")
        self.marker.chmod(0o755)
        self.engine = Engine(self.repo)
        self.engine.create(NewBox(name=BOX, tier="process"))

    def run(self, program: str) -> None:
        """A Python program in the box, to its end."""
        null = os.open(os.devnull, os.O_RDWR)
        try:
            ended = self.engine.run(BOX, [PYTHON, "-c", program], streams=Streams(null, null, null))
        finally:
            os.close(null)
        assert ended.exit == 0

    def lose_the_keeper(self, kill: int) -> None:
        """Kills the box's keeper, which had no time to tidy up."""
        paths = self.engine.find(BOX)
        keeper = liveness.read(paths).keeper
        assert keeper is not None
        os.kill(keeper.pid, kill)
        support.wait_until(lambda: liveness.read(paths).kind == "lost", "the keeper is gone")
        self.engine.stop(BOX)

    def configure(self) -> None:
        """The host's user has habits."""
        for key, value in HOST.items():
            support.git(self.repo, "config", key, value)

    def meanwhile(self, files: dict[str, bytes]) -> str:
        """Commits on the branch; its new tip."""
        support.write_files(self.repo, files)
        support.git(self.repo, "-c", "core.autocrlf=false", "add", *files)
        support.git(self.repo, "commit", "-qm", "meanwhile")
        return support.git(self.repo, "rev-parse", "main")

    def clone(self, name: str, commit: str) -> Path:
        """A fresh clone at a commit, with nobody's configuration."""
        where = self.root / name
        support.git(self.root, "clone", "-q", "--no-checkout", str(self.repo), str(where))
        support.git(where, "checkout", "-q", "--detach", commit)
        return where

    def accepted_patch(self) -> bytes:
        """What another process reads of the accepted part, as a patch."""
        with self.engine.decisions(BOX, "next") as desk:
            return selected_patch(desk.git, desk.selection())

    def by_git_apply(self, name: str, commit: str, patch: bytes) -> tuple[str, Files]:
        """The tree and the files that Git alone makes of a patch in a fresh clone."""
        where = self.clone(name, commit)
        subprocess.run(
            ["git", "apply", "--index", "--binary", "--whitespace=nowarn", "-"],
            cwd=where, input=patch, check=True, env={**os.environ, **support.GIT_ENV},
        )  # fmt: skip
        return support.git(where, "write-tree"), disk(where)

    def branch(self, name: str) -> tuple[str, Files]:
        """The branch's tree, and its files as whoever clones it gets them."""
        return support.git(self.repo, "rev-parse", "main^{tree}"), disk(self.clone(name, "main"))

    def untouched(self) -> tuple[object, ...]:
        """All of the source that a person would miss."""
        heads = support.git(self.repo, "for-each-ref", "refs/heads")
        return heads, disk(self.repo), (self.repo / ".git" / "index").read_bytes()

    def sound(self) -> None:
        """Nothing of the box ran on the host, and the source is whole."""
        assert not self.ran.exists()
        assert not self.hidden.exists()
        assert support.git(self.repo, "status", "--porcelain") == ""
        assert not list((self.repo / ".git").glob("*.lock"))
        support.git(self.repo, "fsck", "--strict", "--no-dangling")


Files = dict[bytes, tuple[int, bytes]]
