"""Making a bundle's tree again from its base and its patch, in a throw-away repository, to judge it anew.

The repository borrows the objects of one here that has the base, and nothing enters that one. Git reads the
patch on an index alone, without a work tree, bound in time and memory; no filter, hook or attribute of
anybody's counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from backends.errors import ClocheError, Refused
from backends.gate.commits.unseen import Step, mailed
from backends.gate.report import EMPTY_TREES
from backends.snapshots import CheckRow, FileChange
from backends.trees import diff as diffs
from backends.trees import source as sources
from backends.trees.git import Bounds, Git
from backends.trees.quarantine import ATTRIBUTES, config, make_skeleton
from backends.trees.values import Source

BOUNDS = Bounds(cpu=60, memory=1 << 30, file=1 << 30)


class Cannot(Exception):
    """The tree cannot be made here; the text says why. That is no word against the bundle."""


class Made(NamedTuple):
    """What the patch makes of the base."""

    tree: str
    changes: tuple[FileChange, ...]
    patch: bytes  # as Git writes it from the two trees
    checks: tuple[CheckRow, ...]
    series: str  # why the mails do not make the same tree, "" when they do or there are none


def rerun(
    place: Source | None, base: str, base_tree: str, patch: bytes, tree: str, mails: Sequence[bytes] = ()
) -> Made:
    """Apply ``patch`` to ``base_tree`` and have the gate look at what comes out.

    The ids are hexadecimal. ``Cannot`` where no repository has the base. ``Refused`` (code "patch-differs")
    where the patch does not apply to it, or makes another tree than ``tree``.
    """
    objects = None if base_tree in EMPTY_TREES else _objects(place, base, base_tree)
    with _scratch(objects, base_tree) as git:
        git.run("read-tree", base_tree)
        done = (
            git.call("apply", "--cached", "--binary", "--whitespace=nowarn", input=patch, bounds=BOUNDS)
            if patch
            else None
        )
        if done is not None and done.status != 0:
            said = done.stderr[-500:].decode("utf-8", "replace").strip().splitlines()
            raise _differs(f"git apply does not take it: {said[-1] if said else done.status}")
        made = git.line("write-tree")
        if made != tree:
            raise _differs(f"on the base it makes the tree {made}, the receipt says {tree}")
        from backends.gate.checks import run_checks

        steps: list[Step] = []
        why = _series(git, base_tree, mails, tree, steps) if mails else ""
        checks = run_checks(git, base_tree, made)
        return Made(
            made,
            diffs.changes(git, base_tree, made),
            diffs.patch(git, base_tree, made),
            checks if why or not steps else (*checks, *mailed(git, base_tree, steps)),
            why,
        )


def _series(git: Git, base_tree: str, mails: Sequence[bytes], tree: str, steps: list[Step]) -> str:
    """With what ``git am`` is made of, as :mod:`backends.gate.commits.series` proves them; ``steps`` gets
    what each mail makes."""
    git.run("read-tree", base_tree)
    made = base_tree
    with tempfile.TemporaryDirectory(prefix="cloche-mail-") as name:
        mail, message, patch = (Path(name, file) for file in ("mail", "message", "patch"))
        for number, text in enumerate(mails, 1):
            mail.write_bytes(text)
            split = Path(name, f"split-{number}")
            split.mkdir()
            count = git.call("mailsplit", "-b", f"-o{split}", mail, bounds=BOUNDS)
            if count.status != 0 or count.stdout.strip() != b"1":
                return f"mail {number} is none, or several"
            with open(split / "0001", "rb") as file:
                told = git.call("mailinfo", message, patch, stdin=file.fileno(), bounds=BOUNDS)
            if told.status != 0:
                return f"mail {number} cannot be read"
            with open(patch, "rb") as file:
                done = git.call("apply", "--cached", stdin=file.fileno(), bounds=BOUNDS)
            if done.status != 0:
                return f"mail {number} does not apply"
            made = git.line("write-tree")
            said = told.stdout + message.read_bytes()
            steps.append(Step(made, said.decode("utf-8", "surrogateescape")))
    return "" if made == tree else f"all mails make the tree {made}, the receipt says {tree}"


def _objects(place: Source | None, base: str, base_tree: str) -> Path:
    if place is None:
        raise Cannot("this folder is in no repository: run it in a clone that has the base")
    git = sources.git(place)
    known = git.call("rev-parse", "--verify", "-q", f"{base}^{{tree}}").stdout.strip()
    if known != base_tree.encode():
        if known:
            raise _differs(f"the base {base} has the tree {known.decode()}, the receipt says {base_tree}")
        raise Cannot(f"the repository here does not have the base {base[:12]}: fetch it, then look again")
    return git.objects


@contextmanager
def _scratch(objects: Path | None, tree: str) -> Iterator[Git]:
    with tempfile.TemporaryDirectory(prefix="cloche-bundle-") as folder:
        root = Path(folder, "git")
        make_skeleton(root, config(sources.object_format(tree)), borrowed=[objects] if objects else [])
        (root / "HEAD").write_text("ref: refs/heads/none\n")
        (root / "info").mkdir()
        (root / "info" / "attributes").write_bytes(ATTRIBUTES)
        yield Git(root, index=Path(folder, "index"))


def _differs(why: str) -> ClocheError:
    return Refused(
        "the patch is not what the receipt says",
        why,
        "do not apply it: ask for the export again, on another way",
        code="patch-differs",
    )
