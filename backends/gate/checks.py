"""The checks that a proposed tree must pass: what is refused, naming the path, and what a reviewer must see.

They look at tree objects in the quarantine only, so what they judged is what is exported and applied. A check
that found nothing leaves a row that says so: a reviewer sees what was looked for.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

from backends.errors import Refused
from backends.evidence.visible import hidden, name_of, text_of
from backends.gate import content, installs, lfs
from backends.gate.evidence.gathering import Change, Examined, examine
from backends.gate.evidence.told import lock_line
from backends.gate.objects import FOLDER, GITLINK, Entry, contents, listing, sizes
from backends.gate.rows import REFUSED, WARNED, Rows
from backends.gate.settings import changed_settings
from backends.gate.structure import check_links, check_shape
from backends.gate.watchlist import watched
from backends.snapshots import CheckRow
from backends.trees.names import embedded_repositories

if TYPE_CHECKING:
    from backends.trees.git import Git

_NEVER_CARRIED = ("fifo", "pipe", "socket")  # which Git leaves out of every commit as well


class _Change:
    """A path whose entry differs between base and proposal; folders are not among them."""

    def __init__(self, path: bytes, old: Entry | None, new: Entry | None) -> None:
        self.path = path
        self.old = old
        self.new = new

    def is_file(self, side: Entry | None) -> bool:
        return side is not None and side.mode not in (GITLINK, FOLDER)


def run_checks(
    git: Git,
    base_tree: str,
    snapshot_tree: str,
    *,
    skipped: Iterable[tuple[bytes, str]] = (),
    findings: Iterable[tuple[str, bytes, str]] = (),
    unlisted: int = 0,
    whole: str = "",
) -> tuple[CheckRow, ...]:
    """Every check on one proposal. ``git`` reads the quarantine.

    ``skipped`` are the paths that the snapshot left out, with the reason, and ``findings`` what the reader of
    the box saw beside the tree (:class:`backends.trees.values.Finding`): an object cannot show either.
    ``unlisted`` is the number of both beyond those that are listed. ``whole`` is the snapshot that they
    belong to where ``snapshot_tree`` is a part of it.
    """
    base, tree = listing(git, base_tree), listing(git, snapshot_tree)
    changes = [
        _Change(path, base.entries.get(path), tree.entries.get(path))
        for path in sorted(base.entries.keys() | tree.entries.keys())
        if base.entries.get(path) != tree.entries.get(path)
    ]
    changes = [c for c in changes if not {c.old and c.old.mode, c.new and c.new.mode} <= {FOLDER, None}]

    def about(path: bytes | None) -> str:
        if path is None:
            return snapshot_tree
        entry, before = tree.entries.get(path), base.entries.get(path)
        if entry is not None:
            return f"{entry.mode:o} {entry.oid}"
        return f"without {before.mode:o} {before.oid}" if before is not None else whole or snapshot_tree

    rows = Rows(about)
    known = frozenset(embedded_repositories(base.entries))
    check_shape(rows, base.entries, tree.entries, tree.repeated, known)
    check_links(rows, git, base.entries, tree.entries)
    _check_left_out(rows, skipped, findings, known)
    if unlisted:
        rows.add(
            "unread", REFUSED, f"{unlisted} more paths were left out or stand out and are not listed", None
        )
    for change in changes:
        _check_change(rows, change)
    _check_contents(rows, git, changes)
    texts = [Change(one.path, one.old, one.new) for one in changes]
    _check_texts(rows, examine(git, texts, base.entries.values(), (base_tree, snapshot_tree)))
    return rows.finish()


def refusals(rows: Iterable[CheckRow]) -> tuple[CheckRow, ...]:
    """The rows that stop an export or an apply."""
    return tuple(row for row in rows if row.verdict == REFUSED)


def standing(rows: Iterable[CheckRow], acknowledged: Container[str]) -> tuple[CheckRow, ...]:
    """The warnings that nobody acknowledged, whose keys are not in ``acknowledged``: they stop an apply."""
    return tuple(row for row in rows if row.verdict == WARNED and row.key not in acknowledged)


def require_acknowledged(rows: Sequence[CheckRow], box: str) -> None:
    """Raise ``Refused`` naming the warnings of ``rows`` (the first ten); nothing when there are none."""
    if not rows:
        return
    said = [f"{row.key[:8]} {_named(row)}" for row in rows[:10]]
    if len(rows) > 10:
        said.append(f"and {len(rows) - 10} more")
    raise Refused(
        f"box {box} was not applied",
        "nobody acknowledged what the gate warns of: " + "; ".join(said),
        f"read it, then: cloche apply {box} --acknowledge KEY, or --acknowledge all",
        code="warnings-unacknowledged",
    )


def _named(row: CheckRow) -> str:
    return f"{text_of(row.path)}: {row.reason}" if row.path is not None else row.reason


def require(rows: Sequence[CheckRow], act: str, box: str = "BOX") -> None:
    """Raise ``Refused`` naming every path that a check refused (the first ten), nothing when none did.

    ``box`` is how the proposed commands name the box.
    """
    refused = refusals(rows)
    if not refused:
        return
    said = [_named(row) for row in refused[:10]]
    if len(refused) > 10:
        said.append(f"and {len(refused) - 10} more")
    raise Refused(
        f"the gate refuses to {act} this proposal",
        "; ".join(said),
        f"cloche reopen {box}, remove or rename these in the box, then cloche propose {box}",
        code="gate-refused",
    )


def _check_left_out(
    rows: Rows,
    skipped: Iterable[tuple[bytes, str]],
    findings: Iterable[tuple[str, bytes, str]],
    known: frozenset[bytes],
) -> None:
    for path, reason in skipped:
        if any(word in reason.lower() for word in _NEVER_CARRIED):
            rows.add("special-file", WARNED, reason, path)
        else:
            rows.add("special-file" if "device" in reason.lower() else "unread", REFUSED, reason, path)
    for kind, path, text in findings:
        if kind.endswith("-repository"):
            if kind == "embedded-repository" and path in known:
                continue
            rows.add("repository", REFUSED, text, path)
        else:
            rows.add("submodule" if kind == "submodule" else "box-finding", WARNED, text, path)


def _check_change(rows: Rows, change: _Change) -> None:
    path, old, new = change.path, change.old, change.new
    modes = (old.mode if old else 0, new.mode if new else 0)
    if modes[1] == GITLINK:
        rows.add("submodule", REFUSED, "moves a submodule, whose commits do not travel in a patch", path)
    elif modes[0] == GITLINK:
        rows.add("submodule", WARNED, "removes a submodule", path)
    if change.is_file(new) and change.is_file(old) and (modes[0] ^ modes[1]) == 0o111:
        rows.add(
            "executable", WARNED, "became executable" if modes[1] & 0o111 else "is executable no more", path
        )
    elif modes[1] == 0o100755 and not change.is_file(old):
        rows.add("executable", WARNED, "is a new executable file", path)
    for watch in watched(path):
        rows.add(watch.check, WARNED, watch.reason + (", and is removed" if new is None else ""), path)
    characters = hidden(path.decode("utf-8", "surrogateescape")) if new else ()
    if characters:
        rows.add("invisible-name", WARNED, "holds " + ", ".join(map(name_of, characters[:4])), path)


def _check_texts(rows: Rows, found: Examined) -> None:
    for lock in found.locks:
        if lock.note:
            rows.add("lock-file", WARNED, f"what it changes is not known: {lock.note}", lock.path)
        elif not watched(lock.path):
            rows.add("lock-file", WARNED, f"pins what is installed: {lock_line(lock)}", lock.path)
        if lock.rewritten:
            said = ", ".join(row.name[:80] for row in lock.rows[:3])
            more = f" and {lock.rewritten - 3} more" if lock.rewritten > 3 else ""
            what = f"the same version from elsewhere or with another hash: {said}{more}"
            rows.add("lock-file", WARNED, what, lock.path)
    for secret in found.secrets:
        if secret.named:
            said = f"line {secret.line} may hold a secret: {secret.kind}, {secret.shown}"
            rows.add("secret", WARNED, said, secret.path)
    for path, why in found.unsearched:
        rows.add("secret", WARNED, f"was not searched for secrets: {why}" if path else why, path or None)


def _check_contents(rows: Rows, git: Git, changes: list[_Change]) -> None:
    files = [c for c in changes if c.is_file(c.new) or c.is_file(c.old)]
    known = sizes(git, (side.oid for c in files for side in (c.old, c.new) if side and side.mode != GITLINK))
    for change in files:
        size = known[change.new.oid] if change.new and change.is_file(change.new) else 0
        if size >= content.LARGE:
            rows.add("large", WARNED, f"is {size / 1048576:.1f} MiB large", change.path)
    for group in _groups(files, known):
        wanted = {
            side.oid: known[side.oid] for c in group for side in (c.old, c.new) if side and side.oid in known
        }
        blobs = dict(contents(git, {o: s for o, s in wanted.items() if s <= content.READ_LIMIT}))
        for change in group:
            _check_file(rows, change, blobs)


def _groups(files: list[_Change], known: dict[str, int]) -> Iterable[list[_Change]]:
    """Changes in groups whose blobs fit into memory together."""
    group: list[_Change] = []
    held = 0
    for change in files:
        size = sum(min(known.get(s.oid, 0), content.READ_LIMIT) for s in (change.old, change.new) if s)
        if group and held + size > 2 * content.READ_LIMIT:
            yield group
            group, held = [], 0
        group.append(change)
        held += size
    if group:
        yield group


def _check_file(rows: Rows, change: _Change, blobs: dict[str, bytes]) -> None:
    path = change.path
    old = blobs.get(change.old.oid) if change.old and change.is_file(change.old) else None
    new = blobs.get(change.new.oid) if change.new and change.is_file(change.new) else None
    name = path.rsplit(b"/", 1)[-1].decode("utf-8", "surrogateescape").lower()
    kinds = {watch.check for watch in watched(path)}
    if name == "package.json":
        for said in changed_settings(name, old, new):
            rows.add("package-script", WARNED, said[:500], path)
    if installs.is_lock(name) and change.new is not None and change.is_file(change.new):
        unread = new is None and ("is too large to be searched for packages that run programs",)
        for said in unread or installs.new_scripts(name, old, new):
            rows.add("package-script", WARNED, said[:500], path)
    for check in sorted(kinds & {"policy", "agent-config"}):
        for said in changed_settings(name, old, new):
            rows.add(check, WARNED, said[:500], path)
    pointer = lfs.said(old, new)
    if pointer:
        rows.add("lfs", WARNED, pointer, path)
    if change.new is None or not change.is_file(change.new):
        return
    if new is None:
        rows.add("invisible-text", WARNED, "is too large for its lines to be read", path)
        return
    if content.is_binary(new):
        rows.add("binary", WARNED, "is binary: nobody can read it in a diff", path)
        return
    if change.old is not None and change.old.oid == change.new.oid:
        return
    marks = content.conflict_lines(old or b"", new)
    if marks:
        more = f", and {len(marks) - 1} more" if len(marks) > 1 else ""
        rows.add(
            "conflict-mark", WARNED, f"line {marks[0]} begins a conflict that was not solved{more}", path
        )
    found = list(content.invisible_lines(old or b"", new))
    if found:
        number, names = found[0]
        more = f", and {len(found) - 1} more lines" if len(found) > 1 else ""
        rows.add("invisible-text", WARNED, f"line {number} holds {names}{more}", path)
