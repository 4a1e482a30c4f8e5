"""Verbs about this host: what it can enforce, and whether promises still hold."""

from __future__ import annotations

import argparse

from app.cli.context import Context
from app.cli.render import findings


def probe(context: Context, args: argparse.Namespace) -> int:
    """``cloche probe``."""
    claims = context.engine.probe()
    if context.json:
        context.document(claims=claims)
        return 0
    context.rows(
        ("RESULT", "CLAIM", "EVIDENCE", "MS"),
        [(c.result, c.text, c.evidence, f"{c.duration * 1000:.0f}") for c in claims],
        right=(3,),
    )
    return 0


def doctor(context: Context, args: argparse.Namespace) -> int:
    """``cloche doctor [BOX]``."""
    return findings(context, context.engine.doctor(args.box))
