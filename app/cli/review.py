"""Verbs of the reviewer: what was decided about a proposal, and deciding without a screen."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import commits, trying
from app.cli.acknowledging import sentence
from app.cli.context import Context
from app.cli.render import diff_size
from backends.errors import ClocheError, Refused, UsageError
from backends.evidence.visible import visible, visible_lines
from backends.gate.evidence.told import sections
from backends.gate.patch import ACCEPTED, REJECTED, UNDECIDED, Choice, everything, marks_of
from backends.snapshots import ReviewedFile, ReviewProgress, ReviewView
from backends.snapshots_evidence import ProposalEvidence

if TYPE_CHECKING:
    from backends.verbs.reviewing import Desk

SHOWN = 12  # lines of one part of the evidence


def review(context: Context, args: argparse.Namespace) -> int:
    """``cloche review BOX|BUNDLE``."""
    path = _bundle(context, args.box)
    if path is not None:
        from app.cli import bundles

        return bundles.review(context, args, path)
    if args.signers is not None or args.screen:
        raise UsageError(
            "cloche review cannot be read",
            "--signers and --screen are about exports, and this is a box",
            "cloche review DIR --signers FILE; a box is shown by the workbench: cloche",
            code="usage",
        )
    context.warn_unconfined(args.box)
    view = context.engine.review(args.box)
    assert view.progress is not None
    if context.json:
        document(context, view, view.progress, None)
        return 0
    tell(context, view, view.progress, args.box)
    if args.patch:
        say_patch(context, view)
    return 0


def _bundle(context: Context, text: str) -> Path | None:
    """The export that ``text`` names: by its look, or where no box has that name and something lies there."""
    path = Path(text)
    if not text.startswith(("/", "./", "../", "~")) and text not in (".", "..") and path.suffix != ".tar":
        try:
            context.engine.find(text)
            return None
        except ClocheError:
            if not os.access(path, os.F_OK):
                raise
    return path


def document(context: Context, view: ReviewView, done: ReviewProgress, bundle: object) -> None:
    """The JSON document of a review; ``bundle`` is what is known of an export, None for a box."""
    context.document(
        box=view.row.key,
        snapshot=view.snapshot,
        branch=view.branch,
        branch_tip=view.branch_tip,
        policy_digest=view.policy_digest,
        changes=view.diff.changes,
        checks=view.checks,
        files=done.files,
        accepted=done.accepted,
        rejected=done.rejected,
        undecided=done.undecided,
        digest=done.digest,
        comments=done.comments,
        stale=done.stale,
        summary=done.summary,
        since=done.since,
        moved=done.moved,
        acknowledged=done.acknowledged,
        evidence=view.evidence,
        commits=view.commits,
        combination=view.combination,
        tried=view.tried,
        ignored=view.ignored,
        bundle=bundle,
    )


def say_patch(context: Context, view: ReviewView) -> None:
    """The patch, with everything visible that a terminal would obey."""
    context.say("\n".join(visible_lines(view.diff.patch)))


def tell(context: Context, view: ReviewView, done: ReviewProgress, box: str, *, sent: bool = False) -> None:
    """A review for people; ``box`` is how the proposed commands name it. ``sent``: an export, with which
    fewer things can be done."""
    context.say(f"proposed {visible(view.snapshot.id)}: {diff_size(view.snapshot.stat)}")
    held = {one.key: one.who for one in done.acknowledged}
    for check in view.checks:
        if check.verdict != "pass":
            by = f" (acknowledged by {visible(held[check.key])})" if check.key in held else ""
            context.say(f"{check.verdict}: {sentence(check)}{by}")
    if view.evidence is not None:
        _say_evidence(context, box, view.evidence)
    for line in commits.summary(view.commits, "" if sent else view.row.name):
        context.say(line)
    statuses = {change.path: change.status for change in view.diff.changes}
    since = dict(done.moved)
    context.rows(
        ("", "FILE", "ACCEPTED", "REJECTED", "OPEN", "REVIEWED", "SINCE"),
        [
            (
                statuses.get(one.path, "?"),
                one.path.decode("utf-8", "surrogateescape"),
                str(one.accepted),
                str(one.rejected),
                str(one.undecided),
                "yes" if one.reviewed else "-",
                since.get(one.path, "-") if done.since else "-",
            )
            for one in done.files
        ],
        right=(2, 3, 4),
    )
    for line in trying.lines(view, offer=not sent):
        context.say(line)
    _blocked(context, done.files)
    for comment in done.comments:
        where = f"{visible(comment.path)}:{'-' if comment.side == 'old' else ''}{comment.line or ''}"
        old = " (the file has changed since)" if comment.id in done.stale else ""
        context.say(f"{where.rstrip(':')}: {visible(comment.text)}{old}")
    if done.summary:
        context.say(visible(done.summary))


def _say_evidence(context: Context, box: str, found: ProposalEvidence) -> None:
    for part in sections(found):
        context.say(f"{part.title}: {part.lead}")
        for line in part.lines[:SHOWN]:
            context.say(f"  {visible(line)}")
        more = part.more + max(0, len(part.lines) - SHOWN)
        if more:
            context.say(f"  and {more} more: cloche review {visible(box)} --json")


def _blocked(context: Context, files: tuple[ReviewedFile, ...]) -> None:
    for one in files:
        for why in one.blocked:
            context.say(f"blocked: {visible(one.path)}: {visible(why)}")


def accept(context: Context, args: argparse.Namespace) -> int:
    """``cloche accept BOX PATH[:LINES]...``."""
    if args.reject and args.undecide:
        raise UsageError(
            "cloche accept cannot be read",
            "--reject and --undecide exclude each other",
            "cloche accept BOX PATH --reject",
            code="usage",
        )
    if bool(args.paths) == args.all:
        raise UsageError(
            "cloche accept cannot be read",
            "name files, or give --all" if not args.paths else "--all names every file already",
            "cloche accept BOX PATH, cloche accept BOX PATH:@1, or cloche accept BOX --all",
            code="usage",
        )
    state = REJECTED if args.reject else UNDECIDED if args.undecide else ACCEPTED
    as_name = args.__dict__["as"]
    who = as_name if as_name is not None else _person()
    with context.engine.decisions(args.box, who, scripted=as_name is not None) as desk:
        if args.expect is not None and args.expect != desk.snapshot.id:
            raise Refused(
                "nothing was decided",
                f"the snapshot is {desk.snapshot.id}, not {args.expect}",
                f"look at it again: cloche review {args.box}",
                code="other-snapshot",
            )
        choices = list(everything(desk.patch)) if args.all else [_choice(desk, text) for text in args.paths]
        desk.set(choices, state)
        done = desk.progress()
    named = {path for path, _ in choices}
    files = tuple(one for one in done.files if one.path in named)
    if context.json:
        context.document(
            box=desk.paths.key,
            snapshot=desk.snapshot.id,
            state=state,
            files=files,
            accepted=done.accepted,
            rejected=done.rejected,
            undecided=done.undecided,
            digest=done.digest,
        )
        return 0
    _tell(context, files, done)
    return 0


def _choice(desk: Desk, text: str) -> Choice:
    """What one argument names. A file whose very name has the colon comes first."""
    raw = os.fsencode(text)
    if raw in desk.files:
        return raw, desk.files[raw].all
    name, colon, lines = text.rpartition(":")
    path = os.fsencode(name) if colon else raw
    file = desk.file(path)
    return path, marks_of(file, lines)


def _tell(context: Context, files: tuple[ReviewedFile, ...], done: ReviewProgress) -> None:
    for one in files:
        context.say(
            f"{visible(one.path)}: {one.accepted} accepted, {one.rejected} rejected, {one.undecided} open"
        )
    _blocked(context, files)
    context.note(f"in all: {done.accepted} accepted, {done.rejected} rejected, {done.undecided} open")


def _person() -> str:
    from backends.verbs.passage import person

    return person()
