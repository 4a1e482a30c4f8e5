"""Numbers in the few cells that a row has for them."""

from __future__ import annotations

import time


def size(count: int) -> str:
    """Bytes in at most five cells, binary multiples: ``812K``, ``4.2G``."""
    value = float(count)
    for unit in ("B", "K", "M", "G", "T"):
        if value < 1000 or unit == "T":
            return f"{value:.0f}{unit}" if value >= 10 or unit == "B" else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.0f}T"


def span(seconds: float) -> str:
    """A duration in at most four cells: ``9s``, ``12m``, ``3h``, ``5d``."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400 * 2:
        return f"{whole // 3600}h"
    return f"{whole // 86400}d"


def percent(value: float) -> str:
    return f"{value:.0f}%" if value >= 0.5 or value == 0 else "<1%"


def count(value: int) -> str:
    """A count in at most five cells."""
    if value < 10_000:
        return str(value)
    return f"{value // 1000}k" if value < 1_000_000 else f"{value // 1_000_000}M"


def clock(when: float) -> str:
    """Local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(when))


def moment(when: float) -> str:
    """Local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def when(then: float, now: float | None = None) -> str:
    """A local time in at most eight cells: the time of day today, the day before that."""
    there, here = time.localtime(then), time.localtime(now)
    if there[:3] == here[:3]:
        return time.strftime("%H:%M:%S", there)
    return time.strftime("%b %d" if there[0] == here[0] else "%Y-%m", there)
