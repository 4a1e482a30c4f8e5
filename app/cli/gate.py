"""Verbs that show a result and carry it out: diff, propose, reopen, export, apply, unapply, verify."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from app.cli import acknowledging, commits
from app.cli.context import UNCONFINED, Context
from app.cli.render import diff_size, findings
from backends.errors import Refused, UsageError
from backends.evidence.visible import visible, visible_lines
from backends.gate.checks import refusals
from backends.snapshots import ApplyOutcome, ApplyPlan, CheckRow, Diff, ReviewView
from backends.snapshots_moved import UnapplyPlan
from backends.verbs.values import Applying


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
    show_diff(context, found, stat=args.stat, raw=args.raw)
    return 0


def show_diff(context: Context, found: Diff, *, stat: bool, raw: bool) -> None:
    """A diff for people: a table of its files, or the patch; ``raw`` leaves a terminal unprotected."""
    for path, why in found.skipped:
        context.note(f"look at {path.decode('utf-8', 'surrogateescape')}: {why}")
    if stat:
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
    elif os.isatty(1) and not raw:
        context.say("\n".join(visible_lines(found.patch)))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(found.patch)
        sys.stdout.buffer.flush()


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
    for line in commits.summary(review.commits, review.row.name):
        context.say(line)
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
    if args.sign == "" or (args.sign and args.no_sign):
        raise UsageError(
            "cloche export cannot be read",
            "--sign is empty" if args.sign == "" else "--sign and --no-sign exclude each other",
            "cloche export BOX --out DIR --sign KEY",
            code="usage",
        )
    context.warn_unconfined(args.box)
    done = context.engine.export(
        args.box,
        Path(args.out),
        args.force,
        args.series,
        sign="" if args.no_sign else args.sign,
        prompt=os.isatty(0) and os.isatty(2),
    )
    if context.json:
        key = context.engine.find(args.box).key
        context.document(
            box=key, out=done.out, files=done.files, snapshot=done.snapshot, warnings=done.warnings
        )
    else:
        for name in done.files:
            context.say(
                visible(str(Path(done.out) / name) if Path(done.out).is_dir() else f"{done.out}: {name}")
            )
        for warned in done.warnings:
            context.note(f"warn: {acknowledging.sentence(warned)}")
        context.note(f"check it again with: cloche verify {done.out}")
    return 0


def _plan_lines(review: ReviewView, plan: ApplyPlan) -> list[str]:
    """What would be done, for a person who is to agree."""
    at = f"at {plan.old[:12]}" if plan.old else f"which is made at {plan.base[:12]}"
    if plan.partial:
        counts = f"{plan.accepted} accepted, {plan.left} left in the box; {plan.combination}"
    else:
        counts = diff_size(review.snapshot.stat) + (
            f"; merged: {plan.combination}" if plan.combination else ""
        )
    caveat = f": {visible(review.row.caveat)}" if review.row.caveat else ""
    lines = [
        f"apply box {visible(review.row.name)} to branch {visible(_short(plan.branch))} {at}",
        f"  snapshot {plan.snapshot}",
        f"  tree     {plan.tree}{' (a part of the snapshot)' if plan.partial else ''}",
        f"  parents  {' '.join(plan.parents)} ({plan.mode})",
        f"  base     {plan.base}",
        f"  tier     {review.row.tier}{f': {UNCONFINED}' if review.row.unconfined else caveat}",
        f"  policy   {review.policy_digest}",
        f"  changes  {counts}",
    ]
    lines += [f"  message  {visible(line)}".rstrip() for line in plan.message.strip("\n").split("\n")]
    lines += [f"  commit   {line}" for line in commits.lines(plan.commits)]
    standing = {check.key for check in plan.standing}
    for check in plan.checks:
        if check.verdict != "pass":
            key = f" {check.key[: acknowledging.SHOWN]}" if check.key else ""
            done = " (acknowledged)" if check.key and check.key not in standing else ""
            lines.append(f"  {check.verdict}{key}: {acknowledging.sentence(check)}{done}")
    return lines


def _short(branch: str) -> str:
    return branch.removeprefix("refs/heads/")


def _not_done(plan: ApplyPlan) -> ApplyOutcome:
    """The outcome as far as a plan knows it."""
    return ApplyOutcome(
        plan.branch,
        plan.old,
        "",
        plan.mode,
        "",
        tree=plan.tree,
        partial=plan.partial,
        accepted=plan.accepted,
        left=plan.left,
        combination=plan.combination,
        commits=tuple(commit.id for commit in plan.commits),
    )


def _confirm(context: Context, box: str, review: ReviewView, plan: ApplyPlan) -> None:
    """Ask the person, naming what would happen; anything but yes is a refusal."""
    sys.stderr.write("\n".join([*_plan_lines(review, plan), ""]))
    acknowledging.one_by_one(context, box, plan)
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
    if args.onto == "" or args.message == "":
        empty = "--onto" if args.onto == "" else "--message"
        raise UsageError(
            "cloche apply cannot be read",
            f"{empty} is empty",
            "cloche apply BOX --onto NAME --message TEXT",
            code="usage",
        )
    how = Applying(
        squash=args.squash,
        onto=args.onto or "",
        message=args.message or "",
        keep_commits=args.keep_commits,
        as_name=as_name,
        expect=args.expect,
    )
    engine = context.engine
    wish = args.acknowledge
    if args.dry_run:
        plan = engine.plan_apply(args.box, **how)
        if context.json:
            context.document(box=engine.find(args.box).key, **_not_done(plan)._asdict(), plan=plan)
        else:
            for line in _plan_lines(engine.review(args.box), plan):
                context.say(line)
        return 0
    seen = None
    if as_name is None:
        if not (os.isatty(0) and os.isatty(2)):
            raise Refused(
                f"box {args.box} was not applied",
                "nobody can be asked: this is no terminal, and no --as NAME says which script acts",
                f"run it in a terminal, or as a script: cloche apply {args.box} --as NAME",
                code="needs-person",
            )
        review = engine.review(args.box)
        seen = engine.plan_apply(args.box, **how)
        if wish is not None:
            acknowledging.named(context, args.box, seen, wish, None)
            seen = engine.plan_apply(args.box, **how)
        _confirm(context, args.box, review, seen)
    elif wish is not None:
        seen = engine.plan_apply(args.box, **how)
        acknowledging.named(context, args.box, seen, wish, as_name)
    if seen is not None:
        how["expect"] = seen.snapshot
    done = engine.apply(args.box, part=True, seen=seen, **how)
    if context.json:
        context.document(box=engine.find(args.box).key, **done._asdict(), plan=None)
        return 0
    context.say(f"{visible(_short(done.branch))}: {done.old[:12] or 'new'} -> {done.new[:12]} ({done.mode})")
    if done.partial:
        context.say(f"{done.accepted} accepted, {done.left} left; {done.combination}")
        context.note(f"the rest is in the box: cloche diff {args.box}")
    elif done.combination:
        context.say(f"merged: {done.combination}")
    if done.commits:
        context.say(
            f"{len(done.commits)} commits of the box are kept as they are; their authors are its claim"
        )
    for note in done.notes:
        context.note(note)
    return 0


def _undo_lines(box: str, plan: UnapplyPlan) -> list[str]:
    """What would be undone, for a person who is to agree."""
    goes = f"{plan.old[:12]} -> {plan.new[:12]}" if plan.new else f"{plan.old[:12]}, and is removed"
    many = f"{plan.commits} commit{'s' * (plan.commits != 1)} with {plan.files} changed"
    lines = [
        f"undo the last apply of box {visible(box)}",
        f"  branch   {visible(_short(plan.branch))}: {goes}",
        f"  leaving  {many} file{'s' * (plan.files != 1)}: {visible(plan.subject[:200])}",
        f"  files    {visible(plan.work_tree) if plan.work_tree else 'no checkout of the branch is touched'}",
    ]
    if plan.base is not None:
        lines.append(f"  base     of the box: {plan.base[0][:12]} -> {plan.base[1][:12]}")
    return [*lines, f"  box      becomes {plan.state}"]


def _confirm_undo(box: str, plan: UnapplyPlan) -> None:
    sys.stderr.write("\n".join([*_undo_lines(box, plan), "type yes to undo: "]))
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise Refused(
            f"the apply of box {box} was not undone",
            "you did not say yes",
            f"look at the box: cloche status {box}",
            code="not-confirmed",
        )


def unapply(context: Context, args: argparse.Namespace) -> int:
    """``cloche unapply BOX``."""
    as_name = args.__dict__["as"]
    if as_name is None and not (os.isatty(0) and os.isatty(2)):
        raise Refused(
            f"the apply of box {args.box} was not undone",
            "this is no terminal, and no --as NAME says which script acts",
            f"run it in a terminal, or as a script: cloche unapply {args.box} --as NAME",
            code="needs-person",
        )
    seen = None
    if as_name is None:
        seen = context.engine.plan_unapply(args.box)
        _confirm_undo(args.box, seen)
    done = context.engine.unapply(args.box, as_name=as_name, seen=seen)
    if context.json:
        context.document(box=context.engine.find(args.box).key, **done._asdict())
    else:
        context.say(f"{visible(_short(done.branch))}: {done.old[:12]} -> {done.new[:12] or 'removed'}")
        context.say(f"the box is {done.state}")
    return 0


def verify(context: Context, args: argparse.Namespace) -> int:
    """``cloche verify DIR``."""
    rows = context.engine.verify(Path(args.folder), args.signers)
    return findings(context, rows, folder=args.folder)
