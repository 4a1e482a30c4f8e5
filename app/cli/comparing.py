"""``cloche compare``: boxes side by side."""

from __future__ import annotations

import argparse

from app.cli.context import Context
from app.cli.render import size
from backends.snapshots_compare import ComparedBox, Version
from widgets import units

SHOWN = 200
"""Files that people are shown; the JSON document has them all."""


def compare(context: Context, args: argparse.Namespace) -> int:
    """``cloche compare BOX BOX...``."""
    found = context.engine.compare(args.boxes)
    if context.json:
        context.document(
            boxes=[
                {"box" if name == "row" else name: value for name, value in box._asdict().items()}
                for box in found.boxes
            ],
            files=found.files,
            more=found.more,
            one_base=found.one_base,
        )
        return 0
    if not found.one_base:
        context.note("these boxes did not begin at one commit: a file that is unchanged need not be the same")
    names = [box.row.name for box in found.boxes]
    context.rows(("", *names), [(title, *map(cell, found.boxes)) for title, cell in ROWS])
    context.say("")
    context.rows(
        ("FILE", *names),
        [
            (file.path.decode("utf-8", "surrogateescape"), *(_version(one) for one in file.versions))
            for file in found.files[:SHOWN]
        ],
    )
    more = found.more + max(0, len(found.files) - SHOWN)
    if more:
        context.note(f"and {more} files more: cloche compare --json")
    context.note("equal numbers in one line: the same to the byte")
    return 0


def _state(box: ComparedBox) -> str:
    return box.row.state if box.frozen else f"{box.row.state}, as it is now"


def _lines(box: ComparedBox) -> str:
    return f"+{box.stat.added} -{box.stat.deleted}"


def _tests(box: ComparedBox) -> str:
    if not box.tests:
        return "none ran"
    last = box.tests[-1]
    end = "no end seen" if last.exit is None else f"exit {last.exit}"
    end += " (inside)" if last.inside else ""
    return f"{end}, of {len(box.tests)} runs" if len(box.tests) > 1 else end


def _tried(box: ComparedBox) -> str:
    return f"exit {box.tried[-1].exit}" if box.tried else "no"


ROWS = (
    ("state", _state),
    ("files", lambda box: str(box.stat.files)),
    ("lines", _lines),
    ("size", lambda box: size(box.size)),
    ("last test", _tests),
    ("tried", _tried),
    ("refused", lambda box: str(box.denied)),
    ("sessions", lambda box: str(box.sessions)),
    ("ran for", lambda box: units.span(box.seconds)),
)


def _version(version: Version | None) -> str:
    if version is None:
        return "-"
    lines = "" if version.added is None else f" +{version.added} -{version.deleted}"
    return f"{version.number} {version.status}{lines}"
