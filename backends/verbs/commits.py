"""The commits that were made in a box, from the moment of its proposal to whoever shows or takes them.

They come out as a bundle (git-bundle(1)) that the box's own Git writes, as a session of the box: no Git of
the host is ever started on a box's repository, whose configuration can name programs.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import IDLE, RUNNING
from backends.boxes.manifest import Manifest, load
from backends.errors import Busy, ClocheError, NoSuchBox, Refused, UsageError
from backends.gate.commits.values import MOST_BYTES, Commit, Unfit
from backends.snapshots import BoxCommit, BoxCommits, CheckRow
from backends.trees import quarantine
from backends.trees.borrowing import borrowed
from backends.trees.git import Git

if TYPE_CHECKING:
    from backends.gate.commits.series import Patch
    from backends.verbs.passage import Held
    from backends.verbs.values import SessionHandle

SECONDS = 60.0  # that the box's Git may take for its bundle
LAST_BREATH = 0.5  # seconds; as in backends.verbs.passage
SAID = 2000  # bytes kept of what it says on its error output
LONGEST_REF = 4096
_BLOCK = 1 << 16
# The box is confined, and what it answers is judged outside. The options only keep it from being led astray
# by what the agent set up for its own use.
BUNDLE = (
    "git", "--no-replace-objects", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    "bundle", "create", "--quiet", "-", "HEAD",
)  # fmt: skip


class Gathered(NamedTuple):
    """What a box answered: a bundle, or why there is none."""

    data: bytes
    why: str = ""


def gather(paths: BoxPaths) -> Gathered | None:
    """Ask an idle box for its commits; None where it made none, or is in no state to be proposed.

    Starts its keeper when needed. What the box does wrong is the reason in the answer, never an error.
    """
    manifest = load(paths)
    if manifest.state not in (IDLE, RUNNING) or not _still(paths):
        return None
    start = pinned(paths)
    if start is None or head(paths) == start:
        return None
    if start != manifest.base:
        return Gathered(b"", "the box was given another base since, which its own repository does not know")
    return _bundle(paths, start)


def pinned(paths: BoxPaths) -> str | None:
    """The commit that the box's repository began with; None where it has no history, or none of its own.

    A box at ``workspace`` commits to its branch in the source repository itself.
    """
    folders = borrowed(paths)
    name = folders[0].name if folders else ""
    return name if len(name) in (40, 64) and name.isalnum() else None


def head(paths: BoxPaths) -> str:
    """The commit that HEAD of the box's repository is at, "" where that is not told by two plain files.

    The folder is the box's: each component is opened without following links, and little is read of it.
    """
    try:
        fd = os.open(paths.repo, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        text = _plain(fd, "HEAD", LONGEST_REF)
        if not text.startswith("ref: refs/"):
            return text.strip()
        ref = text[5:].strip()
        loose = _plain(fd, ref, LONGEST_REF)
        if loose:
            return loose.strip()
        for line in _plain(fd, "packed-refs", 1 << 20).splitlines():
            oid, _, name = line.partition(" ")
            if name == ref:
                return oid
        return ""
    finally:
        os.close(fd)


def _plain(folder: int, path: str, limit: int) -> str:
    """A small plain file below an open folder, "" for anything else."""
    held: list[int] = []
    try:
        at = folder
        *above, name = path.split("/")
        for part in above:
            if part in ("", ".", ".."):
                return ""
            at = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            held.append(at)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=at)
        held.append(fd)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return ""
        return os.read(fd, limit).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return ""
    finally:
        for one in reversed(held):
            os.close(one)


def _still(paths: BoxPaths) -> bool:
    """Whether nothing runs in the box. Whoever proposes says so otherwise, with the way on."""
    if liveness.read(paths).kind != "live":
        return True
    from backends.keeper import client
    from backends.verbs.passage import went

    try:
        with client.connect(paths) as keeper:
            until = time.monotonic() + LAST_BREATH
            while keeper.call("stat").get("processes", 0):
                if time.monotonic() > until:
                    return False
                time.sleep(0.02)
    except (NoSuchBox, Busy) as error:
        if not went(paths, error):
            raise
    return True


class _Reader(threading.Thread):
    """Takes what a pipe gives, up to a limit; beyond it closes the pipe, which ends the writer."""

    def __init__(self, limit: int) -> None:
        super().__init__(daemon=True)
        self._fd, self.given = os.pipe2(os.O_CLOEXEC)
        self._limit = limit
        self.parts: list[bytes] = []
        self.size = 0

    def run(self) -> None:
        while self.size <= self._limit and (data := os.read(self._fd, _BLOCK)):
            self.parts.append(data)
            self.size += len(data)
        os.close(self._fd)

    def finish(self) -> bytes:
        """All of it, once the writers are gone."""
        os.close(self.given)
        self.join()
        return b"".join(self.parts)


def _bundle(paths: BoxPaths, base: str) -> Gathered:
    from backends.verbs import sessions
    from backends.verbs.values import Streams

    out, err = _Reader(MOST_BYTES), _Reader(SAID)
    timers: list[threading.Timer] = []

    def bound(session: SessionHandle) -> None:
        timer = threading.Timer(SECONDS, session.signal, (9,))
        timer.daemon = True
        timers.append(timer)
        timer.start()

    out.start()
    err.start()
    failed, status = "", -1
    with open(os.devnull, "rb") as nothing:
        try:
            streams = Streams(nothing.fileno(), out.given, err.given)
            status = sessions.run(paths, [*BUNDLE, f"^{base}"], {}, streams, bound, "").exit
        except ClocheError as error:
            failed = error.why
        finally:
            for timer in timers:
                timer.cancel()
            data, said = out.finish(), err.finish()
    if len(data) > MOST_BYTES:
        return Gathered(b"", f"its commits take more than {MOST_BYTES >> 20} MiB")
    if failed or status != 0:
        lines = said[:SAID].decode("utf-8", "backslashreplace").strip().splitlines()
        why = failed or (lines[-1][:300].removeprefix("fatal: ") if lines else f"exit status {status}")
        return Gathered(b"", f"its own Git gave no bundle of them: {why}")
    return Gathered(data)


def take(paths: BoxPaths, manifest: Manifest, gathered: Gathered | None, tree: str) -> dict[str, Any] | None:
    """Judge what was gathered and keep what passes; what the manifest's snapshot says of it, or None.

    ``tree`` is the proposed snapshot. The caller holds the box's lock.
    """
    if gathered is None:
        return None
    if gathered.why:
        return _said("", 0, gathered.why)
    from backends.gate.commits import intake

    git = _quarantine(paths, manifest)
    place = intake.Place(
        paths.root, borrowed(paths)[0], manifest.base, manifest.base_tree, _variables(manifest)
    )
    try:
        commits = intake.take(git, place, gathered.data)
    except Unfit as unfit:
        return _said("", 0, unfit.why)
    except ClocheError as error:
        return _said("", 0, f"they could not be checked: {error.what}: {error.why}")
    if not commits:
        return None
    top = commits[-1]
    return _said(top.id, len(commits), "" if top.tree == tree else _beyond(git, top, tree))


def _said(top: str, count: int, why: str) -> dict[str, Any]:
    return {"head": top, "count": count, "why": why}


def _beyond(git: Git, top: Commit, tree: str) -> str:
    from backends.evidence.visible import text_of
    from backends.trees import diff

    paths = [text_of(change.path) for change in diff.changes(git, top.tree, tree)]
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f"the proposal holds what the last commit {top.id[:12]} does not: {', '.join(paths[:3])}{more}"


def _variables(manifest: Manifest) -> dict[str, str]:
    from backends.gate import merging

    return {} if manifest.detached else merging.shallow_of(Path(manifest.git_dir))


def _quarantine(paths: BoxPaths, manifest: Manifest) -> Git:
    return quarantine.git(paths).with_variables(_variables(manifest))


def shown(paths: BoxPaths, manifest: Manifest, snapshot: dict[str, Any]) -> BoxCommits | None:
    """The commits of a proposal as everybody is shown them; None where the box made none."""
    said = snapshot.get("commits")
    if said is None:
        return None
    rows: tuple[BoxCommit, ...] = ()
    if said["head"]:
        rows = tuple(map(_row, kept(paths, manifest, snapshot)))
    return BoxCommits(said["head"], rows, not said["why"], said["why"])


def kept(paths: BoxPaths, manifest: Manifest, snapshot: dict[str, Any]) -> tuple[Commit, ...]:
    """The commit objects of a proposal, oldest first; empty where none were taken in."""
    said = snapshot.get("commits")
    if said is None or not said["head"]:
        return ()
    from backends.gate.commits import intake

    try:
        return intake.read(_quarantine(paths, manifest), said["head"], snapshot["base"])
    except Unfit as unfit:
        raise ClocheError(
            f"the commits of box {paths.name} cannot be read",
            unfit.why,
            f"look at who changed {paths.quarantine}; propose again: cloche reopen {paths.name}",
            code="commits-changed",
        ) from unfit


def _row(commit: Commit) -> BoxCommit:
    from backends.evidence.visible import text_of

    return BoxCommit(
        commit.id,
        commit.tree,
        commit.parents,
        text_of(commit.subject),
        text_of(commit.message),
        text_of(commit.author.name),
        text_of(commit.author.email),
        float(commit.author.seconds),
        text_of(commit.committer.name),
        text_of(commit.committer.email),
        float(commit.committer.seconds),
        commit.encoding,
    )


def refusal_of(snapshot: dict[str, Any], manifest: Manifest, paths: BoxPaths) -> str:
    """Why the commits of a proposal cannot be kept, "" when they can."""
    said = snapshot.get("commits")
    if said is not None:
        return str(said["why"])
    if manifest.tier == "workspace":
        return f"at the tier workspace they lie on the branch cloche/{paths.name} of your repository already"
    if pinned(paths) is None:
        return "the box was given no history to go on from"
    return "it made none"


def to_keep(held: Held, *, part: bool, squash: bool) -> tuple[BoxCommit, ...]:
    """The commits of the proposal, to be applied as they are. ``Refused`` where they cannot be.

    ``part``: a selection would be applied; ``squash``: as one commit.
    """
    paths, manifest = held.paths, held.manifest
    assert manifest.snapshot is not None
    whole = f"take all as one commit that the gate writes: cloche apply {paths.name}"
    if squash:
        raise UsageError(
            "commits are kept or squashed, not both",
            "--keep-commits and --squash were given",
            "leave out one of them",
            code="usage",
        )
    if part:
        raise Refused(
            f"the commits of box {paths.name} cannot be kept",
            "the review accepts a part of the proposal, and no commit of the box is that part",
            f"accept all of it: cloche accept {paths.name} --all; or apply the part without --keep-commits",
            code="commits-partial",
        )
    why = refusal_of(manifest.snapshot, manifest, paths)
    if why:
        beyond = bool(manifest.snapshot.get("commits") and manifest.snapshot["commits"]["head"])
        again = (
            f"commit the rest in the box: cloche reopen {paths.name}, "
            f"cloche run {paths.name} -- sh -c 'git add -A && git commit -m TEXT', "
            f"cloche propose {paths.name}; or "
            if beyond
            else ""
        )
        raise Refused(
            f"the commits of box {paths.name} cannot be kept",
            why,
            again + whole,
            code="commits-not-kept",
        )
    return tuple(map(_row, kept(paths, manifest, manifest.snapshot)))


def series(held: Held) -> tuple[tuple[Patch, ...], tuple[CheckRow, ...]]:
    """The proposal's commits as mails for ``git am``, and warnings of what only mails on the way hold.
    ``Refused`` where they cannot be kept, or be mails."""
    from backends.gate.commits import series as mails
    from backends.gate.commits import unseen

    paths, manifest = held.paths, held.manifest
    snapshot = manifest.snapshot
    assert snapshot is not None
    why = refusal_of(snapshot, manifest, paths)
    if why:
        raise Refused(
            f"the commits of box {paths.name} cannot be written as a series",
            why,
            f"export one patch: cloche export {paths.name} --out DIR",
            code="commits-not-kept",
        )
    found = kept(paths, manifest, snapshot)
    git = _quarantine(paths, manifest)
    made = mails.make(git, paths.root, snapshot["base"], found, paths.name)
    return made, unseen.mailed(git, snapshot["base_tree"], [unseen.step(one) for one in found])
