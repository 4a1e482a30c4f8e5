"""Reviewing an export on a host that need not have its box: read-only, nothing of it taken on trust."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from backends.errors import ClocheError, Refused
from backends.evidence.packed import Bundle, opened
from backends.evidence.verify import read_receipt, series_of
from backends.gate.bundles import heads, view
from backends.gate.bundles.decoding import Misfit, decode, member
from backends.gate.bundles.rerun import Cannot, Made, rerun
from backends.gate.patch import read
from backends.snapshots import CheckRow, DiffStat, FileChange, Finding, ReviewView
from backends.snapshots_bundle import ONLY_NOW, ONLY_THEN, SAME, BundleView, Judged
from backends.trees.values import Source
from backends.verbs import outcome

PATCH = "patch.diff"
MOST_PATCH = 256 << 20  # bytes
ONLY_THERE = frozenset(("special-file", "unread", "box-finding"))
"""Checks of what lay in the box beside the tree: no object shows it, so nobody can ask again."""


def review(path: Path, place: Source | None, signers: Path | None) -> BundleView:
    """See ``Engine.review_bundle``."""
    found = outcome.verify(path, signers)
    with opened(path) as bundle:
        receipt, _ = read_receipt(bundle)
        try:
            patch = bundle.read(PATCH, MOST_PATCH)
        except FileNotFoundError as error:
            raise _unread(path, f"there is no {PATCH} in it") from error
        mails = _mails(bundle, series_of(receipt))
    findings = [*found, *_exchanged(receipt, patch, found)]
    changes = heads.changes(patch)
    try:
        findings.extend(_against(view.listed(receipt), changes))
        names = view.base_of(receipt)
        shown = _counted(view.view(receipt, _filled(changes, receipt), patch))
        asked = view.requests(receipt)
        exported = decode(float, member(receipt, "created"), "created")
    except Misfit as error:
        raise _unread(path, f"its receipt is not one that Cloche writes: {error}") from error
    read(shown.diff, shown.snapshot.base_tree)  # whoever shows it reads it so
    made, why = _made(place, names, patch, mails, findings)
    if mails:
        findings.append(_series(made))
    if made is None:
        return BundleView(str(path), exported, tuple(findings), shown, False, why, (), asked)
    judged = tuple(_judged(shown.checks, made.checks))
    checks = tuple(one.row for one in judged)
    now = shown._replace(diff=shown.diff._replace(changes=made.changes, patch=made.patch), checks=checks)
    return BundleView(str(path), exported, tuple(findings), now, True, "", judged, asked)


def _mails(bundle: Bundle, names: Sequence[str]) -> list[bytes]:
    """The series; where a mail is missing, none: that is found with the hashes."""
    mails: list[bytes] = []
    room = MOST_PATCH
    try:
        for name in names:
            mails.append(bundle.read(name, room))
            room -= len(mails[-1])
    except FileNotFoundError:
        return []
    return mails


def _series(made: Made | None) -> Finding:
    if made is None:
        return Finding(
            "series", "warn", "whether the mails make the same as the patch was not tried", "",
            "run this in a clone that has the base, before git am",
        )  # fmt: skip
    if made.series:
        text = "the mails do not make what the patch makes"
        return Finding("series", "fail", text, made.series, "do not give them to git am")
    text = "the mails together make the same tree as the patch"
    return Finding("series", "ok", text, made.tree, "")


def _counted(shown: ReviewView) -> ReviewView:
    """With the size of what is at hand, not of what the receipt says."""
    changes = shown.diff.changes
    added, deleted = sum(one.added or 0 for one in changes), sum(one.deleted or 0 for one in changes)
    stat = DiffStat(len(changes), added, deleted)
    return shown._replace(snapshot=shown.snapshot._replace(stat=stat))


def _exchanged(receipt: dict[str, Any], patch: bytes, found: Sequence[Finding]) -> Iterator[Finding]:
    """Whether what is shown is what was checked just before: others may write where it lies."""
    listed = receipt.get("artefacts")
    facts = listed.get(PATCH) if isinstance(listed, dict) else None
    said = facts.get("sha256") if isinstance(facts, dict) else None
    passed = any(one.id == PATCH and one.verdict == "ok" for one in found)
    if passed and said != hashlib.sha256(patch).hexdigest():
        yield Finding(PATCH, "fail", "the export changed while it was read", "", "copy it first, then look")


def _made(
    place: Source | None,
    names: tuple[str, str, str],
    patch: bytes,
    mails: list[bytes],
    findings: list[Finding],
) -> tuple[Made | None, str]:
    base, base_tree, tree = names
    try:
        made = rerun(place, base, base_tree, patch, tree, mails)
    except Cannot as error:
        return None, str(error)
    except Refused as error:
        findings.append(Finding("tree", "fail", error.what, error.why, error.next_step))
        return None, error.why
    except ClocheError as error:
        return None, f"{error.what}: {error.why}"
    text = "the patch makes exactly the tree that the receipt names"
    findings.append(Finding("tree", "ok", text, f"tree {tree} on the base {base[:12]}", ""))
    return made, ""


def _against(listed: dict[bytes, tuple[str, int, str]], changes: tuple[FileChange, ...]) -> Iterator[Finding]:
    """Whether the patch changes what the receipt lists."""
    wrong = [path for path in listed if path not in {change.path for change in changes}]
    for change in changes:
        said = listed.get(change.path)
        status, mode, oid = said or ("", 0, "")
        same = said is not None and status == change.status
        same = same and mode in (change.new_mode, mode if _untold(change) else change.new_mode)
        if not same or (change.new_oid and oid != change.new_oid):
            wrong.append(change.path)
    if wrong:
        names = ", ".join(path.decode("utf-8", "surrogateescape") for path in wrong[:5])
        yield Finding(
            "changes", "fail", f"the patch and the receipt differ about {len(wrong)} files", names,
            "do not apply it: ask for the export again, on another way",
        )  # fmt: skip
    else:
        yield Finding(
            "changes",
            "ok",
            "the patch changes the files that the receipt lists",
            f"{len(changes)} file{'' if len(changes) == 1 else 's'}",
            "",
        )


def _untold(change: FileChange) -> bool:
    """A rename of equal content says neither mode nor ids."""
    return change.new_mode == 0 and change.status != "D"


def _filled(changes: tuple[FileChange, ...], receipt: dict[str, Any]) -> tuple[FileChange, ...]:
    """The changes of a patch with what only the receipt tells of them."""
    listed = view.listed(receipt)
    out = []
    for change in changes:
        _, mode, oid = listed.get(change.path, ("", 0, ""))
        if not change.new_oid:
            change = change._replace(old_oid=oid, new_oid=oid)
        if _untold(change):
            change = change._replace(old_mode=mode, new_mode=mode)
        out.append(change)
    return tuple(out)


def _judged(then: Sequence[CheckRow], now: Sequence[CheckRow]) -> Iterator[Judged]:
    """The checks of now, worst news first, beside those of the receipt; of what passed then and does not now
    the row of now alone."""
    left = Counter(_told(row) for row in then)
    fresh: list[CheckRow] = []
    same: list[CheckRow] = []
    for row in now:
        if row.id in ONLY_THERE:
            continue
        known = left[_told(row)] > 0
        left[_told(row)] -= known
        (same if known else fresh).append(row)
    gone = []
    for row in then:
        if left[_told(row)] > 0:
            left[_told(row)] -= 1
            if row.verdict != "pass" or row.id in ONLY_THERE:
                gone.append(row)
    for when, rows in ((ONLY_NOW, fresh), (ONLY_THEN, gone), (SAME, same)):
        yield from (Judged(row, when) for row in rows)


def _told(row: CheckRow) -> tuple[str, str, str, bytes | None]:
    return row.id, row.verdict, row.reason, row.path


def _unread(path: Path, why: str) -> ClocheError:
    return Refused(
        f"{path} cannot be reviewed",
        why,
        "check it: cloche verify; and ask for the export again",
        code="bundle-unread",
    )
