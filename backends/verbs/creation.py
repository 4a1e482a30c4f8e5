"""Making a box: base pinned, policy resolved, digested and written before anything writable exists.

Each step says how to take it back; a failure at any of them leaves no branch, reference, folder or worktree.
A process that is killed leaves ``creating.json``, from which ``cloche gc`` takes the same steps back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from backends import trace
from backends.boxes import names, store
from backends.boxes.layout import BoxPaths, state_dir
from backends.boxes.lifecycle import CREATED
from backends.boxes.manifest import VERSION, Manifest, save, write_atomically
from backends.boxes.place import DETACHED, key_of
from backends.errors import Busy, Refused, UsageError
from backends.policy.caveat import caveat
from backends.trees import choice
from backends.trees import source as sources
from backends.trees.values import Source
from backends.verbs.values import NewBox

STEPS = ("folder", "origin", "policy", "intent", "reference", "files", "journal", "manifest")

PAYLOAD_UIDS = 1879048192  # first of the uids that boxes of root run as, far above what systems hand out
PAYLOAD_RANGE = 1 << 20


class Steps:
    """What was done so far and how to take it back. ``after`` is called with each step's name (tests)."""

    def __init__(self, after: Callable[[str], None] | None) -> None:
        self._after = after
        self._undo: list[Callable[[], object]] = []

    def undo(self, undo: Callable[[], object]) -> None:
        """How to take back what is being done."""
        self._undo.append(undo)

    def done(self, step: str, undo: Callable[[], object] | None = None) -> None:
        """Note that ``step`` was taken."""
        if undo is not None:
            self._undo.append(undo)
        trace.point(f"create: {step}")
        if self._after is not None:
            self._after(step)

    def take_back(self, error: BaseException) -> None:
        """Undo everything, latest first; what cannot be undone is noted on ``error``."""
        for undo in reversed(self._undo):
            try:
                undo()
            except Exception as failure:  # noqa: BLE001 (one that fails must not keep the others)
                error.add_note(f"could not be taken back: {failure}; cloche gc tries again")


@contextmanager
def all_or_nothing(after: Callable[[str], None] | None) -> Iterator[Steps]:
    """What is done in the block is taken back when it fails."""
    steps = Steps(after)
    try:
        yield steps
    except BaseException as error:
        steps.take_back(error)
        raise


def create(request: NewBox, cwd: Path, after: Callable[[str], None] | None = None) -> BoxPaths:
    """Make a box; see ``Engine.create``."""
    detached = bool(request.clone) or request.empty
    if request.clone and request.empty:
        raise UsageError(
            "a box is cloned or empty, not both",
            "--clone and --empty were given",
            "leave out one of them",
            code="usage",
        )
    place = None if detached else _place(cwd)
    key = key_of(place) if place else DETACHED
    with ExitStack() as stack, all_or_nothing(after) as steps:
        # Git looks while we import, make the folder and settle the policy.
        looking = None if place is None else stack.enter_context(sources.Resolving(place, request.rev))
        from backends.verbs import files, removal, settlement

        trace.point("create: begun")
        paths = new_folder(steps, key, request.name)
        with store.lock(paths, "new"):
            if place is None:
                place = _origin(steps, paths, request, cwd)
                looking = stack.enter_context(sources.Resolving(place, request.rev))
            assert looking is not None
            settled = settlement.settle(request, place, looking.result, paths, foreign=bool(request.clone))
            base = looking.result()
            write_atomically(paths.policy, settled.text, last=False)
            write_atomically(paths.sources, settled.sources, last=False)
            steps.done("policy")
            if settled.policy.tier == "workspace":
                _branch_is_free(paths, place)
            uid, gid = payload(settled.policy.tier)
            chosen = choice.choose(settled.policy.tree, settled.policy.tier, paths)
            trace.point("create: provider")
            manifest = Manifest(
                name=paths.name,
                repository="" if detached else (place.work_tree or place.common_dir),
                git_dir="" if detached else place.common_dir,
                repository_key=key,
                tier=settled.policy.tier,
                profile=settled.policy.profile,
                state=CREATED,
                base=base.commit,
                base_tree=base.tree,
                base_ref="" if detached else base.ref,
                created=time.time(),
                policy_digest=settled.digest,
                payload_uid=uid,
                payload_gid=gid,
                purpose=request.purpose,
                expires=request.expires,
                detached=detached,
                tree_provider=chosen.provider,
                tree_reason=chosen.why,
                caveat=caveat(settled.policy),
            )
            intend(paths, manifest)
            steps.done("intent")
            keeping = None
            if not detached:
                # Git makes the reference while we make the files: it is there before the box is.
                keeping = stack.enter_context(sources.Keeping(place, paths.name, base))
                steps.undo(partial(_let_go, keeping, manifest))
            alone = settled.policy.tier == "workspace"  # Git is at work on references there as well
            if alone:
                _referred(keeping, steps)
            policy = settled.policy
            files.make(paths, manifest, place, base, policy.history, policy.review.file)
            if not alone:
                _referred(keeping, steps)
            steps.done("files", lambda: removal.release_worktree(paths, manifest))
            commit(paths, manifest, steps)
    return paths


