"""Samples to figures: medians, spread, ratios and aims, as text for a terminal and as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bench.results import Results
from bench.rows import GROUPS, MORE_IS_BETTER, Row

SCALES = {"ms": 1e3, "MiB": 1 / (1 << 20), "KiB": 1 / (1 << 10), "%": 1e2, "MB/s": 1e-6, "": 1.0}
NOT_MEASURED = "not measured"
LEFT_OUT = "left out by an option of this run"


class Figures(NamedTuple):
    """One row in figures, in its own unit; ``ratio`` is the median over that of the row beside it."""

    median: float
    p90: float
    least: float
    samples: int
    p99: float
    ratio: float | None


def worst(values: Sequence[float], part: float, *, more_is_better: bool = False) -> float:
    """The sample that ``part`` of all are not worse than, by nearest rank; of few samples the worst."""
    ordered = sorted(values, reverse=more_is_better)
    return ordered[round(part * (len(ordered) - 1))]


def figures(row: Row, results: Results) -> Figures | None:
    """``None`` for a row without samples."""
    values = results.samples.get(row.name)
    if not values:
        return None
    scale = SCALES[row.unit]
    other = results.samples.get(row.beside)
    over = statistics.median(other) if other else 0.0
    median = statistics.median(values)
    return Figures(
        median * scale,
        worst(values, 0.9, more_is_better=row.unit in MORE_IS_BETTER) * scale,
        min(values) * scale,
        len(values),
        worst(values, 0.99, more_is_better=row.unit in MORE_IS_BETTER) * scale,
        median / over if over else None,
    )


def verdict(row: Row, found: Figures) -> str:
    """Whether the aim is met: ``< 60: met``; "" for a row without one, or whose ratio is not known."""
    said = []
    if row.aim is not None:
        said.append(f"< {row.aim:g}: {_met(found.median < row.aim)}")
    if row.aim_p99 is not None:
        said.append(f"p99 {number(found.p99)} < {row.aim_p99:g}: {_met(found.p99 < row.aim_p99)}")
    if row.aim_ratio is not None and found.ratio is not None:
        said.append(f"< {row.aim_ratio:g} x: {_met(found.ratio < row.aim_ratio)}")
    if row.least_ratio is not None and found.ratio is not None:
        said.append(f"> {row.least_ratio:g} x: {_met(found.ratio > row.least_ratio)}")
    return ", ".join(said)


def _met(good: bool) -> str:
    return "met" if good else "MISSED"


def number(value: float) -> str:
    """Three digits that mean something, and never an exponent."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def missing(row: Row, results: Results) -> str:
    return f"{NOT_MEASURED}: {results.absent.get(row.name, 'nothing of this run told why')}"


def lines(rows: Iterable[Row], results: Results) -> list[str]:
    """The table as text, group by group; rows that an option left out are counted and not listed."""
    out = []
    known = list(rows)
    wanted = [row for row in known if results.absent.get(row.name) != LEFT_OUT]
    for group, members in grouped(wanted):
        out += ["", f"{group:52} {'median':>9} {'p90':>9} {'min':>9} {'n':>4}  aim; ratio"]
        for row in members:
            found = figures(row, results)
            if found is None:
                out.append(f"  {row.name:50} {missing(row, results)}")
                continue
            cells = " ".join(f"{number(value):>9}" for value in found[:3])
            notes = [verdict(row, found)] if verdict(row, found) else []
            if found.ratio is not None:
                notes.append(f"{number(found.ratio)} x {row.beside}")
            text = f"  {row.name:50} {cells} {found.samples:>4}  {row.unit}  {'; '.join(notes)}"
            out.append(text.rstrip())
    if len(wanted) < len(known):
        out += ["", f"{len(known) - len(wanted)} rows: {LEFT_OUT}"]
    return out


def markdown(rows: Iterable[Row], results: Results) -> list[str]:
    """The same as Markdown tables, one for each group."""
    out = []
    for group, members in grouped(rows):
        out += ["", f"### {group}", ""]
        out += ["| act | median | p90 | min | n | unit | beside | aim |", "|---|--:|--:|--:|--:|---|---|---|"]
        for row in members:
            found = figures(row, results)
            if found is None:
                out.append(f"| {row.name} | {missing(row, results)} | | | | | | |")
                continue
            beside = f"{number(found.ratio)} x {row.beside}" if found.ratio is not None else ""
            cells = [
                row.name,
                *map(number, found[:3]),
                str(found.samples),
                row.unit,
                beside,
                verdict(row, found),
            ]
            out.append(f"| {' | '.join(cells)} |")
    return out[1:]


def methods(rows: Iterable[Row]) -> list[str]:
    """What each row measures, as a Markdown list."""
    out = []
    for group, members in grouped(rows):
        out += ["", f"**{group}**", ""]
        out += [f"- *{row.name}*: {row.what}." for row in members]
    return out[1:]


def grouped(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Rows by group, groups in their declared order, empty ones left out."""
    known = list(rows)
    found = [(group, [row for row in known if row.group == group]) for group in GROUPS]
    return [(group, members) for group, members in found if members]


def headline(facts: dict[str, object]) -> str:
    """The host in one line."""
    load = facts.get("load_before")
    return (
        f"{facts['subject']}; Linux {facts['kernel']}, {facts['cores']} cores of {facts['processor']}, "
        f"{facts['memory']} of memory, {facts['filesystem']}, Python {facts['python']}, "
        f"{'root' if facts['euid'] == 0 else 'unprivileged'}, "
        f"load {load:.1f} before and {facts.get('load_after', 0.0):.1f} after, Cloche {facts['cloche']}"
    )
