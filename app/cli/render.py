"""Errors and tables for people. Every cell is outside text: escaped, and never read as markup."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backends.errors import EXIT_CHECK_FAILED, ClocheError
from backends.evidence.visible import visible

if TYPE_CHECKING:
    from app.cli.context import Context
    from backends.snapshots import DiffStat, Finding


def report(error: ClocheError, as_json: bool) -> None:
    """Print an error on standard error: three sentences, or ``cloche.error/1``."""
    sys.stdout.flush()
    if as_json:
        text = json.dumps({"schema": "cloche.error/1", **error.as_dict()}, ensure_ascii=True)
    else:
        text = (
            f"cloche: {visible(error.what)}\n  why:  {visible(error.why)}\n  next: {visible(error.next_step)}"
        )
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print columns. A pipe gets every cell whole; a terminal gets lines folded to its width.

    A pipe's table is made without rich, whose import takes longer than all else that ``cloche ls`` does.
    """
    if not rows:
        return
    if not sys.stdout.isatty():
        cells = [[visible(cell) for cell in row] for row in (headers, *rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            padded = [
                cell.rjust(width) if index in right else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            sys.stdout.write("  ".join(padded).rstrip() + "\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for index, header in enumerate(headers):
        grid.add_column(Text(header), justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(visible(cell)) for cell in row))
    Console(markup=False, emoji=False, highlight=False).print(grid)


def size(count: int | None) -> str:
    """Bytes in three digits: 512B, 12.3M."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "K", "M", "G"):
        if value < 1000 or unit == "G":
            return f"{value:.0f}{unit}" if unit == "B" or value >= 100 else f"{value:.1f}{unit}"
        value /= 1024
    return "-"


def diff_size(stat: DiffStat) -> str:
    """A diff's size in words: ``1 file +2 -0``."""
    return f"{stat.files} file{'' if stat.files == 1 else 's'} +{stat.added} -{stat.deleted}"


def age(seconds: float) -> str:
    """A duration in its largest unit: 42s, 13m, 5h, 3d."""
    for limit, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= limit:
            return f"{seconds / limit:.0f}{unit}"
    return f"{max(0, seconds):.0f}s"


def moment(epoch: float) -> str:
    """A time of day of the local clock, with the date."""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch))


def findings(context: Context, rows: Sequence[Finding], **members: object) -> int:
    """Print what a check found; 1 when something failed, else 0."""
    failed = any(row.verdict == "fail" for row in rows)
    if context.json:
        context.document(**members, ok=not failed, findings=rows)
    else:
        table(
            ("VERDICT", "WHAT", "EVIDENCE", "REMEDY"),
            [(row.verdict, f"{row.id}: {row.text}", row.evidence, row.remedy or "-") for row in rows],
        )
    return EXIT_CHECK_FAILED if failed else 0
