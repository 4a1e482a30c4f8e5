"""Errors and tables for people. Every cell is outside text: escaped, and never read as markup."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TextIO

from app.cli.escape import escape
from backends.errors import ClocheError


def report(error: ClocheError, as_json: bool) -> None:
    """Print an error on standard error: three sentences, or ``cloche.error/1``."""
    sys.stdout.flush()
    if as_json:
        text = json.dumps({"schema": "cloche.error/1", **error.as_dict()}, ensure_ascii=True)
    else:
        text = f"cloche: {escape(error.what)}\n  why:  {escape(error.why)}\n  next: {escape(error.next_step)}"
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print columns. A pipe gets every cell whole; a terminal gets lines folded to its width."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for index, header in enumerate(headers):
        grid.add_column(Text(header), justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(escape(cell)) for cell in row))
    console(sys.stdout, Console).print(grid)


def console(stream: TextIO, kind: type) -> object:
    """A console that adds nothing of its own: no markup, no emoji, no highlighting."""
    width = None if stream.isatty() else 10_000
    return kind(file=stream, width=width, markup=False, emoji=False, highlight=False)


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
