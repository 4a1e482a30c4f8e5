"""``cloche review`` on an export: what of it holds, then the review that it tells of."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.cli.context import UNCONFINED, Context
from app.cli.render import findings, moment
from app.cli.review import document, say_patch, tell
from backends.errors import EXIT_CHECK_FAILED
from backends.evidence.visible import visible
from backends.snapshots import ReviewProgress
from backends.snapshots_bundle import ONLY_NOW, ONLY_THEN, BundleView

NOTHING = ReviewProgress((), 0, 0, 0, (), (), "", "", (), "")


def review(context: Context, args: argparse.Namespace, path: Path) -> int:
    """``cloche review BUNDLE``: exit 1 when a finding failed."""
    if args.screen:
        from app.screens.bundle import require_terminal, show

        require_terminal()
        return show(context.engine.review_bundle(path.expanduser(), args.signers))
    found = context.engine.review_bundle(path.expanduser(), args.signers)
    view = found.view
    done = view.progress or NOTHING
    failed = any(one.verdict == "fail" for one in found.findings)
    if context.json:
        members = found._asdict()
        del members["view"]
        document(context, view, done, members)
        return EXIT_CHECK_FAILED if failed else 0
    if view.row.unconfined:
        context.note(UNCONFINED)
    row = view.row
    origin = f"box {visible(row.key)}, tier {visible(row.tier)}, exported {moment(found.exported)}"
    context.say(f"{origin}, base {visible(view.snapshot.base[:12])} {visible(row.base_ref)}".rstrip())
    findings(context, found.findings)
    _rerun(context, found)
    context.say("what follows is the word of whoever sent it, but for the files and what was asked again")
    tell(context, view, done, str(path), sent=True)
    for one in found.requests:
        script = "the script " if one.scripted else ""
        context.say(
            f"requested: {script}{visible(one.who)} of {visible(one.snapshot[:12])}, {moment(one.time)}: "
            f"{one.comments} comments, {one.rejected} rejected parts"
        )
    if args.patch:
        say_patch(context, view)
    else:
        context.note(f"the patch: cloche review {path} --patch")
    return EXIT_CHECK_FAILED if failed else 0


def _rerun(context: Context, found: BundleView) -> None:
    """Whether the checks below are those of now."""
    if not found.rerun:
        context.say(f"the gate was not asked again, checks are as recorded: {visible(found.why_not)}")
        return
    fresh = sum(one.when == ONLY_NOW and one.row.verdict != "pass" for one in found.judged)
    gone = sum(one.when == ONLY_THEN and one.row.verdict != "pass" for one in found.judged)
    said = "the gate was asked again, on the tree that the patch makes here"
    if fresh:
        said += f"; {fresh} of its warnings are not in the receipt"
    if gone:
        said += f"; {gone} of the receipt can be seen only in the box, or are not said any more"
    context.say(said)
