"""Giving boxes up and deleting them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from backends.boxes import liveness, manifest, store
from backends.boxes.layout import BoxPaths, state_dir
from backends.boxes.lifecycle import ABORTED, APPLIED, RUNNING, require
from backends.boxes.manifest import Manifest
from backends.errors import Busy, ClocheError, Refused
from backends.trees.remove import remove as delete
from backends.trees.values import Source
from backends.verbs import passage, sessions

if TYPE_CHECKING:
    from backends.snapshots import RemovalOutcome  # with all that screens show, and on the path of `new`

_Subject = TypeVar("_Subject")

CREATING = "creating.json"  # the manifest of a box that is being made; renamed to manifest.json at the end
BEGINNING = 60.0  # seconds; by then whoever makes a box has its lock, however busy the host
REMOVING = ".removing-"  # prefix of a folder that is being deleted; no box can have such a name


def abort(paths: BoxPaths, why: str) -> None:
    """Give the box up: its processes end, its files and evidence stay until it is removed."""
    state = manifest.load(paths).state
    if state != RUNNING:
        require(paths.name, state, "abort")
    sessions.stop(paths)
    with passage.holding(paths, "abort") as held:
        require(paths.name, held.manifest.state, "abort")
        held.move(ABORTED, why or "given up")


def remove(paths: BoxPaths, force: bool) -> str:
    """Delete the box; see ``Engine.remove``. What to tell the person about it."""
    try:
        known: Manifest | None = manifest.load(paths)
    except Refused:
        if not force:
            raise
        known = None
    if force:
        sessions.stop(paths)
    elif liveness.read(paths).kind == "live" and known and known.state == RUNNING:
        raise Busy(
            f"box {paths.name} is live",
            "its processes run",
            f"end them first: cloche stop {paths.name}, or cloche rm --force {paths.name}",
            code="live",
        )
    if known is None:
        with store.lock(paths, "rm"):
            erase(paths)
        return "removed; its manifest was damaged, so references in its repository may be left"
    with passage.holding(paths, "rm", end_idle=not force) as held:
        require(paths.name, held.manifest.state, "rm")
        held.record(
            "transition",
            {"from": held.manifest.state, "to": "removed", "who": passage.person(), "why": "rm"},
        )
        tip = release(paths, held.manifest)
        erase(paths)
    return f"removed; its branch was at {tip}" if tip and tip != held.manifest.base else "removed"


def release(paths: BoxPaths, known: Manifest) -> str:
    """Take back what the box left in its source repository; the branch tip of a linked worktree, or ""."""
    release_base(known)
    return release_worktree(paths, known)


def _source(known: Manifest) -> Source | None:
    if known.detached or not Path(known.git_dir).is_dir():
        return None
    return Source(known.repository, known.git_dir, known.git_dir)


def release_base(known: Manifest) -> None:
    """Delete the references that kept the base and the journal's anchor."""
    from backends.trees import source

    where = _source(known)
    if where is not None:
        source.release(where, known.name, known.base)


def release_worktree(paths: BoxPaths, known: Manifest) -> str:
    """Of a box of tier ``workspace``: its entry and branch; the commit that the branch was at, or ""."""
    from backends.trees import worktree

    if known.tier != "workspace":
        return ""
    where = _source(known)
    return worktree.release(paths, where) if where is not None else ""


def erase(paths: BoxPaths) -> None:
    """Take the folder out of every list with one rename, then delete it."""
    away = paths.root.with_name(f"{REMOVING}{paths.name}-{os.urandom(4).hex()}")
    paths.root.rename(away)
    delete(away)
    _drop_socket(paths)
    _drop_if_empty(away.parent)


def _drop_socket(paths: BoxPaths) -> None:
    from backends.boxes.layout import socket_path

    socket_path(paths).unlink(missing_ok=True)


def _drop_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # other boxes of the repository live there


def _outcome(
    box: str, act: Callable[[_Subject], str | None], subject: _Subject, detail: str
) -> RemovalOutcome:
    from backends.snapshots import RemovalOutcome

    try:
        said = act(subject)
    except ClocheError as error:
        return RemovalOutcome(box, False, error.why, error.as_dict())
    return RemovalOutcome(box, True, ": ".join(filter(None, (detail, said))), None)


def remove_many(
    refs: Sequence[str], find: Callable[[str], BoxPaths], force: bool
) -> tuple[RemovalOutcome, ...]:
    """Remove each; one that fails does not keep the others."""
    return tuple(_outcome(ref, lambda r: remove(find(r), force), ref, "") for ref in refs)


