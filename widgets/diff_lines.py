"""The first rows of a patch for a pane."""

from __future__ import annotations

from widgets.ink import Line, Run, line
from widgets.patch import ADDED, FILE, HUNK, META, NOTE, REMOVED, SAME, PatchIndex
from widgets.visible import expand_tabs, runs, text_of


def diff_lines(index: PatchIndex, limit: int) -> list[Line]:
    """The first ``limit`` rows of a patch as inked lines, for a pane: a small one shows no context."""
    out: list[Line] = []
    for row in range(len(index)):
        if len(out) >= limit:
            break
        kind = index.kinds[row]
        if kind in (META, NOTE) or (kind == SAME and limit < 60):
            continue
        body = runs(expand_tabs(text_of(index.text(row)))[:400])
        if kind == FILE:
            place = next((file for file in index.files if file.first == row), None)
            out.append(runs(place.path if place else index.text(row), "strong"))
        elif kind == HUNK:
            out.append(line((text_of(index.text(row)).split(" @@")[0].removeprefix("@@ "), "accent")))
        elif kind == ADDED:
            out.append(line(("+ ", "added"), *(Run(run.text, f"added {run.ink}".strip()) for run in body)))
        elif kind == REMOVED:
            out.append(
                line(("- ", "removed"), *(Run(run.text, f"removed {run.ink}".strip()) for run in body))
            )
        else:
            out.append(line("  ", *(Run(run.text, f"quiet {run.ink}".strip()) for run in body)))
    return out
