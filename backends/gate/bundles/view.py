"""What a receipt says, as the values that a review shows. Pure; everything is a claim of whoever made it."""

from __future__ import annotations

import re
from typing import Any

from backends.gate.bundles.decoding import Misfit, decode, member, word
from backends.record import NamedTuple
from backends.snapshots import (
    Acknowledgement,
    BoxCommits,
    BoxRow,
    CheckRow,
    Diff,
    DiffStat,
    FileChange,
    Ignored,
    ReviewComment,
    ReviewedFile,
    ReviewProgress,
    ReviewView,
    SessionRow,
    SnapshotInfo,
    Tally,
    Trial,
)
from backends.snapshots_bundle import AskedFor
from backends.snapshots_evidence import ProposalEvidence

ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
VERDICTS = ("pass", "warn", "refuse")


class _Told(NamedTuple):
    """A file of the review, as a receipt has it."""

    path: bytes
    accepted: int
    rejected: int
    undecided: int
    reviewed: bool
    blocked: tuple[str, ...]


class _LeftOut(NamedTuple):
    path: bytes
    why: str


def base_of(receipt: dict[str, Any]) -> tuple[str, str, str]:
    """Commit and tree of the base, and the proposed tree. ``Misfit`` where they are no object ids."""
    base, snapshot = receipt.get("base"), receipt.get("snapshot")
    return _id(base, "commit"), _id(base, "tree"), _id(snapshot, "id")


def view(receipt: dict[str, Any], changes: tuple[FileChange, ...], patch: bytes) -> ReviewView:
    """The review that ``receipt`` tells of, with the diff that is at hand. ``Misfit`` names what is wrong."""
    base, base_tree, tree = base_of(receipt)
    snapshot = receipt["snapshot"]
    row = _row(receipt)
    stat = decode(DiffStat, member(snapshot, "stat"), "snapshot.stat")
    left = decode(tuple[_LeftOut, ...], receipt.get("left_out", []), "left_out")
    skipped = tuple((one.path, one.why) for one in left)
    tried = decode(tuple[Trial, ...], receipt.get("tried", []), "tried")
    progress = _progress(receipt)
    checks: tuple[CheckRow, ...] = decode(tuple[CheckRow, ...], receipt.get("checks"), "checks")
    if any(one.verdict not in VERDICTS for one in checks):
        raise Misfit("checks has a verdict that there is not")
    return ReviewView(
        row=row,
        snapshot=SnapshotInfo(tree, base, base_tree, _when(snapshot, "created"), stat),
        policy_digest=_text(receipt.get("policy"), "digest"),
        diff=Diff(base, tree, changes, patch, skipped),
        checks=checks,
        tally=decode(Tally, _pairs(receipt.get("tally")), "tally"),
        sessions=tuple(_session(one, at) for at, one in enumerate(_list(receipt, "sessions"))),
        branch=row.base_ref,
        branch_tip="",
        progress=progress,
        ignored=decode(Ignored, receipt.get("ignored", {"total": 0, "names": []}), "ignored"),
        tried=tried,
        combination=_combination(receipt),
        commits=decode(BoxCommits | None, receipt.get("commits"), "commits"),
        evidence=decode(ProposalEvidence | None, receipt.get("evidence"), "evidence"),
    )


def requests(receipt: dict[str, Any]) -> tuple[AskedFor, ...]:
    """The changes that were requested before."""
    found: tuple[AskedFor, ...] = decode(tuple[AskedFor, ...], receipt.get("requests", []), "requests")
    return found


def listed(receipt: dict[str, Any]) -> dict[bytes, tuple[str, int, str]]:
    """The changed files that the receipt names: status, mode and object id by path."""
    rows = {}
    for at, one in enumerate(_list(receipt, "changes")):
        where = f"changes[{at}]"
        path = decode(bytes, member(one, "path", where), f"{where}.path")
        try:
            mode = int(_text(one, "mode"), 8)
        except ValueError as error:
            raise Misfit(f"{where}.mode is no mode") from error
        rows[path] = (_text(one, "status"), mode, _text(one, "oid"))
    return rows


def _row(receipt: dict[str, Any]) -> BoxRow:
    box = receipt.get("box")
    base = receipt.get("base")
    return BoxRow(
        key=_text(box, "key"), name=_text(box, "name"), repository=_text(receipt, "repository"),
        tier=word(_text(box, "tier"), "tier"), profile=_text(box, "profile"), state="proposed", live="",
        base=_text(base, "commit"), base_ref=_text(base, "ref"), drift=None, created=_when(box, "created"),
        purpose=_text(box, "purpose"), expires=None, needs="", processes=0, cpu=0.0, rss=0, denied=0,
        stat=None, last_line="", unconfined=not decode(bool, member(box, "confined"), "box.confined"),
        caveat="" if member(box, "caveat") is None else _text(box, "caveat"),
    )  # fmt: skip


def _progress(receipt: dict[str, Any]) -> ReviewProgress | None:
    said = receipt.get("review")
    held = decode(tuple[Acknowledgement, ...], receipt.get("acknowledged", []), "acknowledged")
    if said is None:
        return None
    files = decode(tuple[_Told, ...], member(said, "files"), "review.files")
    comments = decode(tuple[ReviewComment, ...], member(said, "comments"), "review.comments")
    spoken: dict[bytes, int] = {}
    for one in comments:
        spoken[one.path] = spoken.get(one.path, 0) + 1
    decided = receipt.get("decided")
    return ReviewProgress(
        tuple(
            ReviewedFile(
                one.path, one.accepted, one.rejected, one.undecided, one.reviewed, spoken.get(one.path, 0),
                one.blocked, (), (),
            )
            for one in files
        ),
        sum(one.accepted for one in files),
        sum(one.rejected for one in files),
        sum(one.undecided for one in files),
        comments=comments,
        stale=decode(tuple[int, ...], member(said, "stale"), "review.stale"),
        summary=_text(said, "summary"),
        since=_text(said, "since"),
        moved=decode(tuple[tuple[bytes, str], ...], member(said, "moved"), "review.moved"),
        digest=_text(decided, "digest") if decided is not None else "",
        acknowledged=held,
    )  # fmt: skip


def _combination(receipt: dict[str, Any]) -> str:
    """As ``ReviewView.combination`` has it; the receipt has the words that a commit would get."""
    said = _text(receipt["decided"], "combination") if receipt.get("decided") is not None else ""
    return "ran" if said.startswith("combination ran") else "not-run" if said else "whole"


def _session(value: object, at: int) -> SessionRow:
    if not isinstance(value, dict):
        raise Misfit(f"sessions[{at}] is no object")
    row: SessionRow = decode(SessionRow, {**value, "process": None}, f"sessions[{at}]")
    return row


def _pairs(tally: object) -> object:
    """The tally with what was lost as pairs, which JSON has as an object."""
    lost = member(tally, "lost", "tally")
    return (
        {**tally, "lost": [list(pair) for pair in lost.items()]}
        if isinstance(lost, dict) and isinstance(tally, dict)
        else tally
    )


def _list(receipt: dict[str, Any], name: str) -> list[Any]:
    value = receipt.get(name)
    if not isinstance(value, list):
        raise Misfit(f"{name} is no list")
    return value


def _text(value: object, name: str) -> str:
    text: str = decode(str, member(value, name), name)
    return text


def _id(value: object, name: str) -> str:
    text = _text(value, name)
    if not ID.fullmatch(text):
        raise Misfit(f"{name} is no object id")
    return text


def _when(value: object, name: str) -> float:
    when: float = decode(float, member(value, name), name)
    return when
