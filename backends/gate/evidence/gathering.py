"""Lock files and secrets of a change, read from the quarantine's objects and examined in a bound process.

Answers are kept in memory by what they are about (two trees; two blobs and a name), since the same change is
asked about for the review, for its part and for the apply.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from backends.gate import content
from backends.gate.evidence import bulk, locks
from backends.gate.evidence.examining import LARGEST, Examining
from backends.gate.objects import FOLDER, GITLINK, SYMLINK, Entry, contents, sizes
from backends.snapshots_evidence import Bulk, Dependency, LockFile, Secret

if TYPE_CHECKING:
    from backends.trees.git import Git

MOST_FILES = 5000
MOST_BYTES = 64 << 20  # of both sides of all texts that are searched
MOST_LOCKS = 50
MOST_SECRETS = 1000
_KEPT = 20_000
_KEPT_WHOLE = 8

Key = tuple[str, str, str, str]
_answers: OrderedDict[Key, dict[str, Any]] = OrderedDict()
_examined: OrderedDict[tuple[str, str], Examined] = OrderedDict()
_bound = [""]  # what bound the last examiner of this process: it made the answers


class Change(NamedTuple):
    """A path and what it was and is; ``None`` for nothing."""

    path: bytes
    old: Entry | None
    new: Entry | None


class Examined(NamedTuple):
    """What the texts of a change say."""

    locks: tuple[LockFile, ...]
    secrets: tuple[Secret, ...]
    unsearched: tuple[tuple[bytes, str], ...]  # path (b"" for what is about all) and the reason
    examiner: str


def examine(git: Git, changes: Sequence[Change], base: Iterable[Entry], trees: tuple[str, str]) -> Examined:
    """Lock files and secrets of ``changes``; ``base`` are all entries of the tree that they start from, and
    ``trees`` the ids of that and of the one that they lead to."""
    kept = _examined.get(trees)
    if kept is not None:
        return kept
    found = _examine(git, changes, base)
    # What failed is kept as well: a bomb costs its time once, and a plan is compared with what follows it.
    _examined[trees] = found
    if len(_examined) > _KEPT_WHOLE:
        _examined.popitem(last=False)
    return found


def _examine(git: Git, changes: Sequence[Change], base: Iterable[Entry]) -> Examined:
    known = {entry.oid for entry in base}
    plain = [one for one in changes if _sides(one)]
    measured = sizes(git, (side.oid for one in plain for side in _sides(one)))
    found_locks: list[LockFile] = []
    secrets: list[Secret] = []
    unsearched: list[tuple[bytes, str]] = []
    with Examining() as examiner:
        read = [one for one in plain if locks.reader(_name(one.path)) is not None]
        for one in read[:MOST_LOCKS]:
            found_locks.append(_lock(git, one, measured, examiner))
        found_locks += [_unread(one.path, f"{MOST_LOCKS} others were examined") for one in read[MOST_LOCKS:]]
        fresh = [one for one in plain if _file(one.new) and one.new and one.new.oid not in known]
        for one, old, new in _texts(git, fresh, measured, unsearched):
            entropy = bulk.bulk_of(one.path, new[: bulk.HEAD], None) is None
            said = _ask(examiner, "secret" if entropy else "secret-bulk", one, old, new)
            for line, kind, shown, named in said["rows"]:
                secrets.append(Secret(one.path, line, kind, shown, named))
            if len(secrets) >= MOST_SECRETS:
                del secrets[MOST_SECRETS:]
                unsearched.append(
                    (b"", f"no more than {MOST_SECRETS} places are listed, and there may be more")
                )
                break
            if examiner.searches is False:
                unsearched.append((b"", said["note"]))
                break
            if said["note"]:
                unsearched.append((one.path, said["note"]))
        told = examiner.confined or examiner.lack
    if told:
        _bound[:] = [told]
    return Examined(tuple(found_locks), tuple(secrets), tuple(unsearched), _bound[0] if plain else "")


def bulk_among(
    git: Git, changes: Sequence[Change], attributes: Entry | None, flagged: frozenset[bytes]
) -> tuple[Bulk, ...]:
    """Changed files that nobody wrote by hand; none of ``flagged``, which somebody has to look at.

    ``attributes`` is the base's own ``.gitattributes``.
    """
    wanted = [side.oid for one in changes for side in _sides(one) if side == one.new]
    rules = None
    if attributes is not None and _file(attributes):
        size = sizes(git, [attributes.oid])
        if size[attributes.oid] <= bulk.MOST_RULES:
            rules = bulk.Attributes(dict(contents(git, size))[attributes.oid])
    texts = {oid: size for oid, size in sizes(git, wanted).items() if size <= content.LARGE}
    heads = {oid: data[: bulk.HEAD] for oid, data in contents(git, texts)}
    found = (
        bulk.bulk_of(one.path, heads.get(one.new.oid, b"") if one.new else b"", rules)
        for one in changes
        if _sides(one) and one.path not in flagged
    )
    return tuple(one for one in found if one is not None)


def _lock(git: Git, one: Change, measured: dict[str, int], examiner: Examining) -> LockFile:
    size = _size(one, measured)
    if size > LARGEST:
        return _unread(one.path, f"it is too large to be read ({size} bytes)")
    blobs = _blobs(git, [one], measured)
    old, new = (blobs.get(side.oid) if side is not None else None for side in (one.old, one.new))
    said = _ask(examiner, "lock", one, old, new)
    counts = said["counts"]
    added, removed, changed, rewritten = (
        counts.get(kind, 0) for kind in ("added", "removed", "changed", "rewritten")
    )
    rows = tuple(Dependency(*row) for row in said["rows"])
    return LockFile(one.path, added, removed, changed, rewritten, rows, said["note"])


def _unread(path: bytes, note: str) -> LockFile:
    return LockFile(path, 0, 0, 0, 0, (), note)


def _texts(
    git: Git, fresh: list[Change], measured: dict[str, int], unsearched: list[tuple[bytes, str]]
) -> Iterator[tuple[Change, bytes, bytes]]:
    """Each text with its old and new content; what is passed over is told in ``unsearched``."""
    left = MOST_BYTES
    group: list[Change] = []
    held = 0
    for number, one in enumerate(fresh):
        size = _size(one, measured)
        if number >= MOST_FILES or size > left:
            said = f"{MOST_FILES} files" if number >= MOST_FILES else f"{MOST_BYTES >> 20} MiB of text"
            unsearched.append(
                (b"", f"{len(fresh) - number} files were not searched: no more than {said} are")
            )
            break
        if size > content.READ_LIMIT:
            unsearched.append((one.path, f"it is too large to be searched ({size} bytes)"))
            continue
        left -= size
        if group and held + size > content.READ_LIMIT:
            yield from _read(git, group, measured)
            group, held = [], 0
        group.append(one)
        held += size
    yield from _read(git, group, measured)


def _read(git: Git, group: list[Change], measured: dict[str, int]) -> Iterator[tuple[Change, bytes, bytes]]:
    blobs = _blobs(git, group, measured)
    for one in group:
        new = blobs[one.new.oid] if one.new is not None else b""
        if not content.is_binary(new):
            yield one, blobs.get(one.old.oid, b"") if one.old is not None else b"", new


def _ask(examiner: Examining, what: str, one: Change, old: bytes | None, new: bytes | None) -> dict[str, Any]:
    """An answer, kept where it tells of the texts and not of how the examiner fared."""
    name = _name(one.path)
    key = (what, name, one.old.oid if one.old else "", one.new.oid if one.new else "")
    if key in _answers:
        _answers.move_to_end(key)
        return _answers[key]
    entropy = what == "secret"
    said = examiner.ask(what.partition("-")[0], name, old, new, entropy=entropy)
    if examiner.searches:
        _answers[key] = said
        if len(_answers) > _KEPT:
            _answers.popitem(last=False)
    return said


def _blobs(git: Git, group: list[Change], measured: dict[str, int]) -> dict[str, bytes]:
    return dict(contents(git, {side.oid: measured[side.oid] for one in group for side in _sides(one)}))


def _size(one: Change, measured: dict[str, int]) -> int:
    return sum(measured[side.oid] for side in _sides(one))


def _sides(one: Change) -> list[Entry]:
    return [side for side in (one.old, one.new) if side is not None and _file(side)]


def _name(path: bytes) -> str:
    return path.rpartition(b"/")[2].decode("utf-8", "replace")


def _file(side: Entry | None) -> bool:
    return side is not None and side.mode not in (GITLINK, FOLDER, SYMLINK)
