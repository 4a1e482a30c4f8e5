"""``cloche egress``: where a supervised box's packets may go, and names looked up anew."""

from __future__ import annotations

import argparse

from app.cli.context import Context
from app.cli.render import size
from backends.evidence.visible import visible
from backends.snapshots import EgressRow, Repinned


def main(context: Context, args: argparse.Namespace) -> int:
    """``cloche egress BOX [--repin]``."""
    done = context.engine.repin(args.box, _person()) if args.repin else None
    rows = context.engine.egress(args.box)
    if context.json:
        repinned = None
        if done is not None:
            changed = [{"name": name, "old": old, "new": new} for name, old, new in done.changed]
            kept = [{"name": name, "why": why} for name, why in done.kept]
            repinned = {"names": done.names, "changed": changed, "kept": kept}
        context.document(box=context.engine.find(args.box).key, rows=rows, repinned=repinned)
        return 0
    if done is not None:
        _tell(context, done)
    show(context, rows)
    return 0


def show(context: Context, rows: tuple[EgressRow, ...]) -> None:
    """One line for each destination."""
    if not rows:
        context.say("no destination is listed: nothing leaves the box")
        return
    context.rows(
        ("RULE", "NAME", "PORT", "STATE", "ADDRESSES", "CONNECTIONS", "SENT", "RECEIVED", "REFUSED"),
        [
            (
                row.rule,
                row.name or "-",
                str(row.port),
                row.state,
                " ".join(row.addresses) or "-",
                str(row.connections),
                size(row.sent),
                size(row.received),
                str(row.refused),
            )
            for row in rows
        ],
        right=(2, 5, 6, 7, 8),
    )


def _tell(context: Context, done: Repinned) -> None:
    for name, old, new in done.changed:
        context.note(f"{visible(name)}: {' '.join(old) or 'nothing'} -> {' '.join(new)}")
    for name, why in done.kept:
        context.note(f"{visible(name)}: kept as it was: {visible(why)}")
    if not done.changed:
        context.note(f"{done.names} names looked up, none leads elsewhere")


def _person() -> str:
    from backends.verbs.passage import person

    return person()
