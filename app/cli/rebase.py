"""Bringing a box onto where its branch is now."""

from __future__ import annotations

import argparse

from app.cli.context import Context
from backends.evidence.visible import visible


def rebase(context: Context, args: argparse.Namespace) -> int:
    """``cloche rebase BOX``."""
    done = context.engine.rebase(args.box, as_name=args.__dict__["as"])
    if context.json:
        context.document(box=context.engine.find(args.box).key, **done._asdict())
        return 0
    branch = visible(done.branch.removeprefix("refs/heads/"))
    context.say(f"{visible(args.box)}: {done.old[:12]} -> {done.new[:12]} of {branch}")
    context.say(f"{done.written} files of the box changed")
    for path, how in done.conflicts:
        context.say(f"conflict ({visible(how)}): {visible(path)}")
    name = visible(args.box)
    context.note("git in the box still begins at its first base: it shows what the branch gained as changes")
    if done.conflicts:
        context.note(f"solve them in the box: cloche shell {name}; then: cloche propose {name}")
    else:
        context.note(f"next: cloche diff {name}, cloche propose {name}")
    return 0
