"""Verbs about policies."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from app.cli.context import Context
from app.cli.render import findings
from backends.evidence.visible import visible


def check(context: Context, args: argparse.Namespace) -> int:
    """``cloche policy check [FILE]``."""
    rows = context.engine.policy_check(Path(args.file) if args.file else None)
    if not rows and not context.json:
        context.note("no cloche.toml and no configuration of yours: the built-in profiles count")
    return findings(context, rows)


def show(context: Context, args: argparse.Namespace) -> int:
    """``cloche policy show [BOX]``."""
    text = context.engine.policy_show(args.box, args.profile or "")
    if context.json:
        digest = context.engine.policy_digest(args.box, args.profile or "")
        context.document(digest=digest, policy=json.loads(text))
    else:
        context.say(json.dumps(json.loads(text), indent=1, sort_keys=True))
    return 0


def explain(context: Context, args: argparse.Namespace) -> int:
    """``cloche policy explain [BOX]``."""
    rows = context.engine.policy_explain(args.box, args.profile or "")
    if context.json:
        context.document(keys=[{"key": key, "value": value, "source": source} for key, value, source in rows])
    else:
        context.rows(("KEY", "VALUE", "SOURCE"), rows)
    return 0


def digest(context: Context, args: argparse.Namespace) -> int:
    """``cloche policy digest [BOX]``."""
    found = context.engine.policy_digest(args.box, args.profile or "")
    if context.json:
        context.document(digest=found)
    else:
        context.say(visible(found))
    return 0
