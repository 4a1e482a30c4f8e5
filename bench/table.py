"""Samples to figures: medians, spread, ratios, and the raw numbers on disk."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """One measure: its samples in seconds and the measure it stands beside ("" for none)."""

    name: str
    beside: str


def write(folder: Path, subject: str, samples: dict[str, list[float]]) -> Path:
    """Save every sample with the facts of the host; the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / time.strftime("%Y%m%dT%H%M%S.json")
    facts = {
        "subject": subject,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "euid": os.geteuid(),
        "load": os.getloadavg(),
    }
    path.write_text(json.dumps({"facts": facts, "seconds": samples}, indent=1) + "\n")
    return path


def lines(rows: list[Row], samples: dict[str, list[float]]) -> list[str]:
    """The table as text: milliseconds; the ratio is the median over that of the measure beside it."""
    medians = {name: statistics.median(values) for name, values in samples.items() if values}
    out = [f"{'':42} {'median':>8} {'p90':>8} {'min':>8} {'n':>4}  ratio"]
    for row in rows:
        values = sorted(samples.get(row.name, []))
        if not values:
            out.append(f"{row.name:42} {'not run':>8}")
            continue
        high = values[min(len(values) - 1, round(0.9 * (len(values) - 1)))]
        text = f"{row.name:42} {_ms(medians[row.name])} {_ms(high)} {_ms(values[0])} {len(values):>4}"
        if row.beside in medians:
            text += f"  {medians[row.name] / medians[row.beside]:.2f} x {row.beside}"
        out.append(text)
    return out


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:8.1f}"
