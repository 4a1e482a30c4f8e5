"""What the fleet screen works out from values: its grid, its header, its words when there is nothing."""

from __future__ import annotations

from collections.abc import Mapping

from backends.snapshots import BoxRow
from widgets.ink import Line, Run, line
from widgets.visible import visible

LOWEST = 9
"""Lines of a pane at least, frame included."""


def pane_grid(width: int, height: int, count: int) -> tuple[int, int]:
    """Columns of the grid, and lines of a pane, for ``count`` panes in ``width`` by ``height`` cells."""
    columns = min(1 if width < 100 else 2 if width < 170 else 3, max(1, count))
    rows = -(-max(1, count) // columns)
    return columns, max(LOWEST, max(1, height) // min(rows, max(1, height // LOWEST)))


def row_heights(height: int, columns: int, lines: int, count: int) -> str:
    """Heights of the grid's rows, as its style takes them; where all fit, the first take what is left."""
    rows = -(-max(1, count) // columns)
    over = height - rows * lines
    if over < 0:
        return str(lines)
    return " ".join(str(lines + over // rows + (place < over % rows)) for place in range(rows))


def neighbour(place: int, key: str, columns: int, count: int) -> int | None:
    """Where an arrow key leads from the pane at ``place``; ``None`` at an edge.

    The last pane is as wide as the rest of its row, so it lies below every pane of the row above.
    """
    step = {"left": -1, "right": 1, "up": -columns, "down": columns}.get(key)
    if step is None:
        return None
    if key == "down" and place // columns < (count - 1) // columns:
        return min(place + columns, count - 1)
    return place + step if 0 <= place + step < count else None


def ordered(rows: tuple[BoxRow, ...], fresh: Mapping[str, int], by_denials: bool) -> tuple[BoxRow, ...]:
    """The boxes as they are shown: by age, or those first that were refused most since the last look."""
    if not by_denials:
        return rows
    return tuple(sorted(rows, key=lambda row: (-fresh.get(row.key, 0), -row.denied, row.created, row.key)))


def fleet_line(
    rows: tuple[BoxRow, ...],
    where: str,
    pattern: str,
    fresh: int = 0,
    by_denials: bool = False,
    marked: int = 0,
) -> Line:
    """Where one is, how many boxes there are, how many live, how many need a person, how many were refused
    something since the person looked at them."""
    live = sum(row.live == "live" for row in rows)
    needs = sum(bool(row.needs) for row in rows)
    parts: list[Run | str] = [Run("cloche", "strong"), "  ", Run(visible(where), "accent")]
    parts += [f"  {len(rows)} {'box' if len(rows) == 1 else 'boxes'}", f"  {live} live"]
    if needs:
        parts.append(Run(f"  {needs} need{'s' if needs == 1 else ''} you", "look strong"))
    if fresh:
        parts.append(Run(f"  {fresh} with new denials", "denial"))
    if by_denials:
        parts.append(Run(" ▾" if fresh else "  denials ▾", "accent"))
    if marked:
        parts.append(Run(f"  {marked} marked", "accent strong"))
    if pattern:
        parts.append(Run(f"  /{visible(pattern)}", "accent"))
    return line(*parts)


def empty_words(read: bool, pattern: str, everywhere: bool) -> tuple[str, str]:
    """What is said in place of boxes, and what to do about it."""
    if not read:
        return "reading the boxes…", ""
    if pattern:
        return f"no box matches “{pattern}”", "esc clears the filter"
    if everywhere:
        return "no boxes on this host", "n makes one"
    return "no boxes in this repository", "n makes one  ·  a shows every repository"


def searched(row: BoxRow) -> str:
    """The text that the filter looks through, as it is shown."""
    words = (row.name, row.state, row.tier, row.live, row.needs, row.last_line, row.repository, row.purpose)
    return visible(" ".join(words)).casefold()
