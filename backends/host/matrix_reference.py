"""Writes ``docs/matrix.md`` from the tables that ``cloche matrix`` and its screen show.

``python -m backends.host.matrix_reference > docs/matrix.md``; a test compares the two.
"""

from __future__ import annotations

import sys

from backends.host.matrix import NAMES
from backends.host.matrix_explained import EXPLAINED
from backends.host.matrix_projects import PROJECTS
from backends.host.matrix_technologies import TECHNOLOGIES
from backends.host.matrix_tiers import TIERS
from backends.host.matrix_words import COLUMNS, MEASURED, READ, Row
from backends.policy.escapes import DELETIONS
from backends.snapshots_matrix import Project, Said

HEAD = """
# Isolation matrix

<!-- Written by backends/host/matrix_reference.py from the tables of the code. Change those, then run:
     python -m backends.host.matrix_reference > docs/matrix.md -->

What does each way to hold a program separate, and what does it not? Rows are different promises, not steps of
one ladder, and none gets a score: two cells that say "shared" are not equally far from one that does not.

`cloche matrix` prints the table with what this host proved; `I` opens it in the workbench, from a box that
box's own row. `cloche matrix BOX` prints that row: the proofs of its last launch, and what in its policy
deletes a cell. A cell is marked as proved only when every claim that it rests on was proved by an action that
was run (`cloche probe` prints them all). **Measured start** is measured on the host that prints it, or
not at all.

Sources were read on {read}, from stored copies of the pages. What no page was found for says "unverified".
"""

TIERS_HEAD = """
## Cloche's tiers

`container` and `microvm` are in the table as they are promised; `cloche probe` says which tiers this version
and this host have.
"""

TECHNOLOGIES_HEAD = """
## Other ways

Shortened from their own pages, which are named. This host proves nothing about them. *A plain process* is an
agent that is started as you would start an editor.
"""

EXPLAINED_HEAD = """
## For comparison
"""

DELETIONS_HEAD = """
## What deletes a cell

A cell is true for a configuration. These make it false: look for them first when something got out.
`cloche policy check` and `cloche new` warn about those that a profile can have ([policy.md](policy.md) lists
the paths), and `cloche matrix BOX` names them with the file and line that stated them.

| configuration | columns | what holds then |
|---|---|---|
"""

PROJECTS_HEAD = """
## Other products

As their own pages describe them (`cloche matrix --projects`). The row is the one above that their sandbox
belongs to; a snapshot is a way back or on, and isolates nothing.

| product | sandbox | snapshot | row | remark | read |
|---|---|---|---|---|---|
"""


def render() -> str:
    """The whole document."""
    parts = [
        HEAD.format(read=READ),
        TIERS_HEAD + _table(TIERS, proofs=True),
        TECHNOLOGIES_HEAD + _table(TECHNOLOGIES),
        EXPLAINED_HEAD + _table(EXPLAINED),
        DELETIONS_HEAD + "\n".join(_deletions()),
        PROJECTS_HEAD + "\n".join(map(_project, PROJECTS)),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _table(rows: tuple[Row, ...], *, proofs: bool = False) -> str:
    """An overview in a few words, then each row's sentences."""
    columns = [(ident, title) for ident, title in COLUMNS if ident != MEASURED]
    lines = ["", f"| | {' | '.join(title for _, title in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        short = {cell.column: cell.short for cell in row.cells}
        lines.append(f"| {_name(row)} | {' | '.join(short[ident] for ident, _ in columns)} |")
    for row in rows:
        lines += ["", f"### {_name(row)}", ""]
        titles = dict(columns)
        for cell in row.cells:
            claims = ", ".join(f"`{ident}`" for ident in cell.claims)
            rests = f" Rests on: {claims}" if proofs and claims else ""
            if rests:
                rests += f"; on a host also: {', '.join(f'`{ident}`' for ident in cell.probed)}."
            lines.append(f"- **{titles[cell.column]}**: {cell.text}{rests}")
        if row.sources:
            lines += ["", f"Sources: {', '.join(f'<{source}>' for source in row.sources)}."]
    return "\n".join(lines)


def _name(row: Row) -> str:
    return f"`{row.name}`" if row.kind == "tier" else row.name


def _deletions() -> list[str]:
    titles = dict(COLUMNS)
    return [
        f"| {one.what} | {', '.join(titles[column] for column in one.columns)} | {one.text} |"
        for one in DELETIONS
    ]


def _project(project: Project) -> str:
    rows = " or ".join(NAMES[ident] for ident in project.rows)
    doubt = f" ({project.doubt})" if project.doubt else ""
    return (
        f"| {project.name} | {_said(project.sandbox)} | {_said(project.snapshot)} | {rows}{doubt} "
        f"| {_said(project.remark)} | {project.read} |"
    )


def _said(said: Said) -> str:
    return f"{said.text} ([source]({said.source}))" if said.verified else said.text


if __name__ == "__main__":
    sys.stdout.write(render())
