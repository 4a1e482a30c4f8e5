"""A source repository, a box's quarantine borrowing its objects, and proposals made of plain trees.

The trees are written without Git, which would check names, as a hostile box could.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from backends.boxes.layout import BoxPaths, state_dir
from backends.evidence.chain import canonical
from backends.evidence.journal import Journal
from backends.gate.checks import run_checks
from backends.snapshots import BoxRow, CheckRow, DiffStat, ReviewView, SnapshotInfo
from backends.trees import diff, quarantine
from backends.trees.git import Git
from backends.trees.values import Source
from tests import repositories, support

Tree = Mapping[bytes, "Node"]
Node = bytes | tuple[int, bytes] | Tree  # a plain file, a mode and content (gitlinks: an id), a folder

POLICY: dict[str, object] = {"version": 1, "profile": "default", "net": {"mode": "deny"}}
CREATED = 1767323045.0


class World:
    """One repository with one box."""

    def __init__(self, root: Path, files: Mapping[str, bytes] | None = None) -> None:
        self.repo = support.make_repo(root / "repo", files)
        self.source = Source(str(self.repo), str(self.repo / ".git"), str(self.repo / ".git"))
        self.base, self.base_tree = self.git("rev-parse", "HEAD", "HEAD^{tree}").split()
        self.paths = BoxPaths(state_dir() / "repo-0123456789" / "box")
        self.paths.root.mkdir(parents=True, mode=0o700)
        self.paths.policy.write_bytes(canonical(POLICY) + b"\n")
        self.quarantine = quarantine.init(self.paths, self.repo / ".git" / "objects")
        self.journal = Journal(self.paths.journal)
        self.journal.append("created", {"who": "test"})

    def git(self, *args: str, stdin: bytes = b"") -> str:
        return support.git(self.repo, *args, stdin=stdin)

    def tree(self, nodes: Tree) -> str:
        """A tree object of the quarantine with exactly these entries, whatever they are called."""
        return self._tree(self._lines(nodes))

    def changed(self, nodes: Tree) -> str:
        """The base's tree with the top entries of ``nodes`` added or replaced."""
        kept = []
        for line in self.quarantine.run("ls-tree", "-z", self.base_tree).split(b"\0")[:-1]:
            facts, name = line.split(b"\t", 1)
            mode, _, oid = facts.split()
            if name not in nodes:
                kept.append(b"%o %s\0%s" % (int(mode, 8), name, bytes.fromhex(oid.decode())))
        return self._tree(kept + self._lines(nodes))

    def _lines(self, nodes: Tree) -> list[bytes]:
        lines: list[bytes] = []
        for name, node in nodes.items():
            if isinstance(node, Mapping):
                mode, oid = 0o040000, self.tree(node)
            elif isinstance(node, tuple) and node[0] == 0o160000:
                mode, oid = node[0], node[1].decode()
            else:
                mode, content = node if isinstance(node, tuple) else (0o100644, node)
                oid = blob(self.quarantine, content)
            lines.append(b"%o %s\0%s" % (mode, name, bytes.fromhex(oid)))
        return lines

    def _tree(self, lines: list[bytes]) -> str:
        lines.sort(key=lambda line: line.split(b" ", 1)[1].split(b"\0")[0] + b"/" * line.startswith(b"40000"))
        return repositories.loose(self.quarantine.git_dir, "tree", b"".join(lines))

    def without(self, *names: bytes) -> str:
        """The base's tree without some top entries."""
        text = self.quarantine.run("ls-tree", "-z", self.base_tree).split(b"\0")
        kept = [line for line in text if line and line.split(b"\t", 1)[1] not in names]
        return self.quarantine.run("mktree", "-z", input=b"\0".join(kept) + b"\0").decode().strip()

    def checks(self, tree: str) -> tuple[CheckRow, ...]:
        return run_checks(self.quarantine, self.base_tree, tree)

    def snapshot(self, tree: str) -> SnapshotInfo:
        changes = diff.changes(self.quarantine, self.base_tree, tree)
        stat = DiffStat(
            len(changes), sum(c.added or 0 for c in changes), sum(c.deleted or 0 for c in changes)
        )
        return SnapshotInfo(tree, self.base, self.base_tree, CREATED, stat)

    def review(self, tree: str) -> ReviewView:
        from backends.evidence.journal import read
        from backends.evidence.tally import project

        return ReviewView(
            row=self.row(),
            snapshot=self.snapshot(tree),
            policy_digest=hashlib.sha256(self.paths.policy.read_bytes()).hexdigest(),
            diff=diff.diff(self.paths, self.base, self.base_tree, tree),
            checks=self.checks(tree),
            tally=project(read(self.paths.journal)),
            sessions=(),
            branch="refs/heads/main",
            branch_tip=self.base,
        )

    def row(self) -> BoxRow:
        return BoxRow(
            key=self.paths.key, name="box", repository=str(self.repo), tier="process", profile="default",
            state="proposed", live="", base=self.base, base_ref="refs/heads/main", drift=0, created=CREATED,
            purpose="", expires=None, needs="", processes=0, cpu=0.0, rss=0, denied=0, stat=None,
            last_line="", unconfined=False,
        )  # fmt: skip

    def fsck(self) -> str:
        """What git fsck complains about in the source, dangling objects aside."""
        done = support.run(["git", "fsck", "--strict", "--no-dangling"], cwd=self.repo, env=support.GIT_ENV)
        return "" if done.code == 0 else done.out + done.err

    def status(self) -> str:
        return self.git("status", "--porcelain", "-uall")


def blob(git: Git, content: bytes) -> str:
    return repositories.loose(git.git_dir, "blob", content)


def refused(rows: tuple[CheckRow, ...]) -> set[tuple[str, bytes | None]]:
    return {(row.id, row.path) for row in rows if row.verdict == "refuse"}


def warned(rows: tuple[CheckRow, ...]) -> set[tuple[str, bytes | None]]:
    return {(row.id, row.path) for row in rows if row.verdict == "warn"}


def disk(root: Path) -> dict[bytes, tuple[int, bytes]]:
    """Every file and link below ``root`` but ``.git``: type and executable bits, and bytes."""
    found: dict[bytes, tuple[int, bytes]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*files, *(f for f in folders if os.path.islink(os.path.join(folder, f)))]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if os.path.islink(path):
                found[os.path.relpath(path, os.fsencode(root))] = (0o120000, os.readlink(path))
            else:
                with open(path, "rb") as stream:
                    found[os.path.relpath(path, os.fsencode(root))] = (status.st_mode & 0o100, stream.read())
    return found


def clone(world: World, where: Path) -> Path:
    subprocess.run(
        ["git", "clone", "-q", str(world.repo), str(where)], check=True, env={**os.environ, **support.GIT_ENV}
    )
    return where
