"""Verbs about this host: what it can enforce, and whether promises still hold."""

from __future__ import annotations

import argparse

from app.cli.context import Context


def probe(context: Context, args: argparse.Namespace) -> int:
    """``cloche probe``."""
    report = context.engine.host()
    facts, claims = report.facts, report.claims()
    if context.json:
        context.document(claims=claims, facts=facts)
        return 0
    context.say("Facts: what was seen, which proves nothing")
    context.rows(("FACT", "VALUE"), [(fact.text, fact.value) for fact in facts])
    context.say("\nClaims: what was just tried")
    context.rows(
        ("TIER", "RESULT", "CLAIM", "EVIDENCE", "MS"),
        [(c.id.partition(".")[0], c.result, c.text, c.evidence, f"{c.duration * 1000:.0f}") for c in claims],
        right=(4,),
    )
    return 0
