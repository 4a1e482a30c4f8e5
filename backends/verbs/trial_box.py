"""A fresh box whose base is a commit that only another box's quarantine has, for one try; then it is gone.

Nothing of it enters the source repository, not even a reference: the commit comes through a bare repository
in the fresh box's own folder, as that of a cloned box does, so the fresh box is detached. That repository
borrows first from the quarantine and then, once the base is packed, from the cached pack alone: what is kept
needs neither the reviewed box nor the source.

Who makes it holds ``trial.lock`` in its folder. Where that file lies and nobody holds it, its maker was
killed, and ``cloche gc`` removes the box.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from backends.boxes import names, store
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import CREATED
from backends.boxes.manifest import Manifest, write_atomically
from backends.errors import Busy, NoSuchBox, Refused
from backends.policy import canonical
from backends.trees import borrowing, choice, quarantine
from backends.trees import source as sources
from backends.trees.git import Git
from backends.trees.names import quote
from backends.trees.values import Base, Source
from backends.verbs import creation, files, removal

MARK = "trial.lock"
PREFIX = "try-"
MOST = 100  # names that are tried for one box


class Beginning(NamedTuple):
    """The commit that a fresh box begins at, in the quarantine of the box that it comes from."""

    commit: str
    tree: str
    shallow: bytes  # where the history of the source is cut, b"" where it is whole


@contextmanager
def fresh(
    of: BoxPaths, manifest: Manifest, base: Beginning, purpose: str, *, keep: bool
) -> Iterator[BoxPaths]:
    """A box as ``manifest`` tells that of ``of``, with its policy, at ``base``; removed in the end.

    With ``keep`` it stays, and is a box like any other from then on. A failure to make it leaves nothing.
    ``Refused`` where the tier puts its files into the source repository, or the policy is not what it was.
    """
    _refuse_worktree(of, manifest)
    paths, held = _make(of, manifest, base, purpose)
    done = False
    try:
        yield paths
        done = True
    finally:
        try:
            if keep and done:
                (paths.root / MARK).unlink()
            else:
                with suppress(NoSuchBox):  # somebody removed it meanwhile
                    removal.remove(paths, True)
        finally:
            os.close(held)


def abandoned(paths: BoxPaths) -> bool:
    """Whether a box was made for a try whose maker is gone."""
    try:
        fd = os.open(paths.root / MARK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def _refuse_worktree(of: BoxPaths, manifest: Manifest) -> None:
    if manifest.tier == "workspace":
        raise Refused(
            f"box {of.name} cannot be tried in a fresh box",
            "its tier is workspace: the files of such a box are a worktree of your repository, which what "
            "was accepted would have to enter first",
            f"carry it onto a branch of its own and run there: cloche apply {of.name} --onto NAME",
            code="try-workspace",
        )


def _make(of: BoxPaths, manifest: Manifest, base: Beginning, purpose: str) -> tuple[BoxPaths, int]:
    """The box, made whole or not at all, and the descriptor that holds its mark."""
    text = of.policy.read_bytes()
    policy = canonical.decode(text)
    if canonical.digest(text) != manifest.policy_digest:
        raise Refused(
            f"box {of.name} cannot be tried",
            "its policy.json is not the policy that it was given",
            f"look at who changed {of.policy}: cloche doctor {of.name}",
            code="policy-changed",
        )
    with creation.all_or_nothing(None) as steps:
        paths = _folder(steps, of)
        held = os.open(paths.root / MARK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        steps.done("mark", lambda: os.close(held))
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with store.lock(paths, "try"):
            place = _origin(paths, of, manifest, base)
            write_atomically(paths.policy, text, last=False)
            write_atomically(paths.sources, of.sources.read_bytes(), last=False)
            uid, gid = creation.payload(policy.tier)
            chosen = choice.choose(policy.tree, policy.tier, paths)
            made = manifest._replace(
                name=paths.name,
                repository="",
                git_dir="",
                state=CREATED,
                base=base.commit,
                base_tree=base.tree,
                base_ref="",
                created=time.time(),
                payload_uid=uid,
                payload_gid=gid,
                purpose=purpose,
                expires=None,
                tree_provider=chosen.provider,
                tree_reason=chosen.why,
                detached=True,
                snapshot=None,
                applied=None,
                generation=1,
                journal=None,
                commit="",
                lower_tree="",
                pending=None,
            )
            creation.intend(paths, made)
            steps.done("intent")
            files.make(
                paths, made, place, Base(base.commit, base.tree, manifest.base_ref), policy.history
            )  # fmt: skip
            _stand_alone(paths, of, base)
            steps.done("files")
            creation.commit(paths, made, steps)
    return paths, held


def _folder(steps: creation.Steps, of: BoxPaths) -> BoxPaths:
    """A folder beside that of the box: ``try-NAME``, with a number where there are such already."""
    stem = f"{PREFIX}{of.name}"[: names.LONGEST - 4].rstrip("._-")
    for number in range(1, MOST):
        name = stem if number == 1 else f"{stem}-{number}"
        with suppress(Busy):
            return creation.new_folder(steps, of.repository_key, name)
    raise Busy(
        f"box {of.name} cannot be tried now",
        f"there are {MOST - 1} boxes of earlier tries",
        "remove those that you keep no longer: cloche ls, cloche rm NAME",
        code="name-taken",
    )


def _origin(paths: BoxPaths, of: BoxPaths, manifest: Manifest, base: Beginning) -> Source:
    """The bare repository that has the base, for now by borrowing from the quarantine."""
    root = paths.origin
    form = sources.object_format(base.commit)
    quarantine.make_skeleton(root, quarantine.config(form), borrowed=[of.quarantine / "objects"])
    (root / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "packed-refs").write_text(f"# pack-refs with: sorted\n{base.commit} refs/heads/main\n")
    if base.shallow:
        (root / "shallow").write_bytes(base.shallow)
    return Source("", str(root), str(root))


def _stand_alone(paths: BoxPaths, of: BoxPaths, base: Beginning) -> None:
    """Have the box borrow from the pack of its base, and no more from the box that it comes from."""
    alternates = paths.origin / "objects" / "info" / "alternates"
    packed = borrowing.borrowed(paths)
    write_atomically(alternates, b"".join(quote(os.fsencode(path)) + b"\n" for path in packed), 0o644)
    # Without history the pack has the tree alone.
    content = Git(of.quarantine).run("cat-file", "commit", base.commit)
    Git(paths.origin).run("hash-object", "-w", "-t", "commit", "--stdin", input=content)


def shallow_of(paths: BoxPaths, place: Source | None) -> bytes:
    """Where the history that a box's base comes from is cut, b"" where it is whole."""
    cut = (Path(place.common_dir) if place is not None else paths.origin) / "shallow"
    return cut.read_bytes() if cut.exists() else b""
