"""A bundle that a box made, read into a throw-away repository and judged there; what passes is carried on.

The throw-away repository sees what the box itself could see, the objects that its base reaches, and nothing
else of the source: an object that the source happens to hold (a dropped stash) cannot become part of a commit
by being named. Everything that reads the pack is bound in time, memory and size.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from backends.errors import ClocheError
from backends.gate.commits import bundle, parse
from backends.gate.commits.trees import require_sound
from backends.gate.commits.values import (
    LARGEST_COMMIT,
    LARGEST_OBJECT,
    MOST_BYTES,
    MOST_COMMITS,
    MOST_OBJECTS,
    MOST_SAID,
    MOST_UNPACKED,
    Commit,
    Unfit,
)
from backends.trees.git import Bounds, Git, Output, failure
from backends.trees.quarantine import config, make_skeleton
from backends.trees.source import object_format

BOUNDS = Bounds(cpu=60, memory=1 << 30, file=1 << 30)
INDEX = ("index-pack", "--strict", "--fix-thin", "--threads=1", f"--max-input-size={MOST_BYTES}", "--stdin")


class Place(NamedTuple):
    """Where a bundle is judged and what it is judged against."""

    scratch: Path  # folder in which the throw-away repository is made
    borrowed: Path  # object folder that holds exactly what ``base`` reaches
    base: str
    base_tree: str
    variables: Mapping[str, str]  # for Git, such as the end of a shallow history


def take(quarantine: Git, place: Place, data: bytes) -> tuple[Commit, ...]:
    """The commits of a bundle, oldest first, their objects now in ``quarantine``.

    ``Unfit`` says why it is not taken; nothing of it is kept then. ``ClocheError`` when Git fails where the
    bundle is not to blame.
    """
    found = bundle.parse(data, object_format(place.base))
    if int.from_bytes(found.pack[8:12], "big") > MOST_OBJECTS:
        raise Unfit(f"its bundle holds more than {MOST_OBJECTS} objects")
    with _scratch(place) as git:
        for known in found.known:
            if git.call("cat-file", "-e", known).status != 0:
                raise Unfit(f"its history comes from {known[:12]}, which the base does not reach")
        _index(git, found.pack)
        ids = _ids(git, found.head, place.base)
        wanted = _objects(git, found.head, place.base)
        _no_foreign(git, place, wanted)
        commits = tuple(_commits(git, ids))
        if any(not commit.parents for commit in commits):
            raise Unfit("one of its commits begins a history of its own")
        require_sound(git, place.base_tree, commits)
        _carry(git, quarantine, found.head, place.base)
    return commits


def read(git: Git, head: str, base: str) -> tuple[Commit, ...]:
    """The commits between, oldest first, of a quarantine that holds them since :func:`take`."""
    return tuple(_commits(git, _ids(git, head, base)))


@contextmanager
def _scratch(place: Place) -> Iterator[Git]:
    with tempfile.TemporaryDirectory(prefix="commits-", dir=place.scratch) as folder:
        root = Path(folder, "git")
        make_skeleton(root, config(object_format(place.base)), borrowed=[place.borrowed])
        (root / "HEAD").write_text("ref: refs/heads/none\n")
        yield Git(root, variables=place.variables)


def _index(git: Git, pack: memoryview) -> None:
    done = git.call(*INDEX, input=bytes(pack), bounds=BOUNDS)
    if done.status != 0:
        raise Unfit(f"its bundle does not pass git index-pack --strict: {_said(done)}")


def _said(done: Output) -> str:
    lines = os.fsdecode(done.stderr[-2000:]).strip().splitlines()
    if done.status < 0:
        return f"it was ended by signal {-done.status}, beyond the time it may take"
    return (lines[-1] if lines else f"exit status {done.status}")[:300].removeprefix("fatal: ")


def _ids(git: Git, head: str, base: str) -> list[str]:
    if git.call("merge-base", "--is-ancestor", base, head, bounds=BOUNDS).status != 0:
        raise Unfit(f"its history does not contain the base {base[:12]}")
    args = ("rev-list", "--topo-order", "--reverse", f"--max-count={MOST_COMMITS + 1}", head, f"^{base}")
    done = git.call(*args, bounds=BOUNDS)
    if done.status != 0:
        raise Unfit(f"its history cannot be followed: {_said(done)}")
    ids = done.stdout.decode("ascii").split()
    if len(ids) > MOST_COMMITS:
        raise Unfit(f"it made more than {MOST_COMMITS} commits")
    return ids


def _objects(git: Git, head: str, base: str) -> set[str]:
    """What the head reaches and the base does not; that all of it is there is proved by walking it."""
    done = git.call("rev-list", "--objects", "--no-object-names", head, f"^{base}", bounds=BOUNDS)
    if done.status != 0:
        raise Unfit(f"its bundle is not whole: {_said(done)}")
    return set(done.stdout.decode("ascii").split())


def _no_foreign(git: Git, place: Place, wanted: set[str]) -> None:
    """Nothing but ``wanted`` came along, and all of that within bounds.

    A thin pack is completed with objects of the base: what the borrowed folder holds may be there as well.
    """
    indexes = list((git.objects / "pack").glob("*.idx"))
    carried: set[str] = set()
    for index in indexes:
        fd = os.open(index, os.O_RDONLY | os.O_CLOEXEC)
        try:
            rows = git.run("show-index", f"--object-format={object_format(place.base)}", stdin=fd)
        finally:
            os.close(fd)
        carried.update(line.split(b" ")[1].decode("ascii") for line in rows.splitlines())
    extra = sorted(carried - wanted)
    aside = git.with_variables(
        {"GIT_OBJECT_DIRECTORY": os.fspath(place.borrowed), "GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
    )
    for line in _facts(aside, extra).splitlines():
        if line.endswith(b"missing"):
            raise Unfit(f"its bundle holds {line[:12].decode('ascii')}, which is part of no commit")
    total = said = 0
    for line in _facts(git, sorted(wanted)).splitlines():
        oid, kind, size = line.decode("ascii").split(" ")
        most = LARGEST_COMMIT if kind == "commit" else LARGEST_OBJECT
        if int(size) > most:
            raise Unfit(f"its {kind} {oid[:12]} has {size} bytes, and {most} are taken")
        total += int(size)
        said += int(size) * (kind == "commit")
    if said > MOST_SAID:
        raise Unfit(f"its commits say {said} bytes, and {MOST_SAID} are taken")
    if total > MOST_UNPACKED:
        raise Unfit(f"its objects have {total} bytes, and {MOST_UNPACKED} are taken")


def _facts(git: Git, oids: list[str]) -> bytes:
    if not oids:
        return b""
    listed = "".join(f"{oid}\n" for oid in oids).encode()
    done = git.call("cat-file", "--batch-check", input=listed, bounds=BOUNDS)
    if done.status != 0:
        raise failure(("cat-file",), done)
    return done.stdout


def _commits(git: Git, ids: list[str]) -> Iterator[Commit]:
    if not ids:
        return
    text = git.run("cat-file", "--batch", input="\n".join(ids).encode() + b"\n")
    at = 0
    for oid in ids:
        end = text.index(b"\n", at)
        _, kind, size = text[at:end].split(b" ")
        if kind != b"commit":
            raise Unfit(f"{oid[:12]} is no commit")
        start = end + 1
        at = start + int(size) + 1
        yield parse.parse(oid, text[start : start + int(size)])


def _carry(git: Git, quarantine: Git, head: str, base: str) -> None:
    """Only what the head reaches: packed anew, so that no byte of the box's pack comes along."""
    pack = git.run("pack-objects", "--revs", "--stdout", "-q", input=f"{head}\n^{base}\n".encode())
    done = quarantine.call("index-pack", "--strict", "--stdin", input=pack)
    if done.status != 0:
        raise ClocheError(
            "the box's commits could not be kept",
            _said(done),
            f"look at the disk and the permissions of {quarantine.objects}",
            code="import",
        )
