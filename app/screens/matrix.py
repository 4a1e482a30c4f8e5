"""The isolation matrix: of this host with its proofs, or of one box with what deletes a cell."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from app.actions import bindings
from app.screens.base import WorkbenchScreen, sentence_of
from backends.host.matrix import NAMES
from backends.snapshots import BoxRow
from backends.snapshots_matrix import Matrix, Project
from widgets import marks
from widgets.header import Header
from widgets.ink import line
from widgets.lines import Document, RowView
from widgets.matrix import MatrixView, ProjectsView, project_paragraphs, row_paragraphs
from widgets.visible import runs

WIDE = 150


class MatrixScreen(WorkbenchScreen):
    """``row`` is a box, or None for the whole table. The proofs are run, or those of an earlier run."""

    CONTEXTS = ("matrix",)
    BINDINGS: ClassVar[list[BindingType]] = bindings("matrix", "anywhere")

    def __init__(self, row: BoxRow | None = None) -> None:
        super().__init__()
        self.row = row
        self.found: Matrix | None = None
        self.products: tuple[Project, ...] = ()

    def compose(self) -> ComposeResult:
        yield Header()
        with Vertical(id="matrix-body"):
            table = MatrixView(id="matrix-rows", classes="frame")
            table.border_title = "What separates what"
            yield table
            products = ProjectsView(NAMES, id="matrix-products", classes="frame")
            products.border_title = "Other products"
            yield products
            told = Document(id="matrix-told", classes="frame")
            told.border_title = "In sentences"
            yield told
        yield self.compose_frame()[1]

    def on_mount(self) -> None:
        super().on_mount()
        self.set_class(self.row is not None, "-box")
        self.set_class(self.size.width >= WIDE, "-wide")
        self.show_header()
        self.show_footer()
        self.workbench.want((), ())
        self.told.set_paragraphs([line(("trying what this host can hold…", "idle"))])
        (self.told if self.row is not None else self.table).focus()
        ref = self.row.key if self.row is not None else None
        self.ask(partial(self.workbench.engine.matrix, ref), self._show, failed=self._failed)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "-wide")

    def on_screen_resume(self) -> None:
        self.workbench.want((), ())

    @property
    def table(self) -> MatrixView:
        return self.query_one(MatrixView)

    @property
    def others(self) -> ProjectsView:
        return self.query_one(ProjectsView)

    @property
    def told(self) -> Document:
        return self.query_one("#matrix-told", Document)

    @property
    def about_products(self) -> bool:
        return self.has_class("-products")

    # ------------------------------------------------------------ what is shown

    def _failed(self, error: Exception) -> None:
        if self.is_attached:
            self.told.set_paragraphs([runs(sentence_of(error), "look")])

    def _show(self, found: Matrix) -> None:
        self.found = found
        self.table.set_matrix(found)
        self.table.border_subtitle = self.table.rich_line(
            line(
                ("✓", "live"),
                (" proved on this host  ", "quiet"),
                ("enter", "key"),
                (" the sentences", "quiet"),
            )
        )
        self._tell()
        self.show_header()

    def _tell(self) -> None:
        """The sentences of what is selected."""
        found, told = self.found, self.told
        if self.about_products:
            project = self.others.selected
            if project is not None:
                told.set_paragraphs(project_paragraphs(project, NAMES))
        elif found is not None:
            row = found.rows[0] if self.row is not None else self.table.selected
            if row is not None:
                told.set_paragraphs(row_paragraphs(row, dict(found.columns), box=self.row is not None))
        told.scroll_to(y=0, animate=False)

    def show_header(self) -> None:
        if self.row is not None:
            parts = line(
                ("fleet › ", "quiet"), *marks.name(self.row), (" › ", "quiet"), ("isolation", "title")
            )
        else:
            what = "other products" if self.about_products else "isolation matrix"
            parts = line(("fleet › ", "quiet"), (what, "title"))
        if self.found is not None and self.found.cached:
            parts = line(*parts, ("  proofs of an earlier run", "quiet"))
        if self.found is not None and self.found.injected:
            parts = line(
                *parts, ("  failures injected: ", "look"), *runs(", ".join(self.found.injected), "look")
            )
        self.query_one(Header).show(parts, self.workbench.host_truth)

    # ------------------------------------------------------------ the person

    def on_row_view_moved(self, event: RowView.Moved) -> None:
        self._tell()

    def on_row_view_chosen(self, event: RowView.Chosen) -> None:
        self.told.focus()

    def do_products(self) -> None:
        """Other products in place of the table, or the table again."""
        if not self.products:
            self.ask(self.workbench.engine.projects, self._others)
            return
        self._turn()

    def _others(self, found: tuple[Project, ...]) -> None:
        self.products = found
        self.others.set_rows(found)
        self._turn()

    def _turn(self) -> None:
        self.toggle_class("-products")
        if self.about_products:
            self.others.focus()
        else:
            (self.told if self.row is not None else self.table).focus()
        self._tell()
        self.show_header()
