"""Requesting changes: what a reviewer said goes where the agent reads it, and the box back to work."""

from __future__ import annotations

import binascii
import os
import unicodedata
from collections.abc import Iterator
from typing import Any

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import IDLE, PROPOSED, RUNNING
from backends.boxes.manifest import Manifest, load
from backends.digest import sha256
from backends.errors import Busy, ClocheError, NoSuchBox, Refused
from backends.evidence.journal import Journal
from backends.gate import feedback
from backends.gate.feedback import Rejected
from backends.gate.patch import CONTENT, EXISTS, MODE, NAME, Decisions, Marks, Patch
from backends.gate.patch.marks import bits, ranges
from backends.gate.patch.model import File
from backends.snapshots_request import RequestOutcome
from backends.trees import layers, quarantine
from backends.verbs import authority, passage, proposal, reviewing

NEWEST = 0
"""In place of a session's number: the one that was started last."""
QUOTED = 40
"""Lines of one rejected part that are quoted."""
TYPED = 600
"""Characters of the summary that are typed."""
_PASTE, _PASTED = b"\x1b[200~", b"\x1b[201~"  # bracketed paste mode (XTerm control sequences)
_PARTS = {
    EXISTS: "that the file is made, or removed",
    NAME: "its new name",
    MODE: "its mode",
    CONTENT: "its content, which is not text",
}


def request_changes(
    paths: BoxPaths, who: str, *, summary: str | None, to_session: int | None, scripted: bool
) -> RequestOutcome:
    """Ask for changes of a proposal; see ``Engine.request_changes``."""
    authority.require_outside("request")
    manifest = load(paths)
    if manifest.state == PROPOSED:
        made = _make(paths, who, summary, scripted=scripted)
        if to_session is None:
            return made
        try:
            return made._replace(session=_tell(paths, load(paths), who, to_session))
        except ClocheError as error:  # the request itself was made
            return made._replace(untyped=f"{error.what}: {error.why}")
    standing = manifest.request
    if manifest.state not in (IDLE, RUNNING) or standing is None or to_session is None or summary is not None:
        raise Refused(
            f"no changes can be requested of box {paths.name}",
            f"it is {manifest.state}, and only a proposal can be answered",
            f"type the request that was made to a session: cloche request {paths.name} --type"
            if standing is not None
            else f"propose first: cloche propose {paths.name}",
            code="no-proposal",
        )
    session = _tell(paths, manifest, who, to_session)
    return RequestOutcome(
        paths.key,
        standing["snapshot"],
        standing["file"],
        standing["digest"],
        standing["comments"],
        standing["rejected"],
        manifest.state,
        session,
    )


def _make(paths: BoxPaths, who: str, summary: str | None, *, scripted: bool) -> RequestOutcome:
    file = proposal.feedback_name(paths)
    with reviewing.desk(paths, who, scripted=scripted) as desk:
        if summary is not None:
            desk.change(lambda review: review.summarise(summary))
        review, snapshot = desk.review, desk.snapshot
        parts = tuple(rejected(desk.patch, review.history.now))
        stale = desk.progress().stale
    if not (review.summary.strip() or review.comments or parts):
        raise Refused(
            f"no changes were requested of box {paths.name}",
            "nothing was said about the proposal: no comment, no summary, nothing rejected",
            f'say what is wanted: cloche request {paths.name} -m "..."; or only take it back: '
            f"cloche reopen {paths.name}",
            code="nothing-to-request",
        )
    text = feedback.render(snapshot.id, review.summary, review.comments, stale, parts)
    made = {
        "who": who,
        "scripted": scripted,
        "snapshot": snapshot.id,
        "file": file,
        "digest": sha256(feedback.encode(text)).hexdigest(),
        "comments": len(review.comments),
        "rejected": len(parts),
        "summary": bool(review.summary.strip()),
    }
    with passage.holding(paths, "request") as held:
        manifest = held.manifest
        if manifest.state != PROPOSED or (manifest.snapshot or {}).get("id") != snapshot.id:
            raise Busy(
                f"no changes were requested of box {paths.name}",
                f"it is {manifest.state} by now, or proposes something else",
                f"look at it again: cloche review {paths.name}",
                code="review-changed",
            )
        _refuse_tracked(paths, manifest, file)
        owner = (manifest.payload_uid, manifest.payload_gid)
        feedback.write(paths, file, text, owner if owner != (os.geteuid(), os.getegid()) else None)
        held.record("request", made)
        standing = {**made, "line": _line(file, review.summary, len(review.comments), len(parts))}
        held.move(IDLE, "changes were requested", who, snapshot=None, request=standing)
    return RequestOutcome(
        paths.key, snapshot.id, file, str(made["digest"]), len(review.comments), len(parts), IDLE, None
    )


