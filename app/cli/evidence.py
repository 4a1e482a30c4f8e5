"""Verbs that show what a box received, runs, was refused and did."""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterable

from app.cli.boxes import state_text
from app.cli.context import UNCONFINED, Context, plain
from app.cli.render import age, diff_size, moment, size
from backends.errors import ClocheError, UsageError
from backends.evidence.visible import visible
from backends.snapshots import BoxRow, EgressRow, JournalRecord

LONGEST = 300  # characters of one record's values on a line


def status(context: Context, args: argparse.Namespace) -> int:
    """``cloche status BOX``."""
    found = context.engine.status(args.box)
    if context.json:
        context.document(
            box=found.row,
            policy_digest=found.policy_digest,
            launch_host=found.launch_host,
            tree_provider=found.tree_provider,
            tree_reason=found.tree_reason,
            enforcement=found.enforcement,
            claims=found.claims,
            answers=found.answers,
            snapshot=found.snapshot,
            egress=_egress(context, found.row),
        )
        return 0
    row = found.row
    less = "nothing confines it: its processes run as you" if row.unconfined else row.caveat
    facts = [
        ("box", row.key),
        ("tier", f"{row.tier}, {less}" if less else row.tier),
        ("state", state_text(row)),
        ("base", f"{row.base} {row.base_ref.removeprefix('refs/heads/')}".strip()),
        ("drift", "cannot be told" if row.drift is None else f"{row.drift} commits"),
        ("profile", row.profile),
        ("policy", found.policy_digest),
        ("tree", ": ".join(filter(None, (found.tree_provider, found.tree_reason)))),
        ("launched", found.launch_host or "never: what follows a launch is not known yet"),
        ("purpose", row.purpose or "-"),
    ]
    if found.snapshot:
        facts.append(("proposal", f"{found.snapshot.id} ({diff_size(found.snapshot.stat)})"))
    if row.needs:
        facts.append(("needs you", row.needs))
    context.rows(("WHAT", "VALUE"), facts)
    if row.unconfined:
        context.say(f"\n{UNCONFINED}")
    context.say("\nWhat it received")
    if found.enforcement:
        context.rows(
            ("KEY", "REQUESTED", "ENFORCED", "MISSING", "MECHANISM", "PROOF"),
            [
                (
                    e.key,
                    e.requested,
                    e.enforced or "not enforced",
                    e.missing or "-",
                    e.mechanism,
                    e.proof or "-",
                )
                for e in found.enforcement
            ],
        )
    else:
        context.say("not launched yet")
    if found.claims:
        context.say("\nWhat was proved when it was launched")
        context.rows(
            ("RESULT", "CLAIM", "EVIDENCE"),
            [(claim.result, claim.text, claim.evidence) for claim in found.claims],
        )
    destinations = _egress(context, row)
    if destinations is not None:
        from app.cli import egress

        context.say("\nWhere its packets may go")
        egress.show(context, destinations)
    context.say("")
    for question, answer in found.answers:
        context.say(f"{question}\n  {visible(answer)}")
    return 0


def _egress(context: Context, row: BoxRow) -> tuple[EgressRow, ...] | None:
    """The destinations of a box that has a list and lives."""
    if row.tier != "supervised" or row.live != "live":
        return None
    try:
        return context.engine.egress(row.key)
    except ClocheError as error:
        context.note(f"where its packets may go is not told: {error.what}: {error.why}")
        return None


def ps(context: Context, args: argparse.Namespace) -> int:
    """``cloche ps BOX``."""
    context.warn_unconfined(args.box)
    paths = context.engine.find(args.box)
    context.engine.processes(args.box)
    time.sleep(0.25)  # a share of CPU needs two looks
    rows = context.engine.processes(args.box)
    if context.json:
        context.document(box=paths.key, processes=rows)
        return 0
    if not rows:
        context.note("no process runs in it")
        return 0
    context.rows(
        ("PID", "STATE", "CPU%", "MEM", "AGE", "SESSION", "COMMAND"),
        [
            (
                str(row.ident.pid),
                row.state,
                f"{row.cpu:.0f}",
                size(row.rss),
                age(row.age),
                "-" if row.session is None else str(row.session),
                "  " * min(row.depth, 20) + row.command,
            )
            for row in rows
        ],
        right=(0, 2, 3, 4, 5),
    )
    return 0


def denials(context: Context, args: argparse.Namespace) -> int:
    """``cloche denials BOX``."""
    context.warn_unconfined(args.box)
    tally = context.engine.tally(args.box)
    if context.json:
        paths = context.engine.find(args.box)
        context.document(
            box=paths.key,
            total=tally.total,
            others=tally.others,
            rows=tally.rows,
            not_observed=tally.not_observed,
            lost=dict(tally.lost),
        )
        return 0
    if tally.rows:
        context.rows(
            ("N", "COUNT", "KIND", "OBJECT", "RULE", "LANE", "BY", "PID", "COMMAND", "LAST"),
            [
                (
                    str(number),
                    str(row.count),
                    row.kind,
                    row.object,
                    row.rule,
                    row.lane,
                    row.enforced_by,
                    str(row.pid) if row.pid else "-",
                    row.command,
                    moment(row.last),
                )
                for number, row in enumerate(tally.rows, 1)
            ],
            right=(0, 1, 7),
        )
    context.say(
        f"{tally.total} refused" + (f", {tally.others} of them without a row" if tally.others else "")
    )
    for missing in tally.not_observed:
        context.say(f"not observed: {missing.kind} ({visible(missing.reason)})")
    for what, count in tally.lost:
        context.say(f"lost: {count} {visible(what)} happened and could not be looked at")
    return 0


def _line(record: JournalRecord) -> str:
    """One record as one line; its values are outside text."""
    said = " ".join(f"{key}={_value(value)}" for key, value in record.data.items())
    shown = said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
    return f"{record.seq:>6} {moment(record.time)} {record.kind:<14} {visible(shown)}"


def _value(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) if all(isinstance(one, str) for one in value) else str(value)
    return str(value)


def log(context: Context, args: argparse.Namespace) -> int:
    """``cloche log BOX [-n N]``."""
    if args.last and not args.last.isdecimal():
        raise UsageError(
            f"{args.last!r} is no number of records",
            "a whole number is needed",
            "cloche log BOX -n 20",
            code="usage",
        )
    context.warn_unconfined(args.box)
    records: Iterable[JournalRecord] = context.engine.journal(args.box)
    if args.last:
        records = deque(records, maxlen=int(args.last))
    if context.json:
        context.document(box=context.engine.find(args.box).key, records=[plain(one) for one in records])
        return 0
    for record in records:
        context.say(_line(record))
    return 0


def watch(context: Context, args: argparse.Namespace) -> int:
    """``cloche watch BOX [--deny-only]``: until interrupted, or the box is removed."""
    context.warn_unconfined(args.box)
    key = context.engine.find(args.box).key
    for record in context.engine.follow(args.box):
        if args.deny_only and record.kind != "denial":
            continue
        if context.json:
            context.document(box=key, **record._asdict())
        else:
            context.say(_line(record))
            sys.stdout.flush()
    return 0
