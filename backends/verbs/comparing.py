"""Boxes side by side: what each changed, how its tests ended, what it was refused, and who did the same.

Two boxes made the same of a file when mode and object id are equal: the ids are of the bytes, so nothing
needs to be read. Only where a person looks at one file are two quarantines read together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import load
from backends.errors import Refused, UsageError
from backends.evidence import journal
from backends.gate import merging, objects, tried
from backends.gate.evidence import runs
from backends.snapshots import BoxRow, Diff, DiffStat, FileChange, SessionRow
from backends.snapshots_compare import ComparedBox, ComparedFile, Comparison, SuiteRun, Version
from backends.testruns import is_test
from backends.trees import diff as diffs
from backends.trees import quarantine
from backends.verbs import proposal, records

MOST_BOXES = 12
MOST_FILES = 5000
MOST_TESTS = 20
MOST_PATCH = 32 << 20
"""Bytes of the diff of one file between two boxes."""

_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def compare(found: Sequence[tuple[BoxPaths, BoxRow]]) -> Comparison:
    """The boxes side by side; see ``Engine.compare``."""
    _countable([paths.key for paths, _ in found])
    boxes: list[ComparedBox] = []
    changes: list[tuple[FileChange, ...]] = []
    for paths, row in found:
        diff = proposal.live_diff(paths)
        boxes.append(_box(paths, row, diff))
        changes.append(diff.changes)
    files = _files(changes)
    more = max(0, len(files) - MOST_FILES)
    return Comparison(tuple(boxes), files[:MOST_FILES], more, len({box.base for box in boxes}) == 1)


def _countable(keys: list[str]) -> None:
    why = ""
    if len(keys) < 2:
        why = "one box alone is beside nothing"
    elif len(keys) > MOST_BOXES:
        why = f"{len(keys)} boxes were named, and at most {MOST_BOXES} fit beside each other"
    elif len(set(keys)) < len(keys):
        why = "a box was named twice"
    if why:
        raise UsageError("these boxes cannot be compared", why, "cloche compare BOX BOX...", code="usage")


def _box(paths: BoxPaths, row: BoxRow, diff: Diff) -> ComparedBox:
    records.settle(paths)
    digest = records.Digest(paths).refresh()
    sessions = digest.sessions(row.live == "live")
    changes = diff.changes
    git = quarantine.git(paths)
    blobs = [one.new_oid for one in changes if one.new_mode and one.new_mode != objects.GITLINK]
    sizes = objects.sizes(git, blobs)
    manifest = load(paths)
    frozen = manifest.snapshot is not None and manifest.snapshot["id"] == diff.tree
    return ComparedBox(
        row,
        diff.tree,
        frozen,
        diff.base,
        DiffStat(len(changes), sum(c.added or 0 for c in changes), sum(c.deleted or 0 for c in changes)),
        sum(sizes[oid] for oid in blobs),
        len(sessions),
        sum(_seconds(one) or 0.0 for one in sessions),
        _tests(paths, sessions, manifest.snapshot if frozen else None),
        digest.tally(()).total,
        tried.read(paths.journal, diff.tree),
    )


def _tests(
    paths: BoxPaths, sessions: Sequence[SessionRow], snapshot: dict[str, Any] | None
) -> tuple[SuiteRun, ...]:
    """The last test runs, oldest first: those that were asked for, and those that the box started itself."""
    kept = snapshot.get("witness", {}) if snapshot is not None else _kept(paths)
    found = [
        (one.started, SuiteRun(one.argv, one.exit, _seconds(one))) for one in sessions if is_test(one.argv)
    ]
    found += [
        (one.started, SuiteRun(one.argv, one.exit, one.seconds, inside=True)) for one in runs.last_runs(kept)
    ]
    return tuple(run for _, run in sorted(found, key=lambda pair: pair[0])[-MOST_TESTS:])


def _kept(paths: BoxPaths) -> dict[str, Any]:
    seen = runs.Runs()
    for record in journal.read(paths.journal):
        seen.add(record)
    return seen.kept()


def _seconds(session: SessionRow) -> float | None:
    return None if session.ended is None else max(0.0, session.ended - session.started)


def _files(changes: Sequence[tuple[FileChange, ...]]) -> tuple[ComparedFile, ...]:
    """Every path that any box changed, with what each made of it."""
    made: dict[bytes, list[Version | None]] = {}
    count = len(changes)
    for place, rows in enumerate(changes):
        for row in rows:
            made.setdefault(row.path, [None] * count)[place] = Version(
                0, row.status, row.new_mode, row.new_oid if row.new_mode else "", row.added, row.deleted
            )
            if row.status == "R" and row.old_path is not None:
                made.setdefault(row.old_path, [None] * count)[place] = Version(0, "D", 0, "", None, None)
    return tuple(ComparedFile(path, _numbered(made[path])) for path in sorted(made))


def _numbered(versions: Sequence[Version | None]) -> tuple[Version | None, ...]:
    known: dict[tuple[int, str], int] = {}
    return tuple(
        None if one is None else one._replace(number=known.setdefault((one.mode, one.oid), len(known) + 1))
        for one in versions
    )


def between(one: BoxPaths, other: BoxPaths, path: bytes, trees: tuple[str, str]) -> Diff:
    """How one file of a box differs from another's; see ``Engine.between``."""
    for tree in trees:
        if _OID.fullmatch(tree) is None:
            raise Refused(
                "the file cannot be compared", f"{tree[:80]!r} is no object id", "compare the boxes again"
            )
    if len(trees[0]) != len(trees[1]):
        raise Refused(
            "the file cannot be compared",
            "the two boxes' repositories name objects by different hash functions",
            f"look at each: cloche diff {one.name}, cloche diff {other.name}",
            code="other-hash",
        )
    beside = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": merging.alternates(other.quarantine / "objects")}
    git = quarantine.git(one).with_variables(beside)
    words = (*trees, "--", path)
    changes = tuple(diffs.parse(git.run(*diffs.COMMON, "-z", "--raw", "--numstat", *words)))
    oids = [oid for change in changes for oid in _blobs(change)]
    if sum(objects.sizes(git, oids).values()) > MOST_PATCH:
        raise Refused(
            "the file is too large to be compared here",
            f"both versions have more than {MOST_PATCH:,} bytes",
            f"export both and look with a program of your own: cloche export {one.name} --out DIR",
            code="too-large",
        )
    return Diff(trees[0], trees[1], changes, git.run(*diffs.COMMON, *diffs.PATCH, *words), ())


def _blobs(change: FileChange) -> list[str]:
    sides = ((change.old_mode, change.old_oid), (change.new_mode, change.new_oid))
    return [oid for mode, oid in sides if mode and mode != objects.GITLINK]
