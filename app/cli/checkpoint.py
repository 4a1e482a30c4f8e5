"""``cloche checkpoint`` and ``cloche restore``: a box with its processes, saved and taken up again."""

from __future__ import annotations

import argparse
import time

from app.cli.context import Context
from app.cli.render import age, size
from backends.snapshots_checkpoint import CheckpointRow


def checkpoint(context: Context, args: argparse.Namespace) -> int:
    """``cloche checkpoint BOX``."""
    row = context.engine.checkpoint(args.box)
    return _shown(context, row, f"{args.box}: saved, {size(row.size)}; next: cloche restore {args.box}")


def restore(context: Context, args: argparse.Namespace) -> int:
    """``cloche restore BOX``."""
    row = context.engine.restore(args.box)
    return _shown(context, row, f"{args.box}: goes on from what was saved {age(time.time() - row.made)} ago")


def _shown(context: Context, row: CheckpointRow, words: str) -> int:
    if context.json:
        context.document(box=row.box, checkpoint=row)
    else:
        context.say(words)
    return 0
