"""Verbs about single refusals: ``explain`` says why, ``allow`` has a person accept what would allow it."""

from __future__ import annotations

import argparse
import os
import sys

from app.cli.context import Context, plain
from backends.errors import Refused, UsageError
from backends.evidence.visible import visible
from backends.snapshots import DenialRow, Explanation, Proposal


def explain(context: Context, args: argparse.Namespace) -> int:
    """``cloche explain BOX N|OBJECT``."""
    rows = _rows(context, args.box, args.what)
    if not rows:
        raise _unknown(args.box, args.what)
    found = [(row, _explained(context, args.box, row)) for row in rows]
    if context.json:
        key = context.engine.find(args.box).key
        context.document(box=key, explanations=[{**plain(one), "count": row.count} for row, one in found])
        return 0
    for row, one in found:
        context.say(f"{one.kind} {visible(one.object)}, {row.count} times")
        context.say(f"  refused by  {visible(one.where)}")
        context.say(f"  why         {visible(one.reason)}")
        if one.proposal is None:
            context.say(f"  no change   {visible(one.why_not)}")
            continue
        context.say(f"  allow it    {visible(_said(one.proposal))}")
        context.say(f"  accept with cloche allow {visible(args.box)} {visible(_words(one.proposal))}")
        for line in _diff(one.proposal):
            context.say(f"    {line}")
    return 0


def allow(context: Context, args: argparse.Namespace) -> int:
    """``cloche allow BOX RULE``: a person says yes on a terminal, a script gives its name."""
    name = args.__dict__["as"]
    if args.yes and not name:
        raise UsageError(
            "cloche allow cannot be read",
            "--yes says that nobody is asked, and no --as NAME says who acts",
            "cloche allow BOX RULE --yes --as NAME",
            code="usage",
        )
    proposal = _proposal(context, args.box, args.rule)
    if not args.yes:
        _confirm(context, args.box, proposal)
    who = name or _person()
    context.engine.accept_rule(args.box, proposal, who, scripted=bool(args.yes))
    if context.json:
        context.document(box=context.engine.find(args.box).key, **proposal._asdict(), who=who)
        return 0
    context.say(f"{visible(proposal.file)}: {visible(_said(proposal))}")
    context.note("the running box has it now" if proposal.live else "it counts from the box's next start")
    return 0


def _person() -> str:
    from backends.verbs.passage import person

    return person()


def _rows(context: Context, box: str, what: str) -> list[DenialRow]:
    rows = context.engine.tally(box).rows
    if what.isdecimal() and len(what) < 10:
        return [rows[int(what) - 1]] if 0 < int(what) <= len(rows) else []
    return [row for row in rows if row.object == what]


def _unknown(box: str, what: str) -> UsageError:
    return UsageError(
        f"nothing that was refused is called {what}",
        "neither the number of a row nor the object of one",
        f"cloche denials {box}",
        code="no-such-denial",
    )


def _explained(context: Context, box: str, row: DenialRow) -> Explanation:
    return context.engine.explain_denial(box, row.kind, row.object, row.rule)


def _proposal(context: Context, box: str, rule: str) -> Proposal:
    """The one change that ``rule`` means."""
    key, equals, value = rule.partition("=")
    if equals and "/" not in key:
        return context.engine.propose_rule(box, key.strip(), value.strip())
    rows = _rows(context, box, rule)
    found = [_explained(context, box, row) for row in rows]
    proposals = list(dict.fromkeys(one.proposal for one in found if one.proposal is not None))
    if len(proposals) == 1:
        return proposals[0]
    if proposals:
        raise UsageError(
            f"{rule} was refused in more than one way",
            "; ".join(_said(one) for one in proposals),
            "say which: " + " or ".join(f"cloche allow {box} {_words(one)}" for one in proposals),
            code="ambiguous",
        )
    if found:
        raise Refused(
            f"nothing is proposed for {found[0].object}",
            found[0].why_not,
            f"cloche explain {box} {rule}",
            code="no-proposal",
        )
    if rule.isdecimal() or rule.startswith(("/", "~")):
        raise _unknown(box, rule)
    return context.engine.propose_rule(box, "net.egress", rule)


def _said(proposal: Proposal) -> str:
    listed = proposal.key in ("fs.read", "fs.write", "net.egress")
    return f"{proposal.key} {'gains' if listed else 'becomes'} {proposal.value}"


def _words(proposal: Proposal) -> str:
    import shlex

    return shlex.quote(f"{proposal.key}={proposal.value}")


def _diff(proposal: Proposal) -> list[str]:
    if not proposal.diff:
        return ["(the file says so already)"]
    return [visible(line) for line in proposal.diff.rstrip("\n").split("\n")]


def _confirm(context: Context, box: str, proposal: Proposal) -> None:
    """Show the diff and ask; anything but yes is a refusal."""
    if not (os.isatty(0) and os.isatty(2)):
        raise Refused(
            f"nothing was accepted for box {box}",
            "nobody can be asked: this is no terminal, and no --yes --as NAME says which script acts",
            f"run it in a terminal, or as a script: cloche allow {box} RULE --yes --as NAME",
            code="needs-person",
        )
    from backends.boxes.manifest import load

    manifest = load(context.engine.find(box))
    sys.stderr.write(
        f"change the profile {visible(manifest.profile)}: {visible(_said(proposal))}\n"
        f"  file   {visible(proposal.file)}\n"
        f"  box    {visible(box)} at tier {manifest.tier}, "
        f"{'which takes it at once' if proposal.live else 'from its next start'}\n"
    )
    for line in _diff(proposal):
        sys.stderr.write(f"  {line}\n")
    sys.stderr.write("type yes to accept: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise Refused(
            f"nothing was accepted for box {box}",
            "you did not say yes",
            f"cloche denials {box}",
            code="not-confirmed",
        )
