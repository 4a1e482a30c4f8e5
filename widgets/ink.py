"""Inked lines: what a widget draws, as values. A run is printable text and the name of its ink.

Pure code decides text and ink; a widget turns ink names into the theme's styles
(:class:`widgets.inked.Inked`). Several names may stand in one ink, separated by spaces: ``"denial strong"``.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len, chop_cells

INKS = (
    "denial",  # red: a refusal, or a claim that was refused
    "look",  # amber: a person should look
    "idle",  # grey: idle, or weak evidence
    "live",  # something runs
    "strong",
    "quiet",  # second-rank text
    "faint",  # guides and rules
    "accent",
    "escape",  # a control character made visible
    "key",
    "added",
    "removed",
    "title",
    "word",  # syntax: keywords
    "string",
    "comment",
    "number",
    "name",
    "found",  # what was searched for
    "added-part",  # the words of an added line that differ from the line it replaces
    "removed-part",
)


class Run(NamedTuple):
    text: str
    ink: str = ""


Line = tuple[Run, ...]


def line(*parts: str | Run | Line | tuple[str, str]) -> Line:
    """Runs from trusted words, ``(text, ink)`` pairs, runs and lines, in order."""
    result: list[Run] = []
    for part in parts:
        if isinstance(part, str):
            result.append(Run(part))
        elif isinstance(part, Run):
            result.append(part)
        elif part and isinstance(part[0], str):
            result.append(Run(part[0], str(part[1])))
        else:
            result.extend(run for run in part if isinstance(run, Run))
    return tuple(result)


def width_of(parts: Line) -> int:
    return sum(cell_len(run.text) for run in parts)


def plain(parts: Line) -> str:
    return "".join(run.text for run in parts)


def tint(parts: Line, ink: str) -> Line:
    """The line with ``ink`` added under what each run has."""
    return tuple(Run(run.text, f"{ink} {run.ink}".strip()) for run in parts)


def crop_line(parts: Line, width: int) -> Line:
    """The line cut to ``width`` cells, with an ellipsis where something was cut."""
    if width_of(parts) <= width:
        return parts
    kept: list[Run] = []
    room = max(0, width - 1)
    for run in parts:
        size = cell_len(run.text)
        if size <= room:
            kept.append(run)
            room -= size
            continue
        head = chop_cells(run.text, room)[0] if room > 0 else ""
        if cell_len(head) <= room:
            kept.append(Run(head, run.ink))
        break
    kept.append(Run("…"[:width], "quiet"))
    return tuple(kept)


def fill_line(parts: Line, width: int) -> Line:
    """The line cropped and padded to exactly ``width`` cells."""
    cut = crop_line(parts, width)
    missing = width - width_of(cut)
    return (*cut, Run(" " * missing)) if missing > 0 else cut


def crop_line_left(parts: Line, width: int) -> Line:
    """Like :func:`crop_line`, but the end is kept: for paths, whose last part says most."""
    if width_of(parts) <= width:
        return parts
    kept: list[Run] = []
    room = max(0, width - 1)
    for run in reversed(parts):
        size = cell_len(run.text)
        if size > room:
            tail = run.text[max(0, len(run.text) - room) :] if room else ""
            while cell_len(tail) > room:
                tail = tail[1:]
            kept.append(Run(tail, run.ink))
            break
        kept.append(run)
        room -= size
    return (Run("…"[:width], "quiet"), *reversed(kept))


def spread(left: Line, right: Line, width: int) -> Line:
    """``left`` and ``right`` at the two ends of ``width`` cells; the left side gives way first."""
    tail = crop_line(right, width)
    room = width - width_of(tail)
    return (*fill_line(left, room), *tail) if room > 0 else tail


def wrap_line(parts: Line, width: int, indent: int = 0) -> list[Line]:
    """The line folded at words to ``width`` cells; following lines start ``indent`` cells in."""
    width = max(width, indent + 8)
    if width_of(parts) <= width:
        return [parts]
    done: list[Line] = []
    current: list[Run] = []
    used = 0
    fresh = True

    def flush() -> None:
        nonlocal current, used, fresh
        done.append(tuple(current))
        current = [Run(" " * indent)] if indent else []
        used = indent
        fresh = True

    for run in parts:
        words = run.text.split(" ")
        for number, word in enumerate(words):
            piece = (" " if number else "") + word
            size = cell_len(piece)
            if used + size <= width:
                current.append(Run(piece, run.ink))
                used += size
                fresh = fresh and not piece.strip()
                continue
            too_long = cell_len(word) > width - indent
            if not fresh and not (too_long and width - used >= 8):
                flush()
                piece = word
            while piece:
                room = width - used
                chunk = piece if cell_len(piece) <= room else chop_cells(piece, max(1, room))[0]
                if cell_len(chunk) > room and not fresh:  # a wide character in the last cell
                    flush()
                    continue
                current.append(Run(chunk, run.ink))
                used += cell_len(chunk)
                fresh = False
                piece = piece[len(chunk) :]
                if piece:
                    flush()
    if current:
        done.append(tuple(current))
    return done
