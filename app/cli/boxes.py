"""Verbs that make, list, stop and remove boxes."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from app.cli.context import UNCONFINED, Context
from app.cli.first import introduced
from app.cli.render import age, diff_size, report, size
from backends.boxes import names
from backends.engine import NewBox
from backends.errors import ClocheError, UsageError
from backends.evidence.visible import visible
from backends.snapshots import BoxRow, RemovalOutcome

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def duration(text: str) -> float:
    """Seconds in ``90m``, ``8h``, ``3d``; ``UsageError`` for anything else."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in UNITS or int(number) == 0:
        raise UsageError(
            f"{text!r} is no duration",
            "a whole number and one of s, m, h, d, w is needed",
            "for example --expires 8h",
            code="usage",
        )
    return float(int(number) * UNITS[unit])


def new(context: Context, args: argparse.Namespace) -> int:
    """``cloche new``: prints the name, so that a script can take it; with a command, what that prints."""
    if args.name is not None:
        names.check(args.name)  # an empty one is a script's unset variable, not a wish for a random name
    request = NewBox(
        name=args.name or "",
        rev=args.__dict__["from"],
        tier=args.tier or "",
        profile=args.profile,
        clone=args.clone,
        empty=args.empty,
        image=args.image,
        purpose=args.purpose,
        expires=time.time() + duration(args.expires) if args.expires else None,
    )
    context.engine.warm()
    reasoning = context.engine.reasoning(request) if request.tier == "auto" else None
    row = context.engine.create(request)
    if context.json:
        paths = context.engine.find(row.key)
        stream = sys.stderr if args.command else sys.stdout  # a command's output is its own
        members = {"policy_digest": context.engine.policy_digest(row.key), "root": str(paths.root)}
        context.document_to(stream, {"box": row, **members, "reasoning": reasoning})
    elif not args.command:
        context.say(row.name)
    if not context.json:
        if reasoning is not None:
            from backends.tiers.choosing import sentences

            for sentence in sentences(reasoning):
                context.note(sentence)
        _tell(context, row, ran=bool(args.command))
    if args.command:
        from app.cli.run import carry_out

        # What is sent to us from here on is meant for the command.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return carry_out(context.engine, row.key, args.command, as_json=context.json)
    return 0


def _tell(context: Context, row: BoxRow, *, ran: bool) -> None:
    """What a person should know of a new box."""
    named = f"box {row.name}: " if ran else ""
    context.note(f"{named}{introduced(row)}")
    if row.unconfined:
        context.note(UNCONFINED)
    if row.caveat:
        context.note(row.caveat)
    if not ran:
        context.note(f"next: cloche run {row.name} -- CMD, or cloche shell {row.name}")


def state_text(row: BoxRow) -> str:
    """State and liveness in words, without colour."""
    return {
        "live": f"{row.state}, live",
        "slow": f"{row.state}, keeper slow",
        "lost": f"{row.state}, keeper lost",
    }.get(row.live, row.state)


def _diff_text(row: BoxRow) -> str:
    return diff_size(row.stat) if row.stat else ""


def ls(context: Context, args: argparse.Namespace) -> int:
    """``cloche ls``."""
    rows = context.engine.boxes(args.all)
    if context.json:
        context.document(boxes=rows)
        return 0
    if not rows:
        context.note("no boxes; make one: cloche new")
        return 0
    everywhere = args.all or context.engine.repository_key is None
    now = time.time()
    cells = [
        (
            row.key if everywhere else row.name,
            row.marked_tier,
            state_text(row),
            row.base[:10] + (f" +{row.drift}" if row.drift else ""),
            str(row.processes),
            size(row.rss) if row.processes else "-",
            str(row.denied),
            _diff_text(row),
            age(now - row.created),
            row.needs,
        )
        for row in rows
    ]
    headers = ("BOX", "TIER", "STATE", "BASE", "PROCS", "MEM", "DENIED", "DIFF", "AGE", "NEEDS YOU")
    context.rows(headers, cells, right=(4, 5, 6, 8))
    return 0


def _each(context: Context, refs: list[str], act: Callable[[str], dict[str, Any]]) -> int:
    """Do ``act`` for each box and go on after one fails; the exit code is the first failure's."""
    results: list[dict[str, Any]] = []
    code = 0
    for ref in refs:
        try:
            results.append({**act(ref), "error": None})
        except ClocheError as error:
            code = code or error.exit_code
            results.append({"box": ref, "error": error.as_dict()})
            if not context.json:
                report(error, False)
    if context.json:
        context.document(results=results)
    return code


def stop(context: Context, args: argparse.Namespace) -> int:
    """``cloche stop BOX...``."""

    def act(ref: str) -> dict[str, Any]:
        paths = context.engine.find(ref)
        stopped = context.engine.stop(ref)
        if not context.json:
            context.say(
                f"{visible(paths.name)}: " + ("stopped, no process is left" if stopped else "was not live")
            )
        return {"box": paths.key, "stopped": stopped}

    return _each(context, args.boxes, act)


def abort(context: Context, args: argparse.Namespace) -> int:
    """``cloche abort BOX...``."""

    def act(ref: str) -> dict[str, Any]:
        paths = context.engine.find(ref)
        context.engine.abort(ref, args.why)
        if not context.json:
            context.say(f"{visible(paths.name)}: aborted")
        return {"box": paths.key, "state": "aborted"}

    return _each(context, args.boxes, act)


def _removed(context: Context, outcomes: tuple[RemovalOutcome, ...]) -> int:
    if context.json:
        context.document(results=outcomes)
    code = 0
    for outcome in outcomes:
        if outcome.error is not None:
            from backends.errors import from_dict

            error = from_dict(dict(outcome.error))
            code = code or error.exit_code
            if not context.json:
                report(error, False)
        elif not context.json:
            context.say(f"{visible(outcome.box)}: {outcome.detail}")
    return code


def rm(context: Context, args: argparse.Namespace) -> int:
    """``cloche rm BOX... [--force]``."""
    return _removed(context, context.engine.remove_many(args.boxes, args.force))


def gc(context: Context, args: argparse.Namespace) -> int:
    """``cloche gc``."""
    outcomes = context.engine.gc(everywhere=args.all or context.engine.repository_key is None)
    if not outcomes and not context.json:
        context.note("nothing to remove")
    return _removed(context, outcomes)
