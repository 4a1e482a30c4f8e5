"""Export: the patch, the report and the receipt of a reviewed proposal, as a folder or as a single file.

``patch.diff`` holds the bytes that were reviewed. ``receipt.json`` names the hashes of the other two and how
far the journal reached; the journal then records the hash of the receipt, so that each vouches for the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from backends.boxes.layout import BoxPaths, state_dir
from backends.errors import ClocheError, Refused
from backends.evidence import ustar
from backends.evidence.journal import Anchor, Journal, read, verify
from backends.evidence.receipts import activity, export_receipt, to_bytes
from backends.evidence.sshsig import SIGNATURE
from backends.evidence.tally import project
from backends.evidence.verify import earlier_series
from backends.gate.checks import require
from backends.gate.commits.series import Patch
from backends.gate.report import render
from backends.snapshots import ExportOutcome, ReviewView

PATCH = "patch.diff"
REPORT = "report.md"
RECEIPT = "receipt.json"
SINGLE = ".tar"  # how the name of a single file ends
MODE = 0o644  # before the umask: an export is made to be handed on


def export(
    paths: BoxPaths,
    review: ReviewView,
    out: Path,
    *,
    force: bool = False,
    anchor: tuple[int, str] | None = None,
    series: Sequence[Patch] = (),
    sign: Callable[[bytes], bytes] | None = None,
) -> ExportOutcome:
    """Write the three artefacts of ``review`` into ``out``, which is made if missing, and journal it.

    Where the name of ``out`` ends in ``.tar`` that is a single file, else a folder. ``anchor`` is how far the
    manifest says that the journal reached. ``series`` are mails with the box's commits, written beside; those
    of an earlier export into the folder go, and so does its signature. ``sign`` gives the signature of the
    receipt. ``Refused`` when a check of the gate refuses, when ``out`` holds anything and ``force`` is not
    given, when the policy or the journal of the box is not what it was. The receipt is written last: a folder
    without it is no export.
    """
    require(review.checks, "export", review.row.name)
    _same_proposal(review)
    policy = _policy(paths, review.policy_digest)
    reached = _journal(paths, anchor)
    records = list(itertools.islice(read(paths.journal), reached.count))
    # One count for all: the report, the receipt and whoever verifies them project the same records.
    review = review._replace(tally=project(records, review.tally.not_observed))
    done = activity(records)
    now = round(time.time(), 3)
    report = render(review, done, reached, policy, now).encode("utf-8")
    artefacts = {PATCH: _facts(review.diff.patch), REPORT: _facts(report)}
    artefacts |= {one.name: _facts(one.text) for one in series}
    receipt = to_bytes(export_receipt(review, done, reached, policy, artefacts, now))
    extra = [(SIGNATURE, sign(receipt))] if sign is not None else []
    files = [(PATCH, review.diff.patch), *series, (REPORT, report), *extra, (RECEIPT, receipt)]
    if out.suffix == SINGLE:
        _pack(out, force, files, int(now))
    else:
        _fill(out, force, files)
    paths.receipts.mkdir(mode=0o700, exist_ok=True)
    _keep(paths, f"export-{review.snapshot.id[:16]}-{int(now * 1000)}.json", receipt)
    facts = {**artefacts, **{name: _facts(text) for name, text in extra}, RECEIPT: _facts(receipt)}
    Journal(paths.journal).append(
        "export", {"out": str(out), "snapshot": review.snapshot.id, "files": facts}, sync=True
    )
    names = (PATCH, REPORT, RECEIPT, *(name for name, _ in extra), *(one.name for one in series))
    return ExportOutcome(str(out), names, review.snapshot)


def _same_proposal(review: ReviewView) -> None:
    if (review.diff.base, review.diff.tree) != (review.snapshot.base, review.snapshot.id):
        raise Refused(
            "the proposal cannot be exported",
            f"the patch that was read is of tree {review.diff.tree}, the proposal is {review.snapshot.id}",
            "review it again",
            code="other-proposal",
        )


def _policy(paths: BoxPaths, digest: str) -> dict[str, object]:
    text = paths.policy.read_bytes()
    found = hashlib.sha256(text).hexdigest()
    if found != digest:
        raise Refused(
            "the proposal cannot be exported",
            f"policy.json has the digest {found}, the box was made with {digest}",
            f"look at who changed {paths.policy}; the box is not what it was",
            code="policy-changed",
        )
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


def _journal(paths: BoxPaths, anchor: tuple[int, str] | None) -> Anchor:
    result = verify(paths.journal, anchor)
    if result.problems:
        raise Refused(
            "the proposal cannot be exported",
            "its journal is not whole: " + "; ".join(result.problems[:3]),
            f"look at it: cloche log {paths.name}; the diff alone can be had: cloche diff {paths.name}",
            code="journal-damaged",
        )
    return Anchor(result.count, result.head)


def _facts(text: bytes) -> dict[str, object]:
    return {"sha256": hashlib.sha256(text).hexdigest(), "size": len(text)}


def _fill(out: Path, force: bool, files: Sequence[tuple[str, bytes]]) -> None:
    folder = _folder(out, force)
    stale = (earlier_series(out) | {SIGNATURE}) - {name for name, _ in files}
    try:
        for name in stale:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=folder)
        for name, text in files:
            _write(folder, name, (text,))
    finally:
        os.close(folder)


def _pack(out: Path, force: bool, files: Sequence[tuple[str, bytes]], mtime: int) -> None:
    """Write the single file; its folder is made if missing."""
    _outside(out)
    folder = _open(out.parent)
    try:
        if not force and out.name in os.listdir(folder):
            raise Refused(
                f"nothing is exported to {out}",
                "it is there already",
                "choose another name, or replace it: cloche export BOX --out NAME.tar --force",
                code="out-not-empty",
            )
        _write(folder, out.name, ustar.write(files, mtime))
    finally:
        os.close(folder)


def _outside(out: Path) -> None:
    boxes = state_dir().resolve()
    real = out.resolve()
    if real == boxes or boxes in real.parents:
        raise Refused(
            f"nothing is exported to {out}",
            "it lies among the boxes, where a box may write",
            "choose a folder outside: cloche export BOX --out DIR",
            code="out-inside-box",
        )


def _folder(out: Path, force: bool) -> int:
    """The folder to write into, open. Every file is made relative to it, so that it cannot be exchanged."""
    _outside(out)
    folder = _open(out)
    if not force and os.listdir(folder):
        os.close(folder)
        raise Refused(
            f"nothing is exported to {out}",
            "the folder holds files already",
            "choose an empty folder, or replace the export in it: cloche export BOX --out DIR --force",
            code="out-not-empty",
        )
    return folder


def _open(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ClocheError(
            f"{folder} cannot be written", os.strerror(error.errno or 0), "choose another folder", code="out"
        ) from error


def _write(folder: int, name: str, pieces: Iterable[bytes]) -> None:
    """Write one file so that it is there whole or not at all; a link in its place is not followed."""
    temporary = f".{name}.{secrets.token_hex(8)}"
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, MODE, dir_fd=folder
    )
    try:
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _not_a_folder(folder, name)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def _not_a_folder(folder: int, name: str) -> None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        raise Refused(
            f"{name} cannot be written",
            "a folder of that name is in its place",
            "choose another folder",
            code="out",
        )


def _keep(paths: BoxPaths, name: str, receipt: bytes) -> None:
    folder = os.open(paths.receipts, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        _write(folder, name, (receipt,))
    finally:
        os.close(folder)
