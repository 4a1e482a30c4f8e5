"""Verbs by which a reviewer sends a proposal back, and reads what came of it."""

from __future__ import annotations

import argparse

from app.cli.context import Context
from app.cli.gate import show_diff
from backends.errors import UsageError
from backends.evidence.visible import visible
from backends.verbs.requesting import NEWEST


def request(context: Context, args: argparse.Namespace) -> int:
    """``cloche request BOX [-m SUMMARY]``."""
    as_name = args.__dict__["as"]
    session = _session(args.to_session, newest=args.type)
    done = context.engine.request_changes(
        args.box,
        as_name if as_name is not None else _person(),
        summary=args.summary,
        to_session=session,
        scripted=as_name is not None,
    )
    if context.json:
        context.document(**done._asdict())
        return 0
    name = visible(args.box)
    if done.session is not None:
        context.say(f"typed to session {done.session} of {name}: read ./{done.file}")
        return 0
    points = f"{_many(done.comments, 'comment')}, {_many(done.rejected, 'rejected part')}"
    context.say(f"changes are requested of {name}: {points} in ./{done.file}; it is {done.state} again")
    if done.untyped:
        context.note(done.untyped)
        context.note(f"start the agent, then: cloche request {args.box} --type")
    return 0


def _session(given: str | None, *, newest: bool) -> int | None:
    if given is None:
        return NEWEST if newest else None
    if newest or not (given.isascii() and given.isdigit() and 0 < len(given) < 10 and int(given)):
        raise UsageError(
            "cloche request cannot be read",
            "--type names the newest session already" if newest else f"{given!r} is no session's number",
            "cloche request BOX --to-session N; numbers: cloche ps BOX",
            code="usage",
        )
    return int(given)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _person() -> str:
    from backends.verbs.passage import person

    return person()


def interdiff(context: Context, args: argparse.Namespace) -> int:
    """``cloche interdiff BOX``."""
    context.warn_unconfined(args.box)
    found = context.engine.interdiff(args.box)
    if context.json:
        context.document(
            box=context.engine.find(args.box).key,
            since=found.base,
            tree=found.tree,
            changes=found.changes,
            patch=found.patch,
        )
        return 0
    show_diff(context, found, stat=args.stat, raw=args.raw)
    return 0