def collect(repository_key: str | None) -> tuple[RemovalOutcome, ...]:
    """Remove finished boxes and what a killed ``new``, ``try`` or ``rm`` left; other boxes stay."""
    from backends.verbs import trial_box

    done: list[RemovalOutcome] = []
    for paths in list(store.folders(repository_key)):
        if not store.there(paths):
            if not (store.held(paths) or _just_begun(paths)):
                done.append(_outcome(paths.key, undo, paths, "was never finished; removed"))
            continue
        try:
            state = manifest.load(paths).state
        except ClocheError:
            continue  # damaged: ls shows it, rm --force removes it
        if state in (APPLIED, ABORTED):
            done.append(_outcome(paths.key, lambda p: remove(p, False), paths, f"was {state}"))
        elif trial_box.abandoned(paths):
            done.append(_outcome(paths.key, lambda p: remove(p, True), paths, "was a try that was killed"))
    root = state_dir()
    for parent in [root / repository_key] if repository_key else sorted(root.glob("*")):
        for left in sorted(parent.glob(f"{REMOVING}*")):
            done.append(_outcome(f"{parent.name}/{left.name}", delete, left, "was half removed; removed"))
    from backends.keeper import start

    start.sweep()  # not worth a row: three files, of which two are empty
    return (*done, *_stale_probes(), *_containers(), *_guests(), *_prune_packs(), *_prune_layers())


def _just_begun(paths: BoxPaths) -> bool:
    """Whether somebody may be between making the folder and taking the lock in it."""
    try:
        return not os.path.lexists(paths.lock) and time.time() - paths.root.stat().st_mtime < BEGINNING
    except FileNotFoundError:
        return False  # it was taken back meanwhile


def _stale_probes() -> list[RemovalOutcome]:
    """Remove what a probe left that was killed, with the workbench or the command that ran it."""
    from backends.host import probes

    return [
        _outcome(folder.name, delete, folder, "was a probe that was killed; removed")
        for folder in probes.stale()
    ]


def _containers() -> tuple[RemovalOutcome, ...]:
    """Remove what crashes left of containers. A box that runs or is about to holds its lock."""
    from backends.snapshots import RemovalOutcome

    name = "containers"
    try:
        from backends.container import images_sweep, leftovers

        count = leftovers.sweep(paths for paths in store.folders() if store.held(paths))
        count += images_sweep.sweep()
    except (ClocheError, OSError) as error:
        failure = ClocheError(
            "containers were not removed", str(error), "cloche doctor", code="container-left"
        )
        return (RemovalOutcome(name, False, failure.why, failure.as_dict()),)
    told = f"{count} leftovers of boxes and images that nobody is at; removed"
    return (RemovalOutcome(name, True, told, None),) if count else ()


def _guests() -> tuple[RemovalOutcome, ...]:
    """Remove what crashes left of virtual machines: files of launches."""
    from backends.snapshots import RemovalOutcome

    name = "guests"
    try:
        from backends.microvm import launching

        count = launching.sweep(paths for paths in store.folders() if store.held(paths))
    except (ClocheError, OSError) as error:
        failure = ClocheError(
            "files of guests were not removed", str(error), "cloche doctor", code="guest-left"
        )
        return (RemovalOutcome(name, False, failure.why, failure.as_dict()),)
    return (RemovalOutcome(name, True, f"{count} that no live box has; removed", None),) if count else ()


def _prune_packs() -> tuple[RemovalOutcome, ...]:
    """Remove cached packs that no box borrows any more; with a box that cannot be asked, none."""
    from backends.snapshots import RemovalOutcome
    from backends.trees import borrowing, packs

    name = "cached packs"
    try:
        used = {folder for paths in store.folders() for folder in borrowing.borrowed(paths)}
        count = packs.prune(used)
    except (OSError, ValueError, KeyError) as error:
        failure = ClocheError(
            "cached packs were not removed", str(error), "cloche doctor", code="packs-not-removed"
        )
        return (RemovalOutcome(name, False, failure.why, failure.as_dict()),)
    return (RemovalOutcome(name, True, f"{count} that no box borrows; removed", None),) if count else ()


def _prune_layers() -> tuple[RemovalOutcome, ...]:
    """Remove shared layers that no box names any more; with a box that cannot be asked, none."""
    from backends.snapshots import RemovalOutcome
    from backends.trees import layers

    name = "shared layers"
    try:
        live = any(liveness.read(paths).kind in ("live", "lost") for paths in store.folders())
        count = layers.prune(
            lambda: {tree for paths in store.folders() for tree in layers.used(paths)}, live=live
        )
    except (ClocheError, OSError, ValueError, KeyError) as error:
        failure = ClocheError(
            "shared layers were not removed", str(error), "cloche doctor", code="layers-not-removed"
        )
        return (RemovalOutcome(name, False, failure.why, failure.as_dict()),)
    return (RemovalOutcome(name, True, f"{count} that no box names; removed", None),) if count else ()


def undo(paths: BoxPaths) -> None:
    """Remove a box that a killed ``new`` left unfinished, with its references in the source repository."""
    with store.lock(paths, "gc"):
        if paths.manifest.exists():
            return  # it was finished in the meantime
        intent = paths.root / CREATING
        if intent.exists():
            release(paths, manifest.parse(paths, intent.read_bytes()))
        erase(paths)
