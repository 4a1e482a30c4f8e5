"""``cloche try``: what was accepted, run in a fresh box; the command's streams and exit code pass through."""

from __future__ import annotations

import argparse
import sys

from app.cli.context import Context
from app.cli.run import Passing, own_streams
from backends.errors import UsageError
from backends.evidence.visible import visible
from backends.snapshots import NOT_RUN, ReviewView, Trial
from widgets import units

SHOWN = 20
"""Ignored names that people are shown; the JSON document has what was kept."""


def try_(context: Context, args: argparse.Namespace) -> int:
    """``cloche try BOX [--onto-tip] [--keep] -- CMD...``."""
    if not args.command:
        raise UsageError(
            "cloche try cannot be read", "no command is given", "cloche try BOX -- CMD...", code="usage"
        )
    passing = Passing()
    try:
        done = context.engine.try_accepted(
            args.box,
            args.command,
            onto_tip=args.onto_tip,
            keep=args.keep,
            as_name=args.__dict__["as"],
            streams=own_streams(),
            on_session=passing,
            on_request=passing.asking,
        )
    finally:
        passing.restore()
    if context.json:
        trial, result = done.trial._asdict(), done.result
        del trial["fits"]
        members = {
            **trial,
            "fresh": done.trial.box,
            "box": context.engine.find(args.box).key,
            "cpu": result.cpu,
            "peak_rss": result.peak_rss,
        }
        context.document_to(sys.stderr, members)
    else:
        context.note(sentence(done.trial))
        if done.trial.kept:
            context.note(f"the box stays: cloche shell {done.trial.box}")
    return done.trial.exit


def sentence(trial: Trial) -> str:
    """What was tried and how it ended."""
    what = "all of the proposal" if trial.whole else "the accepted part"
    where = f" merged onto {visible(trial.onto[:12])}" if trial.onto else ""
    took = f"{trial.wall:.1f} s" if trial.wall < 60 else units.span(trial.wall)
    denied = f", {trial.denied} refused" if trial.denied else ""
    return f"tried {what}{where}: exit {trial.exit} after {took}{denied}"


def lines(view: ReviewView, *, offer: bool = True) -> list[str]:
    """What was tried of a proposal and what of its tree is ignored, for people; escaped. ``offer``: with the
    command that tries it."""
    said = [_line(one) for one in view.tried]
    if view.combination == "not-run":
        how = f"; cloche try {view.row.name} -- CMD" if offer else ""
        said.append(f"{NOT_RUN}: what is accepted never ran without the rest{how}")
    total, names = view.ignored
    if total:
        shown = ", ".join(visible(name) for name in names[:SHOWN])
        more = f" and {total - SHOWN} more" if total > SHOWN else ""
        said.append(f"ignored, so no part of this: {shown}{more}")
    return said


def _line(trial: Trial) -> str:
    fits = "" if trial.fits else "; not what is accepted now"
    return f"{sentence(trial)}: {visible(' '.join(trial.argv))}{fits}"
