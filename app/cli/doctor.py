"""``cloche doctor``: findings with why they matter and what to do, repairs, bundles."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.context import Context
from backends.errors import EXIT_CHECK_FAILED, ClocheError, UsageError
from backends.evidence.visible import visible

if TYPE_CHECKING:
    from backends.snapshots import Finding
    from backends.snapshots_doctor import Repair, Triage

WORDS = {"fail": "FAIL", "warn": "WARN", "note": "NOTE", "ok": "OK"}


def doctor(context: Context, args: argparse.Namespace) -> int:
    """``cloche doctor [BOX]``."""
    if args.open:
        return _opened(context, args)
    if args.box and args.all:
        raise UsageError(
            "one box or all are looked at, not both",
            "a box and --all were given",
            "leave out one of them",
            code="usage",
        )
    if args.bundle:
        _write(Path(args.bundle), context.engine.triage(args.box, everywhere=args.all))
        context.note(f"the bundle is in {args.bundle}: read it before you send it")
    found = _look(context, args)
    repairs: tuple[Repair, ...] = ()
    if args.fix:
        from backends.verbs import passage

        repairs = context.engine.repair(found, passage.person())
        moved = {one.subject for one in repairs if one.fix == "relocate" and one.done}
        if args.box and any(one.subject == args.box for one in found):
            args.box = "" if args.box in moved else args.box
        found = _look(context, args) if repairs else found
    failed = any(row.verdict == "fail" for row in found)
    if context.json:
        context.document(ok=not failed, findings=found, repairs=repairs, bundle=None)
    else:
        for one in repairs:
            context.say(
                f"{'repaired' if one.done else 'NOT repaired'}: {visible(one.finding)}: {visible(one.text)}"
            )
        show(context, found)
    return EXIT_CHECK_FAILED if failed else 0


def _look(context: Context, args: argparse.Namespace) -> tuple[Finding, ...]:
    """The findings; on a terminal it is told meanwhile what is being tried."""
    if context.json or not sys.stderr.isatty():
        return context.engine.doctor(args.box, everywhere=args.all, fresh=args.fresh)

    def progress(what: str) -> None:
        sys.stderr.write(f"\r\x1b[K{visible(what)}")
        sys.stderr.flush()

    try:
        return context.engine.doctor(args.box, everywhere=args.all, fresh=args.fresh, progress=progress)
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def show(context: Context, found: Sequence[Finding]) -> None:
    """A line for each subject that is in order; of all else also the evidence, why it matters, what to do.

    The claims behind a tier are lines only where one does not hold: ``cloche probe`` lists them.
    """
    for row in found:
        well = row.verdict == "ok"
        if well and row.subject == "host" and "." in row.id:
            continue
        context.say(f"{WORDS.get(row.verdict, '?'):4}  {visible(row.id)}: {visible(row.text)}")
        parts = () if well else (("seen", row.evidence), ("why", row.why), ("remedy", row.remedy))
        for name, text in parts:
            if text:
                context.say(f"        {name + ':':7} {visible(text)}")
        if row.fix:
            context.say("                cloche doctor --fix does it")
    counted = [f"{sum(row.verdict == key for row in found)} {key}" for key in ("fail", "warn", "note", "ok")]
    context.say(f"\n{', '.join(counted)}")


def _opened(context: Context, args: argparse.Namespace) -> int:
    triage: Triage = context.engine.open_triage(Path(args.open))
    failed = any(row.verdict == "fail" for row in triage.findings)
    if context.json:
        context.document(ok=not failed, findings=triage.findings, repairs=(), bundle=triage._asdict())
        return EXIT_CHECK_FAILED if failed else 0
    from app.cli.render import moment

    versions = ", ".join(f"{key} {value}" for key, value in sorted(triage.versions.items()))
    context.say(f"Made {moment(triage.made)} on another host or by another person: {visible(versions)}\n")
    context.rows(("FACT", "VALUE"), [(name, value) for _, name, value in triage.facts])
    context.say("")
    show(context, triage.findings)
    return EXIT_CHECK_FAILED if failed else 0


def _write(path: Path, data: bytes) -> None:
    """A new file that only its owner reads; one that is there is not touched."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ClocheError(
            "the bundle cannot be written", f"{path}: {error.strerror}", "name a new file", code="bundle"
        ) from error
