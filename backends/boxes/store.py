"""All boxes on disk: listing, finding by name, and the one lock of each box."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backends.boxes import liveness, names
from backends.boxes.layout import BoxPaths, state_dir
from backends.boxes.manifest import Manifest, load
from backends.errors import Busy, ClocheError, NoSuchBox, UsageError
from backends.record import NamedTuple


class Entry(NamedTuple):
    """One box found on disk; a damaged one is listed with its error, so that it can be removed."""

    paths: BoxPaths
    manifest: Manifest | None
    error: ClocheError | None


def _folders(parent: Path) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def valid_key(key: str) -> bool:
    """Whether ``key`` can be the folder of a repository's boxes (see ``layout.repository_key``)."""
    return (
        0 < len(key) <= 64
        and key[0] not in ".-"
        and all(c.isascii() and (c.isalnum() or c in "-_.") for c in key)
    )


def folders(repository_key: str | None = None) -> Iterator[BoxPaths]:
    """Every folder that may be a box, with or without a manifest; of one repository, or of all."""
    root = state_dir()
    for key in [repository_key] if repository_key else _folders(root):
        if not valid_key(key):
            continue
        for name in _folders(root / key):
            if not names.problem(name):
                yield BoxPaths(root / key / name)


def entries(repository_key: str | None = None) -> list[Entry]:
    """The boxes of one repository, or of all. A folder without a manifest is not a box (yet)."""
    found = []
    for paths in folders(repository_key):
        try:
            found.append(Entry(paths, load(paths), None))
        except NoSuchBox:
            continue
        except ClocheError as error:
            found.append(Entry(paths, None, error))
    return found


def there(paths: BoxPaths) -> bool:
    """Whether a box lies there; also one whose folder is closed to us, so that others can be told from it."""
    try:
        return paths.manifest.is_file()
    except PermissionError:
        return True


def find(ref: str, repository_key: str | None) -> BoxPaths:
    """The box called ``ref``: ``name`` or ``<repository key>/<name>``.

    A bare name means the box of the repository one stands in; where that has none, the only box of that name
    elsewhere. ``NoSuchBox`` when there is none, ``UsageError`` naming the candidates when there are several.
    """
    key, slash, name = ref.rpartition("/")
    if names.problem(name) or (slash and not valid_key(key)):
        raise NoSuchBox(
            f"there is no box {ref!r}", "that is not a name a box can have", "cloche ls", code="no-such-box"
        )
    root = state_dir()
    if slash:
        paths = BoxPaths(root / key / name)
        if there(paths):
            return paths
        raise NoSuchBox(
            f"there is no box {ref}", f"{paths.root} holds none", "cloche ls --all", code="no-such-box"
        )
    if repository_key:
        paths = BoxPaths(root / repository_key / name)
        if there(paths):
            return paths
    others = [BoxPaths(root / k / name) for k in _folders(root) if valid_key(k)]
    others = [paths for paths in others if there(paths)]
    if not others:
        raise NoSuchBox(
            f"there is no box {name}",
            "no repository has one of that name",
            "cloche ls --all",
            code="no-such-box",
        )
    if len(others) > 1:
        raise UsageError(
            f"the name {name} fits {len(others)} boxes",
            ", ".join(paths.key for paths in others),
            f"give the full key, such as {others[0].key}",
            code="ambiguous",
        )
    return others[0]


def holder(paths: BoxPaths) -> str:
    """What holds the box's lock, in words, from what the holder wrote into it; never decides anything."""
    live = liveness.read(paths)
    if live.kind == "live" and live.keeper:
        return f"its keeper (pid {live.keeper.pid}) is live"
    value = _written(paths)
    if isinstance(value.get("verb"), str):
        return f"cloche {value['verb']} (pid {value.get('pid', '?')}) is at work on it"
    return "another command is at work on it"


def verb_of(paths: BoxPaths) -> str:
    """The verb that took the box's lock last, as it wrote there; "keeper" for one that starts or lives."""
    return str(_written(paths).get("verb", ""))


def starting(paths: BoxPaths) -> bool:
    """Whether a keeper holds the box's lock that has not told yet that it lives."""
    value = _written(paths)
    pid = value.get("pid")
    if value.get("verb") != "keeper" or not isinstance(pid, int) or liveness.start_time(pid) is None:
        return False
    live = liveness.read(paths)
    return live.kind != "live" and (live.keeper is None or live.keeper.pid != pid) and held(paths)


def _written(paths: BoxPaths) -> dict[str, Any]:
    try:
        value = json.loads(paths.lock.read_bytes() or b"{}")
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def take(paths: BoxPaths, verb: str) -> int:
    """Take the lock and return its descriptor; ``Busy`` when somebody holds it. Closing releases it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(paths.lock, flags, 0o600)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoSuchBox(
            f"there is no box {paths.name}", f"{paths.root} is gone", "cloche ls", code="no-such-box"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A removal may have unlinked the file between our open and our lock: such a lock protects nothing.
        named = paths.lock.lstat()
        if (named.st_dev, named.st_ino) != ((mine := os.fstat(fd)).st_dev, mine.st_ino):
            raise FileNotFoundError
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps({"verb": verb, "pid": os.getpid()}).encode(), 0)
    except BlockingIOError as error:
        os.close(fd)
        raise Busy(
            f"box {paths.name} is busy",
            holder(paths),
            f"try again, or see cloche status {paths.name}",
            code="locked",
        ) from error
    except FileNotFoundError as error:
        os.close(fd)
        raise NoSuchBox(
            f"there is no box {paths.name}", "it was just removed", "cloche ls", code="no-such-box"
        ) from error
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextmanager
def lock(paths: BoxPaths, verb: str) -> Iterator[None]:
    """Hold the box's lock for one verb, without waiting; a crash releases it with the process."""
    fd = take(paths, verb)
    try:
        yield
    finally:
        os.close(fd)


def held(paths: BoxPaths) -> bool:
    """Whether somebody holds the lock at this moment; leaves nothing behind."""
    try:
        fd = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
