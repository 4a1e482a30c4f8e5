"""``cloche matrix``: what separates what, and what of it was proved here."""

from __future__ import annotations

import argparse
import shutil
import sys

from app.cli.context import Context
from app.cli.render import age, table
from backends.errors import UsageError
from backends.evidence.visible import visible
from backends.snapshots_matrix import Matrix, MatrixCell, MatrixRow, Project, Said

SIGNS = {"proved": "+ ", "failed": "! ", "not run": "? ", "": "  "}
WIDE = 140
"""Columns of a terminal that has room for the whole table."""
FIRST = 4
"""Columns of the table that every terminal shows."""
HEADINGS = {
    "tier": "Cloche's tiers",
    "technology": "Other ways, as their own pages say",
    "explained": "For comparison",
}


def matrix(context: Context, args: argparse.Namespace) -> int:
    """``cloche matrix [BOX] [--projects]``."""
    if args.projects:
        if args.box:
            raise UsageError(
                "cloche matrix cannot be read",
                "--projects is about other products, not about a box",
                f"cloche matrix {args.box}, or cloche matrix --projects",
                code="usage",
            )
        return _projects(context)
    found = context.engine.matrix(args.box)
    if context.json:
        context.document(
            box=found.box,
            columns=[{"id": ident, "title": title} for ident, title in found.columns],
            rows=found.rows,
            tried=found.tried,
            cached=found.cached,
            injected=found.injected,
            projects=None,
        )
    elif found.box:
        _box(context, found)
    else:
        _host(context, found)
    return 0


def _host(context: Context, found: Matrix) -> None:
    shown = len(found.columns) if _room() else FIRST
    for kind, heading in HEADINGS.items():
        context.say(f"{'' if kind == 'tier' else chr(10)}{heading}")
        table(
            ("", *(title.upper() for _, title in found.columns[:shown])),
            [(row.name, *map(_short, row.cells[:shown])) for row in found.rows if row.kind == kind],
        )
    for row in found.rows:
        if row.kind == "tier" and row.state == "failed":
            context.note(f"{row.name} cannot be had on this host: {row.evidence}")
        elif row.kind == "tier" and row.state == "not in this version":
            context.note(f"{row.name}: {row.state}; its row is what it promises")
    context.note(_when(found))
    if shown < len(found.columns):
        titles = ", ".join(title for _, title in found.columns[shown:])
        context.note(f"on a wider terminal or in a pipe also: {titles}")
    context.note("the sentences behind these words: docs/matrix.md, or cloche matrix --json")


def _room() -> bool:
    """Whether all columns fit: a pipe gets everything."""
    return not sys.stdout.isatty() or shutil.get_terminal_size().columns >= WIDE


def _box(context: Context, found: Matrix) -> None:
    row = found.rows[0]
    titles = dict(found.columns)
    context.say(visible(f"{found.box}, tier {row.name}"))
    for cell in row.cells:
        context.say(f"\n{titles[cell.column]}: {visible(cell.short)}")
        for deleted in cell.deleted_by:
            where = f" ({deleted.where})" if deleted.where else ""
            told = f"DELETED by {deleted.key} = {deleted.value}: {deleted.text}{where}"
            context.say(f"  {visible(told)}")
        context.say(f"  {visible(cell.text)}")
        if cell.result == "not run":
            context.say("  not run at a launch so far")
        elif cell.result:
            context.say(f"  at its last launch {visible(_proof(row, cell))}")
    if row.id == "workspace":
        context.note("nothing confines this tier: no cell is there to be deleted")
    elif not any(cell.deleted_by for cell in row.cells):
        context.note("nothing in its policy deletes a cell")
    if any(cell.result == "not run" for cell in row.cells):
        context.note(f"not run: the box was never live; cloche run {found.box} -- true")


def _short(cell: MatrixCell) -> str:
    return f"{SIGNS[cell.result]}{cell.short}"


def _proof(row: MatrixRow, cell: MatrixCell) -> str:
    names = ", ".join(
        claim.id.removeprefix(f"{row.id}.") for claim in cell.claims if claim.result != "failed"
    )
    failed = "; ".join(f"{claim.text} {claim.evidence}" for claim in cell.claims if claim.result == "failed")
    return failed or (f"{cell.result}: {names}" if names else cell.result)


def _when(found: Matrix) -> str:
    marks = "+ proved on this host, ! failed, ? not run, without a mark: no claim is about it"
    if not found.cached:
        return marks
    import time

    past = age(max(0.0, time.time() - found.tried))
    return f"{marks}; proofs of {past} ago, cloche probe --fresh runs them anew"


def _projects(context: Context) -> int:
    found = context.engine.projects()
    if context.json:
        context.document(box="", columns=[], rows=[], tried=0.0, cached=False, injected=[], projects=found)
        return 0
    from backends.host.matrix import NAMES

    context.rows(
        ("PRODUCT", "SANDBOX", "SNAPSHOT", "ROW", "REMARK", "READ"),
        [
            (one.name, one.sandbox.text, one.snapshot.text, _row(one, NAMES), one.remark.text, one.read)
            for one in found
        ],
    )
    context.say("\nSources")
    context.rows(("PRODUCT", "ABOUT", "SOURCE"), [row for one in found for row in _sources(one)])
    context.note("as their own pages describe them; nothing here was tried on this host")
    return 0


def _row(one: Project, names: dict[str, str]) -> str:
    rows = " or ".join(names[ident] for ident in one.rows)
    return f"{rows} ({one.doubt})" if one.doubt else rows


def _sources(one: Project) -> list[tuple[str, str, str]]:
    said: tuple[tuple[str, Said], ...] = (
        ("sandbox", one.sandbox),
        ("snapshot", one.snapshot),
        ("remark", one.remark),
    )
    return [(one.name, about, what.source or what.text) for about, what in said]
