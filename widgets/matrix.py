"""The isolation matrix: a row for each way to hold a program, and everything that is known of one row."""

from __future__ import annotations

from collections.abc import Mapping

from backends.snapshots_matrix import Matrix, MatrixCell, MatrixRow, Project, Said
from widgets import marks
from widgets.ink import Line, Run, fill_line, line
from widgets.lines import RowView
from widgets.visible import fit, runs

Paragraph = Line | tuple[Line, int]

NAME = 19
LEAST = 17
"""Cells that a column needs to say something."""
INDENT = 4
KINDS = {
    "tier": "a tier of Cloche's",
    "technology": "another way, as its own pages say",
    "explained": "explained for comparison",
}
STATES = {
    "proved": ("live", "this host has it"),
    "failed": ("look strong", "this host cannot have it"),
    "not run": ("idle", "not tried on this host"),
    "not in this version": ("idle", "this version does not have it: the row is what it promises"),
}


def shown(columns: int, width: int) -> tuple[int, int]:
    """How many of ``columns`` are shown in ``width`` cells, never less than four, and how wide each is."""
    count = min(columns, max(4, (width - NAME) // LEAST))
    return count, max(1, (width - NAME) // count)


class MatrixView(RowView[MatrixRow]):
    """The table. What has no room in a cell is in the text of the row."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.columns: tuple[tuple[str, str], ...] = ()

    def set_matrix(self, matrix: Matrix) -> None:
        self.columns = matrix.columns
        self.set_rows(matrix.rows)

    def key_of(self, row: MatrixRow) -> str:
        return row.id

    def heading(self, width: int) -> Line | None:
        count, size = shown(len(self.columns) or 1, width)
        parts = [Run(fit("", NAME))]
        for _, title in self.columns[:count]:
            words = title if len(title) + 2 < size else title.rsplit(" ", 1)[-1]
            parts.append(Run(fit(f"  {words}", size), "quiet"))
        return fill_line(tuple(parts), width)

    def row_line(self, index: int, row: MatrixRow, width: int) -> Line:
        count, size = shown(len(self.columns) or 1, width)
        ink = "strong" if row.kind == "tier" else "quiet" if row.kind == "explained" else ""
        parts = [Run(fit(row.name, NAME - 1) + " ", ink)]
        for cell in row.cells[:count]:
            parts += cell_line(cell, row, size)
        return tuple(parts)

    def empty_line(self) -> Line:
        return line(("trying what this host can hold…", "idle"))


def cell_line(cell: MatrixCell, row: MatrixRow, size: int) -> Line:
    """A cell in ``size`` cells: its mark, then its words; quiet where this host has nothing of the row."""
    sign, ink = marks.RESULTS.get(cell.result, (" ", ""))
    words = "" if row.state in ("", "proved") else "quiet"
    return line((f"{sign} ", ink), (fit(cell.short, max(1, size - 3)) + " ", words))


def row_paragraphs(row: MatrixRow, titles: Mapping[str, str], *, box: bool = False) -> list[Paragraph]:
    """Every sentence of a row: what holds, on what proof, what deletes it, and the pages that say so."""
    ink, said = STATES.get(row.state, ("quiet", ""))
    told: list[Paragraph] = [line((row.name, "title"), (f"  {KINDS.get(row.kind, '')}", "quiet"))]
    if said:
        told.append((line((said, ink), *_after(row.evidence)), INDENT))
    for cell in row.cells:
        told += _cell(cell, titles[cell.column], box)
    if row.sources:
        told += [(), line(("Pages, read on ", "quiet"), row.read)]
        told += [(line("  ", *runs(source, "accent")), INDENT) for source in row.sources]
    return told


def _after(evidence: str) -> Line:
    return line((": ", "quiet"), *runs(evidence)) if evidence else ()


def _cell(cell: MatrixCell, title: str, box: bool) -> list[Paragraph]:
    sign, ink = marks.RESULTS.get(cell.result, ("", ""))
    head = line((title, "accent"), "  ", *runs(cell.short, "strong"))
    gone = box and bool(cell.deleted_by)
    if gone:  # what is proved of it is what is left
        head = line(*head, "  ", ("✗ deleted", "denial strong"))
    elif cell.result:
        head = line(*head, "  ", (f"{sign} {cell.result}", ink))
    told: list[Paragraph] = [(), head]
    if gone:
        told += [(_deletion(one.key, one.value, one.text, one.where), INDENT) for one in cell.deleted_by]
    told.append((line("  ", (_words(cell.text), "quiet" if gone else "")), 2))
    for claim in cell.claims:
        mark, shade = marks.RESULTS.get(claim.result, ("?", "idle"))
        proof = line((f"  {mark} ", shade), *runs(claim.text), ("  ", ""), *runs(claim.evidence, "quiet"))
        told.append((proof, INDENT))
    if cell.deleted_by and not box:
        told.append((line(("  deleted where there is ", "quiet"), *_some(cell)), INDENT))
    return told


def _words(text: str) -> str:
    """A sentence of the table without the marks that a document needs."""
    return text.replace("`", "")


def _some(cell: MatrixCell) -> Line:
    parts: list[Line] = []
    for place, one in enumerate(cell.deleted_by):
        parts.append(line(("; ", "quiet") if place else "", _words(one.text)))
    return line(*(run for part in parts for run in part))


def _deletion(key: str, value: str, text: str, where: str) -> Line:
    """What in a box's policy makes the cell false: it stands out, and says where it was stated."""
    told = line(("  ✗ deleted by ", "denial strong"), *runs(f"{key} = {value}", "strong"), ": ", *runs(text))
    return line(*told, ("  ", ""), *runs(where, "quiet")) if where else told


class ProjectsView(RowView[Project]):
    """Other products and what their sandboxes are."""

    def __init__(
        self, names: Mapping[str, str], *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.names = names

    def key_of(self, row: Project) -> str:
        return row.name

    def sizes(self, width: int) -> tuple[int, int, int]:
        """Cells of the sandbox, the snapshot and the row."""
        room = max(3, width - NAME)
        return room - 2 * (room // 3), room // 3, room // 3

    def heading(self, width: int) -> Line | None:
        titles = zip(("sandbox", "snapshot", "row"), self.sizes(width), strict=True)
        return fill_line(
            (Run(fit("", NAME)), *(Run(fit(title, size), "quiet") for title, size in titles)), width
        )

    def row_line(self, index: int, row: Project, width: int) -> Line:
        sandbox, snapshot, of = self.sizes(width)
        return line(
            (fit(row.name, NAME - 1) + " ", "strong"),
            (fit(row.sandbox.text, sandbox - 1) + " ", ""),
            (fit(row.snapshot.text, snapshot - 1) + " ", "" if row.snapshot.verified else "idle"),
            (fit(row_names(row, self.names), of), "accent"),
        )

    def empty_line(self) -> Line:
        return line(("reading…", "idle"))


def row_names(project: Project, names: Mapping[str, str]) -> str:
    """The rows of the matrix that a product belongs to, its default first."""
    return " or ".join(names.get(ident, ident) for ident in project.rows)


def project_paragraphs(project: Project, names: Mapping[str, str]) -> list[Paragraph]:
    """Everything that is known of a product, each statement with its page."""
    told: list[Paragraph] = [line((project.name, "title"), ("  as its own pages describe it", "quiet"))]
    for title, said in (
        ("sandbox", project.sandbox),
        ("snapshot", project.snapshot),
        ("remark", project.remark),
    ):
        told += [(), line((title, "accent")), (line("  ", *_said(said)), 2)]
        if said.verified:
            told.append((line("  ", *runs(said.source, "quiet")), INDENT))
    told += [(), line(("row of the matrix", "accent")), (line("  ", row_names(project, names)), 2)]
    if project.doubt:
        told.append((line("  ", (project.doubt, "look")), 2))
    told += [
        (),
        line(("read on ", "quiet"), project.read, ("; nothing of it was tried on this host", "quiet")),
    ]
    return told


def _said(said: Said) -> Line:
    return runs(_words(said.text)) if said.verified else line((said.text, "idle"))
