"""``cloche learn``: what a box used against what it was granted, and a draft of the narrowest profile."""

from __future__ import annotations

import argparse
import sys

from app.cli.context import Context

_USED = {True: "used", False: "not used", None: "not observed"}


def main(context: Context, args: argparse.Namespace) -> int:
    """``cloche learn BOX [--name P]``: the draft on standard output, the comparison on standard error."""
    found = context.engine.learn(args.box, args.name)
    if context.json:
        key = context.engine.find(args.box).key
        context.document(
            box=key,
            profile=found.profile,
            grants=found.grants,
            peaks=found.peaks,
            not_observed=found.not_observed,
        )
        return 0
    context.warn_unconfined(args.box)
    sys.stdout.write(found.profile)  # nothing in it is hidden, and TOML has escapes of its own
    sys.stdout.flush()
    for row in found.grants:
        narrowed = "" if row.places in ((), (row.entry,)) else f": only {', '.join(row.places)}"
        context.note(f"{_USED[row.used]:<13} {row.key} {row.entry}{narrowed}")
    for limit in found.peaks:
        if limit.peak:
            context.note(f"{'peak':<13} {limit.key} = {limit.granted}: {limit.peak}")
    for text in found.not_observed:
        context.note(f"not observed  {text}")
    return 0