def _referred(keeping: sources.Keeping | None, steps: Steps) -> None:
    if keeping is not None:
        keeping.result()
    steps.done("reference")


def _let_go(keeping: sources.Keeping, manifest: Manifest) -> None:
    from backends.verbs import removal

    if keeping.held():  # otherwise it is another box's
        removal.release_base(manifest)


def _place(cwd: Path) -> Source:
    place = sources.discover(cwd)
    if place is None:
        raise Refused(
            "there is no repository here to make a box of",
            f"{cwd} lies in none",
            "go into a repository, or make a detached box: cloche new --clone URL, cloche new --empty",
            code="no-repository",
        )
    return place


def new_folder(steps: Steps, key: str, name: str) -> BoxPaths:
    """The box's own folder, 0700: whoever makes it first owns the name."""
    parent = state_dir() / key
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not name:
        name = names.readable({paths.name for paths in store.folders(key)})
    paths = BoxPaths(parent / names.check(name))
    try:
        paths.root.mkdir(mode=0o700)
    except FileExistsError as error:
        raise Busy(
            f"there is a box {name} already",
            f"{paths.root} exists",
            f"choose another name, or remove it: cloche rm {name}",
            code="name-taken",
        ) from error
    from backends.verbs import removal

    steps.done("folder", lambda: removal.erase(paths))
    return paths


def _origin(steps: Steps, paths: BoxPaths, request: NewBox, cwd: Path) -> Source:
    """The repository of a detached box, which lies inside the box's folder and is the host's alone."""
    from backends.trees import clone

    if request.clone:
        clone.bare(clone.address(request.clone, cwd), paths.origin)
    else:
        clone.empty(paths.origin)
    steps.done("origin")
    return Source("", str(paths.origin), str(paths.origin))


def _branch_is_free(paths: BoxPaths, place: Source) -> None:
    """Asked before the intent is written, so that taking a box back never takes a branch of the person's."""
    from backends.trees.repo import branch

    name = branch(paths.name).removeprefix("refs/heads/")
    if sources.tip(place, branch(paths.name)):
        raise Busy(
            f"the branch {name} exists already",
            "an earlier box of that name left it, or you made it",
            f"choose another name, or delete it: git branch -D {name}",
            code="branch-exists",
        )


def payload(tier: str) -> tuple[int, int]:
    """The uid and gid of the box's processes: our own, or for root one that no other box has (rule S6)."""
    if os.geteuid() != 0 or tier == "workspace":
        return os.geteuid(), os.getegid()
    taken = {owner for paths in store.folders() if (owner := _owner(paths)) is not None}
    while True:
        uid = PAYLOAD_UIDS + int.from_bytes(os.urandom(4), "big") % PAYLOAD_RANGE
        if uid not in taken:
            return uid, uid


def _owner(paths: BoxPaths) -> int | None:
    """Whom a box's home belongs to; ``None`` while it has none."""
    try:
        return os.lstat(paths.home).st_uid
    except OSError:
        return None


def intend(paths: BoxPaths, manifest: Manifest) -> None:
    """Write down what is about to be made, for ``cloche gc`` after a kill."""
    import json

    from backends.verbs import removal

    text = json.dumps({"version": VERSION, **manifest._asdict()}, indent=1, sort_keys=True)
    write_atomically(paths.root / removal.CREATING, text.encode())


def commit(paths: BoxPaths, manifest: Manifest, steps: Steps) -> None:
    """Journal the creation and give the box its manifest: from here on it exists."""
    from backends.evidence.journal import Journal
    from backends.verbs import passage, removal

    record = Journal(paths.journal).append(
        "created",
        {
            "box": paths.key,
            "who": passage.person(),
            "repository": manifest.repository,
            "base": manifest.base,
            "base_ref": manifest.base_ref,
            "tier": manifest.tier,
            "profile": manifest.profile,
            "policy_digest": manifest.policy_digest,
            "purpose": manifest.purpose,
            "tree_provider": manifest.tree_provider,
            "tree_reason": manifest.tree_reason,
            "detached": manifest.detached,
        },
        sync=True,
    )
    steps.done("journal")
    save(paths, manifest._replace(journal={"count": record.seq, "head": record.hash}))
    steps.done("manifest")
    (paths.root / removal.CREATING).unlink()
