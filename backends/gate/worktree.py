"""The person's own checkout of the branch that apply moves: is it clean, and bring it along.

Git runs here on a private git directory that shares only the index, the objects and the files with the
person's: no hook, filter, monitor or configuration of the source repository takes part. Attributes in the
tree count (line ends are written as the person's Git writes them), filter programs do not run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from backends.boxes.layout import state_dir
from backends.errors import Busy, Refused
from backends.evidence.visible import text_of
from backends.gate.merging import alternates
from backends.trees.git import Git, Output, failure
from backends.trees.quarantine import config, make_skeleton
from backends.trees.source import object_format
from backends.trees.values import Source

NAMED = 10  # files named in a message
_WORKTREE_KEYS = (
    "core.filemode", "core.symlinks", "core.ignorecase", "core.trustctime", "core.checkstat", "core.autocrlf",
    "core.eol",
)  # fmt: skip
# Files of a git directory that say what it is in the middle of (git-status(1)).
_IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
}


class Checkout(NamedTuple):
    """A work tree in which the branch is checked out, and its git directory."""

    git_dir: Path
    work_tree: Path


def checkout_of(source: Source, branch: str) -> Checkout | None:
    """The checkout of ``branch`` in any worktree of the repository, ``None`` when it is in none.

    ``Busy`` when a merge or rebase of it is under way or it is checked out twice, ``Refused`` when a box
    holds it.
    """
    found: list[Checkout] = []
    for place in _worktrees(Path(source.common_dir)):
        for kind in ("rebase-merge", "rebase-apply"):
            if _first_line(place.git_dir / kind / "head-name") == branch:
                raise _under_way("a rebase", place)
        if _first_line(place.git_dir / "BISECT_START") == branch.removeprefix("refs/heads/"):
            raise _under_way("a bisection", place)
        head = Git(place.git_dir).call("symbolic-ref", "--quiet", "HEAD").stdout
        if os.fsdecode(head).strip() == branch:
            found.append(place)
    if len(found) > 1:
        raise Busy(
            f"{branch} cannot be moved",
            "it is checked out in " + " and ".join(str(p.work_tree) for p in found),
            "switch one of them to another branch",
            code="checked-out-twice",
        )
    if not found:
        return None
    (place,) = found
    for name, what in _IN_PROGRESS.items():
        if (place.git_dir / name).exists():
            raise _under_way(what, place)
    boxes = state_dir().resolve()
    if boxes in place.work_tree.resolve().parents:
        raise Refused(
            f"{branch} cannot be moved",
            f"it is checked out in a box, at {place.work_tree}",
            "switch that worktree to another branch, or remove the box",
            code="checked-out-in-box",
        )
    return place


def _worktrees(common: Path) -> Iterator[Checkout]:
    settings = Git(common)
    bare = settings.call("config", "--type=bool", "--get", "core.bare").stdout.strip() == b"true"
    elsewhere = os.fsdecode(settings.call("config", "--get", "core.worktree").stdout).rstrip("\n")
    if elsewhere:
        yield Checkout(common, Path(os.path.normpath(common / elsewhere)))
    elif not bare and common.name == ".git":
        yield Checkout(common, common.parent)
    linked = common / "worktrees"
    for folder in sorted(linked.iterdir()) if linked.is_dir() else ():
        dot_git = _first_line(folder / "gitdir")
        work_tree = Path(os.path.normpath(folder / dot_git)).parent
        if dot_git and _belongs(work_tree, folder):
            yield Checkout(folder, work_tree)


def _belongs(work_tree: Path, folder: Path) -> bool:
    """Whether a linked worktree is still there: something else may lie in its place by now."""
    pointer = _first_line(work_tree / ".git")
    if not pointer.startswith("gitdir: "):
        return False
    return os.path.realpath(work_tree / pointer.removeprefix("gitdir: ")) == os.path.realpath(folder)


def _first_line(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes().split(b"\n", 1)[0])
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def _under_way(what: str, place: Checkout) -> Busy:
    return Busy(
        "the branch cannot be moved now",
        f"{what} is under way in {place.work_tree}",
        "finish or abort it, then apply again: git status",
        code="under-way",
    )


class Files:
    """The files and the index of one checkout, handled through a private git directory."""

    def __init__(self, place: Checkout, git: Git) -> None:
        self._place = place
        self._git = git

    def require_clean(self, tip: str) -> None:
        """``Busy`` naming the files when a tracked one differs from ``tip``, staged or not."""
        self._call("update-index", "-q", "--refresh", accept=(0, 1))
        quiet = ("-z", "--name-only", "--no-renames", "--ignore-submodules=all")
        staged = self._call("diff-index", "--cached", *quiet, tip).stdout
        changed = self._call("diff-files", *quiet).stdout
        names = list(dict.fromkeys(name for name in (staged + changed).split(b"\0") if name))
        if names:
            raise self._in_the_way("these files have changes of your own", names, "git stash, or commit them")

    def move(self, old: str, new: str, *, dry_run: bool = False) -> None:
        """Bring index and files from commit ``old`` to ``new``, or raise ``Busy`` and change nothing."""
        args = ("read-tree", *(("-n",) if dry_run else ()), "-m", "-u", old, new)
        done = self._git.call("-c", "core.untrackedCache=keep", *args)
        if done.status == 0:
            return
        self._stop_if_locked()
        lines = done.stderr.strip().split(b"\n")
        raise self._in_the_way("Git will not overwrite what is there", lines[:NAMED], "move these files away")

    def filtered(self, names: bytes) -> tuple[str, ...]:
        """Which filters (gitattributes(5)) the files of ``names`` (NUL-separated) are meant to pass."""
        fields = self._call("check-attr", "-z", "--stdin", "filter", input=names).stdout.split(b"\0")
        values = {fields[at + 2] for at in range(0, len(fields) - 2, 3)}
        return tuple(sorted(text_of(v) for v in values - {b"unspecified", b"unset", b"set", b""}))

    def _call(self, *args: str, input: bytes = b"", accept: tuple[int, ...] = (0,)) -> Output:
        done = self._git.call("-c", "core.untrackedCache=keep", *args, input=input)
        if done.status not in accept:
            self._stop_if_locked()
            raise failure(args, done)
        return done

    def _stop_if_locked(self) -> None:
        # Asked of the file: git update-index -q does not say what stopped it.
        if (self._place.git_dir / "index.lock").exists():
            raise self._in_the_way("another Git is at work there (index.lock)", [], "wait for it to end")

    def _in_the_way(self, why: str, names: list[bytes], remedy: str) -> Busy:
        said = ", ".join(text_of(name) for name in names[:NAMED])
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return Busy(
            f"your checkout in {self._place.work_tree} cannot be brought along",
            f"{why}{': ' if said else ''}{said}{more}; nothing was changed",
            f"{remedy}, then apply again",
            code="checkout-not-clean",
        )


@contextmanager
def opened(
    place: Checkout, objects: Path, beyond: Path, tip: str, settings: Mapping[str, str], tmp: Path
) -> Iterator[Files]:
    """The files of ``place`` for as long as the block runs.

    ``objects`` is the source repository's object folder, ``beyond`` the quarantine's, read as well;
    ``settings`` is the person's configuration as :func:`backends.gate.configuration.read` gives it; the
    private git directory is made in ``tmp``.
    """
    folder = Path(tempfile.mkdtemp(prefix="apply-", dir=tmp))
    try:
        private = folder / "git"
        core = {key: settings[key] for key in _WORKTREE_KEYS if key in settings}
        lines = "".join(f"\t{key.removeprefix('core.')} = {value}\n" for key, value in core.items())
        text = config(object_format(tip)).replace("bare = true", "bare = false")
        make_skeleton(private, f"{text}[core]\n\tsplitIndex = false\n{lines}", borrowed=[])
        (private / "HEAD").write_text(f"{tip}\n")
        # A split index (git-update-index(1)) keeps its greater part beside itself, found through the git dir.
        for shared in place.git_dir.glob("sharedindex.*"):
            (private / shared.name).symlink_to(shared)
        git = Git(
            private,
            index=place.git_dir / "index",
            variables={
                "GIT_WORK_TREE": os.fspath(place.work_tree),
                "GIT_OBJECT_DIRECTORY": os.fspath(objects),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": alternates(beyond),
            },
        )
        yield Files(place, git)
    finally:
        shutil.rmtree(folder)
