"""``cloche probe``: what was seen of this host, what was proved on it, and what stands in the way."""

from __future__ import annotations

import argparse
import sys

from app.cli.context import Context
from app.cli.render import age, moment
from backends.evidence.visible import visible
from backends.snapshots_host import HostReport, Proof

_CLEAR = "\r\x1b[K"


def probe(context: Context, args: argparse.Namespace) -> int:
    """``cloche probe [--fresh]``."""
    shown = not context.json and sys.stderr.isatty()
    try:
        report = context.engine.host(fresh=args.fresh, progress=_progress if shown else None)
    finally:
        if shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
    if context.json:
        members = report._asdict()
        members["claims"] = members.pop("proofs")
        context.document(**members)
        return 0
    _tell(context, report)
    return 0


def _progress(text: str) -> None:
    sys.stderr.write(f"{_CLEAR}{visible(text)}…")
    sys.stderr.flush()


def _tell(context: Context, report: HostReport) -> None:
    context.say("Facts: what was seen, which proves nothing")
    context.rows(("GROUP", "FACT", "VALUE"), [(fact.group, fact.text, fact.value) for fact in report.facts])
    context.say(f"\nClaims: what was tried, {_when(report)}")
    context.rows(
        ("TIER", "RESULT", "CLAIM", "EVIDENCE", "MS"),
        [(p.tier, p.result, p.text, p.evidence, f"{p.duration * 1000:.0f}") for p in report.proofs],
        right=(4,),
    )
    for proof in report.proofs:
        if proof.result == "failed":
            _missing(context, proof)
    for one in report.obstacles:
        context.say("")
        _say(context, f"{one.what}: {one.why}")
        _say(context, f"  tiers     {', '.join(one.tiers) or 'none'}")
        _say(context, f"  evidence  {one.evidence}")
        _say(context, f"  remedy    {one.remedy}")
    if report.not_kept:
        context.note(f"the answer could not be kept, the next one is found anew: {report.not_kept}")


def _say(context: Context, text: str) -> None:
    context.say(visible(text))


def _when(report: HostReport) -> str:
    if report.injected:
        return f"with failures injected ({', '.join(report.injected)}), which are not this host's"
    if not report.cached:
        return f"just now, in {report.duration:.1f} s"
    return (
        f"{age(report.age)} ago, and nothing changed since that the answer depends on"
        " (cloche probe --fresh tries all of it now)"
    )


def _missing(context: Context, proof: Proof) -> None:
    context.say("")
    _say(context, f"{proof.id} does not hold: {proof.without or proof.text}")
    if proof.passed:
        changed = "; ".join(proof.changed) or "nothing known"
        _say(context, f"  last held {moment(proof.passed)}; changed since: {changed}")
