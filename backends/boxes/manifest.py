"""``manifest.json``: what a box is, written by whoever holds the box's lock.

While a keeper lives it holds the lock and is the only writer; otherwise the verb that took the lock is.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.errors import NoSuchBox, Refused
from backends.record import NamedTuple

VERSION = 1


class Manifest(NamedTuple):
    """The facts of one box. Fields are the keys of ``manifest.json``, which adds ``version``."""

    name: str
    repository: str  # work tree of the source repository, "" for a detached box
    git_dir: str  # its common git directory, "" for a detached box
    repository_key: str
    tier: str
    profile: str
    state: str
    base: str  # commit id
    base_tree: str
    base_ref: str  # branch that the base was taken from, "" when detached
    created: float
    policy_digest: str
    payload_uid: int
    payload_gid: int
    purpose: str = ""
    expires: float | None = None
    tree_provider: str = "checkout"
    tree_reason: str = ""  # why this provider, as it was decided when the box was made
    detached: bool = False
    snapshot: dict[str, Any] | None = None  # id, base, base_tree, created, stat [files, added, deleted]
    applied: dict[str, Any] | None = None  # the last ApplyOutcome, scripted, and what unapply needs
    generation: int = 1
    journal: dict[str, Any] | None = None  # count, head: the anchor outside the journal (rule S19)
    commit: str = ""  # the commit that apply made
    lower_tree: str = ""  # tree under an overlay's changes, where that is not ``base_tree``
    request: dict[str, Any] | None = None  # what was asked of the last proposal, until the next one
    pending: dict[str, Any] | None = None  # another base that is being given (backends.verbs.rebasing)
    caveat: str = ""  # that its policy promises less than the tier: backends.policy.caveat

    @property
    def under(self) -> str:
        """The tree over which an overlay lays the box's changes; it stays when the base moves on."""
        return self.lower_tree or self.base_tree


_REQUIRED = tuple(f for f in Manifest._fields if f not in Manifest._field_defaults)


def _damaged(paths: BoxPaths, why: str) -> Refused:
    return Refused(
        f"the manifest of box {paths.name} cannot be used",
        why,
        f"cloche doctor {paths.name}, or remove the box: cloche rm --force {paths.name}",
        code="manifest",
    )


def parse(paths: BoxPaths, data: bytes) -> Manifest:
    """The manifest in ``data``; ``Refused`` for another version, a missing key or a value of another type."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise _damaged(paths, f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _damaged(paths, "it is not a JSON object")
    if value.get("version") != VERSION:
        raise _damaged(
            paths, f"it has version {value.get('version')!r} and this Cloche reads version {VERSION}"
        )
    missing = [key for key in _REQUIRED if key not in value]
    if missing:
        raise _damaged(paths, f"the key {missing[0]!r} is missing")
    for key in _REQUIRED:
        expected = {"created": (int, float), "payload_uid": (int,), "payload_gid": (int,)}.get(key, (str,))
        if not isinstance(value[key], expected) or isinstance(value[key], bool):
            raise _damaged(paths, f"the key {key!r} has a value of the wrong type")
    return Manifest(**{key: value[key] for key in Manifest._fields if key in value})


_Seen = tuple[int, int, int, int]
_kept: dict[str, tuple[_Seen, Manifest]] = {}
_MOST = 512
_YOUNG = 100_000_000  # ns; change times are as coarse as the kernel's tick


def _seen(status: os.stat_result) -> _Seen:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def load(paths: BoxPaths) -> Manifest:
    """Read the manifest; ``NoSuchBox`` when there is none, ``Refused`` when it is damaged.

    One that lies there as it did when it was parsed last is not parsed again: it is only ever replaced by
    another file, and a screen of boxes looks at all of them twice a second.
    """
    path = paths.manifest
    name = os.fspath(path)
    try:
        known = _kept.get(name)
        if known is not None and known[0] == _seen(path.stat()):
            return known[1]
        with open(name, "rb") as file:
            seen = _seen(os.fstat(file.fileno()))
            data = file.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoSuchBox(
            f"there is no box {paths.name}",
            f"{paths.root} holds no manifest",
            "cloche ls",
            code="no-such-box",
        ) from error
    except PermissionError as error:
        raise _damaged(paths, f"{error.filename} cannot be read: {error.strerror}") from error
    made = parse(paths, data)
    if time.time_ns() - seen[3] < _YOUNG:
        return made  # written to once more now, it could look the same
    if len(_kept) >= _MOST:
        _kept.clear()
    _kept[name] = (seen, made)
    return made


def write_atomically(
    path: Path, data: bytes, mode: int = 0o600, *, durable: bool = True, last: bool = True
) -> None:
    """Write ``data`` so that a crash leaves the old file or the new one: temp, fsync, rename, fsync.

    Without ``durable`` that holds for a crash of this process, not for one of the host. Of several files in
    one folder only the ``last`` needs to make its name, and with it theirs, last.
    The temporary name is fixed, so that a crash leaves at most one of it: writers hold the box's lock.
    """
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if durable:
            os.fsync(fd)
    except BaseException:
        temporary.unlink()
        raise
    finally:
        os.close(fd)
    temporary.rename(path)
    if not durable or not last:
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def save(paths: BoxPaths, manifest: Manifest, *, durable: bool = True) -> None:
    """Replace the manifest. The caller holds the lock, and saves again what it did not save for good."""
    value = {"version": VERSION, **manifest._asdict()}
    text = json.dumps(value, indent=1, sort_keys=True) + "\n"
    write_atomically(paths.manifest, text.encode(), durable=durable)
