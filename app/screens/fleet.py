"""The fleet: every box at once, as panes or as a table."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid
from textual.events import Key
from textual.widgets import Input

from app.action import Situation
from app.actions import bindings
from app.screens.fleet_parts import (
    empty_words,
    fleet_line,
    neighbour,
    ordered,
    pane_grid,
    row_heights,
    searched,
)
from app.screens.verbs import BoxVerbs
from backends.snapshots import BoxRow, BoxView
from widgets.box_table import BoxTable
from widgets.header import Header
from widgets.ink import line
from widgets.lines import Document, RowView
from widgets.pane import VIEWS, BoxPane
from widgets.patch import PatchIndex
from widgets.visible import visible


class FleetScreen(BoxVerbs):
    """Opens first. Panes show what runs; the table holds many boxes."""

    CONTEXTS = ("fleet",)
    BINDINGS: ClassVar[list[BindingType]] = bindings("fleet", "anywhere")

    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[BoxRow, ...] = ()
        self.pattern = ""
        self.shows = "tree"
        self.by_denials = False
        self.marked: list[str] = []  # keys of boxes, in the order in which they were marked
        self._columns = 1
        self._read = False

    def compose(self) -> ComposeResult:
        yield Header()
        yield Input(placeholder="filter by name, state, tier or last line", id="filter")
        yield Grid(id="panes")
        yield BoxTable(id="table")
        yield Document(id="empty")
        yield self.compose_frame()[1]

    def on_mount(self) -> None:
        self.query_one("#empty", Document).can_focus = False
        self._say_empty("reading the boxes…", "")
        self.add_class("-empty")
        self._arrange()
        self.show_header()
        self.show_footer()
        if self.workbench.read:  # the first list may have come before this screen was ready
            self.boxes_changed(self.workbench.rows)

    def on_screen_resume(self) -> None:
        self.want()
        if self._read:  # a box was looked at meanwhile
            self._fill()
        self.show_footer()

    # ------------------------------------------------------------ values in

    def boxes_changed(self, rows: tuple[BoxRow, ...]) -> None:
        self.rows = rows
        self._read = True
        self._fill()

    def view_changed(self, view: BoxView) -> None:
        pane = self._pane(view.row.key)
        if pane is not None:
            pane.set_view(view)

    def box_failed(self, key: str, why: str) -> None:
        pane = self._pane(key)
        if pane is not None:
            pane.set_trouble(visible(why))

    def patch_changed(self, key: str, patch: PatchIndex) -> None:
        pane = self._pane(key)
        if pane is not None:
            pane.set_patch(patch)
            self.want()

    # ------------------------------------------------------------ what is shown

    @property
    def table(self) -> BoxTable:
        return self.query_one("#table", BoxTable)

    @property
    def as_table(self) -> bool:
        return self.has_class("-table")

    def panes(self) -> list[BoxPane]:
        return [child for child in self.query_one("#panes", Grid).children if isinstance(child, BoxPane)]

    def _pane(self, key: str) -> BoxPane | None:
        return next((pane for pane in self.panes() if pane.key == key), None)

    def shown_rows(self) -> tuple[BoxRow, ...]:
        """The rows that the filter lets through, in the order of the screen."""
        wanted = self.pattern.casefold()
        rows = tuple(row for row in self.rows if not wanted or wanted in searched(row))
        return ordered(rows, self.fresh(), self.by_denials)

    def fresh(self) -> dict[str, int]:
        """What was refused since the person looked at each box last, boxes without left out."""
        counts = ((row.key, self.workbench.looked.fresh(row)) for row in self.rows)
        return {key: count for key, count in counts if count}

    def _fill(self) -> None:
        rows = self.shown_rows()
        self.set_class(not rows, "-empty")
        if not rows:
            self._explain()
        fresh = self.fresh()
        there_are = {row.key for row in self.rows}
        self.marked = [key for key in self.marked if key in there_are]
        self.table.set_boxes(rows, fresh, self.marked)
        grid = self.query_one("#panes", Grid)
        there = {pane.key: pane for pane in self.panes()}
        wanted = {row.key for row in rows}
        for key, pane in there.items():
            if key not in wanted:
                pane.remove()
        made: list[BoxPane] = []
        for row in rows:
            if row.key in there:
                there[row.key].set_row(row, fresh.get(row.key, 0))
            else:
                made.append(BoxPane(row, self.shows, fresh.get(row.key, 0)))
        if made:
            grid.mount_all(made)
        places = {row.key: place for place, row in enumerate(rows)}
        keys = [places[pane.key] for pane in self.panes() if pane.key in places]
        if keys != sorted(keys):
            grid.sort_children(key=lambda pane: places.get(pane.key, 0) if isinstance(pane, BoxPane) else 0)
        self._show_marks()
        self._arrange()
        self.show_header()
        self.show_footer()
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        """After panes came or went: something is focused, and what is on screen is asked for."""
        if self.app.screen is not self:
            return
        if self.focused is None and not self.has_class("-empty"):
            self._focus_first()
        self.want()

    def _focus_first(self) -> None:
        if self.as_table:
            self.table.focus()
        elif self.panes():
            self.panes()[0].focus()

    def _explain(self) -> None:
        self._say_empty(*empty_words(self._read, self.pattern, self.workbench.everywhere))

    def _say_empty(self, what: str, then: str) -> None:
        self.query_one("#empty", Document).set_paragraphs(
            [line((visible(what), "title")), (), line((then, "quiet"))]
        )

    def _arrange(self) -> None:
        """Columns and heights of the panes by the room that there is."""
        count = len(self.panes()) or 1
        room = self.size.height - 2 - self.has_class("-filtering")
        self._columns, lines = pane_grid(self.size.width, room, count)
        grid = self.query_one("#panes", Grid)
        grid.set_class(self._columns == 2, "-two")
        grid.set_class(self._columns == 3, "-three")
        grid.styles.grid_rows = row_heights(room, self._columns, lines, count)
        last = count % self._columns
        for place, pane in enumerate(self.panes(), 1):  # the last takes what its row has left
            pane.styles.column_span = self._columns - last + 1 if last and place == count else 1

    def on_resize(self) -> None:
        self._arrange()
        self.call_after_refresh(self.want)

    def want(self) -> None:
        """Tells the publisher what is on screen: only visible panes are asked for."""
        if self.app.screen is not self:
            return
        views: tuple[str, ...] = ()
        diffs: tuple[str, ...] = ()
        stats: tuple[str, ...] = ()
        if not self.as_table:
            grid = self.query_one("#panes", Grid)
            seen = [pane for pane in self.panes() if pane.region.overlaps(grid.region)]
            views = tuple(pane.key for pane in seen)
            diffs = tuple(pane.key for pane in seen if pane.shows == "diff")
            # A box that is not live changes no more: its tree is read once.
            stats = tuple(pane.key for pane in seen if pane.row.live == "live" or pane.patch is None)
        self.workbench.want(views, diffs, stats)

    def show_header(self) -> None:
        where = "every repository" if self.workbench.everywhere else self.workbench.place
        parts = fleet_line(
            self.rows, where, self.pattern, len(self.fresh()), self.by_denials, len(self.marked)
        )
        self.query_one(Header).show(parts, self.workbench.host_truth)

    # ------------------------------------------------------------ the person

    def subject(self) -> BoxRow | None:
        if self.as_table:
            return self.table.selected
        focused = self.focused
        if isinstance(focused, BoxPane):
            return next((row for row in self.rows if row.key == focused.key), None)
        return None

    def situation(self) -> Situation:
        row = self.subject()
        busy = self.workbench.busy.get(row.key, "") if row is not None else ""
        repository = self.workbench.repository is not None
        return Situation(box=row, repository=repository, busy=busy, marked=len(self.marked))

    def on_descendant_focus(self) -> None:
        self.show_footer()
        self.call_after_refresh(self.want)

    def on_row_view_moved(self, event: RowView.Moved) -> None:
        self.show_footer()

    def on_row_view_chosen(self, event: RowView.Chosen) -> None:
        row = self.table.selected
        if row is not None:
            self.workbench.open_box(row)

    def on_box_pane_opened(self, event: BoxPane.Opened) -> None:
        self.workbench.open_box(event.pane.row)

    def do_terminal(self) -> None:
        row = self.subject()
        if row is not None:
            self.workbench.open_box(row, tab="sessions", with_shell=True)

    def do_new(self) -> None:
        self.workbench.new_box()

    def do_table(self) -> None:
        row = self.subject()
        self.toggle_class("-table")
        if row is not None:
            if self.as_table:
                self.table.select(row.key)
                self.table.focus()
            elif (pane := self._pane(row.key)) is not None:
                pane.focus()
        else:
            self._focus_first()
        self.want()

    def do_order(self) -> None:
        self.by_denials = not self.by_denials
        self._fill()

    def do_mark(self) -> None:
        row = self.subject()
        if row is None:
            return
        if row.key in self.marked:
            self.marked.remove(row.key)
        else:
            self.marked.append(row.key)
        self.table.set_boxes(self.shown_rows(), self.fresh(), self.marked)
        self._show_marks()
        self.show_header()
        self.show_footer()

    def _show_marks(self) -> None:
        for pane in self.panes():
            pane.set_marked(pane.key in self.marked)

    def do_compare(self) -> None:
        from app.screens.compare import CompareScreen

        self.app.push_screen(CompareScreen(tuple(self.marked)))

    def do_matrix(self) -> None:
        from app.screens.matrix import MatrixScreen

        self.app.push_screen(MatrixScreen())

    def do_doctor(self) -> None:
        from app.screens.doctor import TriageScreen

        self.app.push_screen(TriageScreen())

    def do_view(self) -> None:
        self.shows = VIEWS[(VIEWS.index(self.shows) + 1) % len(VIEWS)]
        for pane in self.panes():
            pane.show(self.shows)
        self.want()

    def do_everywhere(self) -> None:
        self.workbench.toggle_everywhere()
        self.show_header()

    def do_waiting(self) -> None:
        rows = [row for row in self.shown_rows() if row.needs]
        if not rows:
            self.notify("no box needs you", markup=False)
            return
        here = self.subject()
        keys = [row.key for row in rows]
        at = keys.index(here.key) + 1 if here is not None and here.key in keys else 0
        self._go_to(keys[at % len(keys)])

    def _go_to(self, key: str) -> None:
        if self.as_table:
            self.table.select(key)
        elif (pane := self._pane(key)) is not None:
            pane.focus()

    def on_key(self, event: Key) -> None:
        if not isinstance(self.focused, BoxPane):
            return
        panes = self.panes()
        place = neighbour(panes.index(self.focused), event.key, self._columns, len(panes))
        if place is not None:
            event.stop()
            panes[place].focus()

    # ------------------------------------------------------------ filter

    def do_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("-shown")
        self.add_class("-filtering")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.pattern = event.value
        self._fill()

    def on_input_submitted(self) -> None:
        self._focus_first()

    def key_escape(self) -> None:
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("-shown")
        self.remove_class("-filtering")
        self._focus_first()
