"""Verbs that show a result and carry it out: diff, propose, reopen, export, apply, verify."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from app.cli.context import UNCONFINED, Context
from app.cli.render import diff_size, findings
from backends.errors import Refused, UsageError
from backends.evidence.visible import visible, visible_lines
from backends.gate.checks import refusals
from backends.snapshots import CheckRow, ReviewView


def diff(context: Context, args: argparse.Namespace) -> int:
    """``cloche diff BOX [--stat]``."""
    context.warn_unconfined(args.box)
    found = context.engine.snapshot_diff(args.box)
    if context.json:
        context.document(
            box=context.engine.find(args.box).key,
            base=found.base,
            tree=found.tree,
            changes=found.changes,
            skipped=found.skipped,
        )
        return 0
    for path, why in found.skipped:
        context.note(f"look at {path.decode('utf-8', 'surrogateescape')}: {why}")
    if args.stat:
        context.rows(
            ("", "+", "-", "PATH"),
            [
                (
                    change.status,
                    "bin" if change.added is None else str(change.added),
                    "bin" if change.deleted is None else str(change.deleted),
                    (change.old_path.decode("utf-8", "surrogateescape") + " -> " if change.old_path else "")
                    + change.path.decode("utf-8", "surrogateescape"),
                )
                for change in found.changes
            ],
            right=(1, 2),
        )
        return 0
    if os.isatty(1) and not args.raw:
        context.say("\n".join(visible_lines(found.patch)))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(found.patch)
        sys.stdout.buffer.flush()
    return 0


def _say_checks(context: Context, checks: tuple[CheckRow, ...]) -> None:
    for check in checks:
        if check.verdict != "pass":
            where = visible(check.path) + ": " if check.path is not None else ""
            context.say(f"{check.verdict}: {where}{visible(check.reason)}")


def propose(context: Context, args: argparse.Namespace) -> int:
    """``cloche propose BOX``."""
    context.warn_unconfined(args.box)
    if args.stop:
        context.engine.stop(args.box)
    snapshot = context.engine.propose(args.box)
    review = context.engine.review(args.box)
    if context.json:
        context.document(box=review.row.key, snapshot=snapshot, checks=review.checks)
        return 0
    context.say(f"proposed {snapshot.id}: {diff_size(snapshot.stat)}")
    _say_checks(context, review.checks)
    context.note(f"next: {_after_proposal(review)}")
    return 0


def _after_proposal(review: ReviewView) -> str:
    """What can be done with a proposal: nothing that the gate would refuse, no apply without a branch."""
    name = review.row.name
    if refusals(review.checks):
        return f"cloche reopen {name}, remove or rename what is refused in the box, cloche propose {name}"
    ways = [f"cloche diff {name}", f"cloche export {name} --out DIR"]
    if review.branch:
        ways.append(f"cloche apply {name}")
    return ", ".join(ways)


def reopen(context: Context, args: argparse.Namespace) -> int:
    """``cloche reopen BOX``."""
    context.engine.reopen(args.box)
    paths = context.engine.find(args.box)
    if context.json:
        context.document(box=paths.key, state="idle")
    else:
        context.say(f"{visible(paths.name)}: idle again")
    return 0


def export(context: Context, args: argparse.Namespace) -> int:
    """``cloche export BOX --out DIR``."""
    if not args.out:
        raise UsageError(
            "cloche export cannot be read", "no folder is given", "cloche export BOX --out DIR", code="usage"
        )
    context.warn_unconfined(args.box)
    done = context.engine.export(args.box, Path(args.out), args.force)
    if context.json:
        key = context.engine.find(args.box).key
        context.document(box=key, out=done.out, files=done.files, snapshot=done.snapshot)
    else:
        for name in done.files:
            context.say(visible(str(Path(done.out) / name)))
        context.note(f"check it again with: cloche verify {done.out}")
    return 0


def _confirm(review: ReviewView, squash: bool) -> None:
    """Ask the person, naming what would happen; anything but yes is a refusal."""
    branch = review.branch.removeprefix("refs/heads/")
    sys.stderr.write(
        f"apply box {visible(review.row.name)} to branch {visible(branch)} at {review.branch_tip[:12]}\n"
        f"  snapshot {review.snapshot.id}\n"
        f"  base     {review.snapshot.base}\n"
        f"  tier     {review.row.tier}{f': {UNCONFINED}' if review.row.unconfined else ''}\n"
        f"  policy   {review.policy_digest}\n"
        f"  changes  {diff_size(review.snapshot.stat)}{', squashed' if squash else ''}\n"
    )
    for check in review.checks:
        if check.verdict != "pass":
            where = visible(check.path) + ": " if check.path is not None else ""
            sys.stderr.write(f"  {check.verdict}: {where}{visible(check.reason)}\n")
    sys.stderr.write("type yes to apply: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise Refused(
            f"box {review.row.name} was not applied",
            "you did not say yes",
            f"read it first: cloche diff {review.row.name}",
            code="not-confirmed",
        )


def apply(context: Context, args: argparse.Namespace) -> int:
    """``cloche apply BOX``: a person says yes on a terminal, a script gives its name."""
    as_name = args.__dict__["as"]
    expect = args.expect
    if as_name is None:
        if not (os.isatty(0) and os.isatty(2)):
            raise Refused(
                f"box {args.box} was not applied",
                "nobody can be asked: this is no terminal, and no --as NAME says which script acts",
                f"run it in a terminal, or as a script: cloche apply {args.box} --as NAME",
                code="needs-person",
            )
        review = context.engine.review(args.box)
        _confirm(review, args.squash)
        if expect is not None and expect != review.snapshot.id:
            raise Refused(
                f"box {args.box} was not applied",
                f"its snapshot is {review.snapshot.id}, not {expect}",
                f"review it again: cloche diff {args.box}",
                code="other-snapshot",
            )
        expect = review.snapshot.id
    done = context.engine.apply(args.box, squash=args.squash, as_name=as_name, expect=expect)
    if context.json:
        context.document(box=context.engine.find(args.box).key, **done._asdict())
    else:
        branch = done.branch.removeprefix("refs/heads/")
        context.say(f"{visible(branch)}: {done.old[:12]} -> {done.new[:12]} ({done.mode})")
        for note in done.notes:
            context.note(note)
    return 0


def verify(context: Context, args: argparse.Namespace) -> int:
    """``cloche verify DIR``."""
    rows = context.engine.verify(Path(args.folder))
    return findings(context, rows, folder=args.folder)