def _refuse_tracked(paths: BoxPaths, manifest: Manifest, file: str) -> None:
    """A file that the base has is part of every proposal: what is written there would be proposed."""
    trees = {manifest.base_tree, manifest.under if layers.used(paths) else manifest.base_tree}
    git = quarantine.git(paths)
    if any(git.run("ls-tree", "-z", "--full-tree", tree, "--", file) for tree in sorted(trees)):
        raise Refused(
            f"no changes were requested of box {paths.name}",
            f"the base has a {file} of its own, and what is written there would be part of the proposal",
            "state another name in cloche.toml for the next box: review.file; for this one: "
            f"cloche reopen {paths.name}, and tell the agent yourself",
            code="feedback-tracked",
        )


# ------------------------------------------------------------------------------------------- what is rejected


def rejected(patch: Patch, decisions: Decisions) -> Iterator[Rejected]:
    """What was rejected of a proposal: of each hunk the lines, of each file its properties. Pure."""
    for file in patch.files:
        marks = decisions.of(file.path).rejected
        if marks.empty:
            continue
        if marks == file.all and (EXISTS in marks.parts or not file.by_line):
            yield Rejected(file.path, "the whole change")
            continue
        for part, said in _PARTS.items():
            if part in marks.parts:
                yield Rejected(file.path, said)
        if marks.lines:
            yield from _hunks(file, marks)


def _hunks(file: File, marks: Marks) -> Iterator[Rejected]:
    lines = iter(file.text.split(b"\n"))
    for number, hunk in enumerate(file.hunks):
        found: list[bytes] = []
        wanted = file.hunk(number).within(marks)
        old, new = hunk.old, hunk.new
        ends = hunk.old + hunk.old_count, hunk.new + hunk.new_count
        gone, come = bits(wanted.old, ends[0]), bits(wanted.new, ends[1])
        while not next(lines).startswith(b"@@ "):
            continue
        while wanted.lines and (old, new) != ends and len(found) < QUOTED:
            line = next(lines)
            sign = line[:1]
            if (sign == b"-" and gone[old] == "1") or (sign == b"+" and come[new] == "1"):
                found.append(line)
            old += sign in (b" ", b"-")
            new += sign in (b" ", b"+")
        if wanted.lines:
            yield Rejected(file.path, _where(wanted), tuple(found), wanted.lines)


def _where(marks: Marks) -> str:
    sides = (("removed", marks.old), ("added", marks.new))
    return ", ".join(f"{word} {_lines(mask)}" for word, mask in sides if mask)


def _lines(mask: int) -> str:
    runs = [f"{first}-{last}" if first < last else str(first) for first, last in ranges(mask)]
    more = f" and {len(runs) - 20} more ranges" if len(runs) > 20 else ""
    return f"line{'s' if mask.bit_count() > 1 else ''} {', '.join(runs[:20])}{more}"


# ------------------------------------------------------------------------------------------------- typing it


def _line(file: str, summary: str, comments: int, parts: int) -> str:
    said = " ".join(summary.split())
    points = f"{comments} comment{'s' * (comments != 1)}, {parts} rejected part{'s' * (parts != 1)}"
    short = f" {said[:TYPED]}{'...' if len(said) > TYPED else ''}" if said else ""
    return plain(f"Changes are requested ({points}): read ./{file} and address every point.{short}")


def plain(text: str) -> str:
    """``text`` as one line without anything that a terminal or a program in it obeys."""
    kept = (" " if char in "\n\t\r" else char for char in text)
    return "".join(c for c in kept if unicodedata.category(c)[0] != "C" and c not in "\u2028\u2029")


def _tell(paths: BoxPaths, manifest: Manifest, who: str, session: int) -> int:
    """Type the standing request to a live session that has a terminal, as one paste and Enter."""
    standing: dict[str, Any] = manifest.request or {}
    if liveness.read(paths).kind != "live":
        raise NoSuchBox(
            f"the request was not typed to a session of box {paths.name}",
            "no session of it is live",
            f"start the agent, then: cloche request {paths.name} --type",
            code="no-such-session",
        )
    from backends.keeper import client
    from backends.verbs import sessions

    typed = _PASTE + plain(str(standing["line"])).encode() + _PASTED + b"\r"
    with client.connect(paths) as keeper:
        number = sessions.newest(paths, keeper) if session == NEWEST else session
        keeper.call("type", session=number, data=binascii.b2a_base64(typed, newline=False).decode("ascii"))
    told = {"who": who, "session": number, "snapshot": standing["snapshot"], "bytes": len(typed)}
    Journal(paths.journal).append("request-typed", told, sync=True)
    return number
