"""The line-API views: rows drawn only when seen, and a cursor that follows a row's identity.

A refresh replaces the rows twice a second; the cursor stays on the same thing, not on the same place. When
the thing is gone, nothing is selected until the person moves: an action meant for it must not hit its
neighbour.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from widgets.ink import Line, fill_line, wrap_line
from widgets.inked import Inked

Row = TypeVar("Row")

SCROLL_KEYS: list[BindingType] = [
    Binding("up,k", "move(-1)", "Up", show=False),
    Binding("down,j", "move(1)", "Down", show=False),
    Binding("pageup", "move_page(-1)", "Page up", show=False),
    Binding("pagedown", "move_page(1)", "Page down", show=False),
    Binding("home,g", "move_to(0)", "First", show=False),
    Binding("end,G", "move_to(-1)", "Last", show=False),
    Binding("left", "shift(-8)", "Left", show=False),
    Binding("right", "shift(8)", "Right", show=False),
]


class LineView(Inked, ScrollView, can_focus=True):
    """What all line-API views share: an optional fixed heading, cropped drawing, scrolling by keys."""

    OWN_INKS: ClassVar[frozenset[str]] = frozenset({"added-part", "removed-part"})
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "line--cursor",
        "line--lost",
        "line--heading",
        *(f"ink--{name}" for name in OWN_INKS),
    }
    DEFAULT_CSS = (
        "LineView { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }"
    )
    ALLOW_SELECT = False

    @property
    def room(self) -> int:
        """Columns that a row may take: the scrollbar's is not among them."""
        return self.scrollable_content_region.width

    def heading(self, width: int) -> Line | None:
        """The fixed first line, or ``None`` for a view without one."""
        return None

    @property
    def heading_height(self) -> int:
        return 0 if self.heading(self.room) is None else 1

    def line_count(self) -> int:
        raise NotImplementedError

    def line_at(self, index: int, width: int) -> Line:
        """The inked line of row ``index``, at most ``width`` cells."""
        raise NotImplementedError

    def under(self, index: int) -> Style | None:
        """A style beneath the row's inks: the cursor's."""
        return None

    def resized_rows(self) -> None:
        """Tells the scrollbars how many rows there are now."""
        self.virtual_size = Size(self.room, self.line_count() + self.heading_height)

    def on_resize(self, event: events.Resize) -> None:
        self.resized_rows()

    def render_line(self, y: int) -> Strip:
        width = self.room
        head = self.heading_height
        if head and y == 0:
            style = self.get_component_rich_style("line--heading", partial=True)
            return self.strip_of(fill_line(self.heading(width) or (), width), width, style)
        index = y - head + self.scroll_offset.y
        if not 0 <= index < self.line_count():
            return Strip.blank(width, self.rich_style)
        return self.strip_of(fill_line(self.line_at(index, width), width), width, self.under(index))

    @property
    def page(self) -> int:
        """Rows that fit on the screen, at least one."""
        return max(1, self.size.height - self.heading_height)


class RowView(LineView, Generic[Row]):
    """Rows with a cursor by identity. ``rows`` are frozen values; :meth:`key_of` names a row's identity."""

    BINDINGS: ClassVar[list[BindingType]] = [*SCROLL_KEYS, Binding("enter", "choose", "Open", show=False)]

    class Moved(Message):
        """The cursor stands on another row."""

        def __init__(self, view: RowView[object]) -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> RowView[object]:
            return self.view

    class Chosen(Message):
        """Enter was pressed on a row."""

        def __init__(self, view: RowView[object]) -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> RowView[object]:
            return self.view

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.rows: Sequence[Row] = ()
        self.index = 0
        self._key: Hashable | None = None

    def key_of(self, row: Row) -> Hashable:
        raise NotImplementedError

    def row_line(self, index: int, row: Row, width: int) -> Line:
        raise NotImplementedError

    def empty_line(self) -> Line:
        """What the view says when it has no rows."""
        return ()

    @property
    def selected(self) -> Row | None:
        """The row that the person selected; ``None`` when there is none, or when it is gone."""
        if self._key is None or not 0 <= self.index < len(self.rows):
            return None
        row = self.rows[self.index]
        return row if self.key_of(row) == self._key else None

    @property
    def lost(self) -> bool:
        """The selected row has vanished and nothing was selected since."""
        return self._key is not None and self.selected is None

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Shows ``rows``, the cursor on the same identity as before; the first row when none was chosen."""
        count = len(self.rows)
        self.rows = rows
        self._find()
        if len(rows) != count or self.virtual_size.height != self.line_count() + self.heading_height:
            self.resized_rows()
        self.refresh()

    def _find(self) -> None:
        rows = self.rows
        if self._key is None:
            if rows:
                self.index = 0
                self._key = self.key_of(rows[0])
            return
        if self.index < len(rows) and self.key_of(rows[self.index]) == self._key:
            return
        for place, row in enumerate(rows):
            if self.key_of(row) == self._key:
                top = self.scroll_offset.y
                shift = place - self.index
                self.index = place
                if top and self.is_attached:
                    self.scroll_to(y=max(0, top + shift), animate=False)
                return
        self.index = max(0, min(self.index, len(rows) - 1))

    def select(self, key: Hashable) -> None:
        """Moves the cursor to the row of identity ``key``; nothing happens when there is none."""
        for place, row in enumerate(self.rows):
            if self.key_of(row) == key:
                self._stand_on(place)
                return

    def _stand_on(self, place: int) -> None:
        if not self.rows:
            self._key = None
            return
        place = max(0, min(place, len(self.rows) - 1))
        before = self._key
        self.index = place
        self._key = self.key_of(self.rows[place])
        self._reveal()
        self.refresh()
        if self._key != before:
            self.post_message(self.Moved(self))  # type: ignore[arg-type]

    def _reveal(self) -> None:
        if not self.is_attached:
            return
        top = self.scroll_offset.y
        if self.index < top:
            self.scroll_to(y=self.index, animate=False)
        elif self.index >= top + self.page:
            self.scroll_to(y=self.index - self.page + 1, animate=False)

    def line_count(self) -> int:
        return len(self.rows) or 1

    def line_at(self, index: int, width: int) -> Line:
        if not self.rows:
            return self.empty_line()
        return self.row_line(index, self.rows[index], width)

    def under(self, index: int) -> Style | None:
        if index != self.index or not self.rows:
            return None
        if self.lost:
            return self.get_component_rich_style("line--lost", partial=True)
        if not self.has_focus:
            return None
        return self.get_component_rich_style("line--cursor", partial=True)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        place = event.y - self.heading_height + self.scroll_offset.y
        if 0 <= place < len(self.rows):
            again = place == self.index and not self.lost
            self._stand_on(place)
            if again:
                self.action_choose()

    def action_move(self, steps: int) -> None:
        self._stand_on(self.index + steps)

    def action_move_page(self, pages: int) -> None:
        self._stand_on(self.index + pages * max(1, self.page - 1))

    def action_move_to(self, place: int) -> None:
        self._stand_on(place if place >= 0 else len(self.rows) - 1)

    def action_shift(self, columns: int) -> None:
        self.scroll_relative(x=columns, animate=False)

    def action_choose(self) -> None:
        if self.selected is not None:
            self.post_message(self.Chosen(self))  # type: ignore[arg-type]


class Document(LineView):
    """Inked paragraphs wrapped to the width, scrolled by keys; no cursor."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._paragraphs: Sequence[tuple[Line, int]] = ()
        self._wrapped: list[Line] = []
        self._width = -1

    def set_paragraphs(self, paragraphs: Sequence[Line | tuple[Line, int]], *, indent: int = 0) -> None:
        """Shows ``paragraphs``; each may come with the indent of the lines it wraps to."""
        given: list[tuple[Line, int]] = []
        for paragraph in paragraphs:
            if len(paragraph) == 2 and isinstance(paragraph[1], int):
                given.append((paragraph[0], paragraph[1]))
            else:
                given.append((paragraph, indent))
        if given == self._paragraphs:
            return
        self._paragraphs = given
        self._width = -1
        self.resized_rows()
        self.refresh()

    def watch_show_vertical_scrollbar(self) -> None:
        """A scrollbar that came takes a column, and the text may wrap to more lines than were counted."""
        self.resized_rows()

    def _wrap(self) -> list[Line]:
        width = max(8, self.room)
        if width != self._width:
            self._width = width
            self._wrapped = [
                line for paragraph, indent in self._paragraphs for line in wrap_line(paragraph, width, indent)
            ]
        return self._wrapped

    def line_count(self) -> int:
        return len(self._wrap())

    def line_at(self, index: int, width: int) -> Line:
        lines = self._wrap()
        return lines[index] if index < len(lines) else ()

    def plain(self) -> str:
        """The text as shown, for tests and for copying."""
        return "\n".join("".join(run.text for run in line) for line in self._wrap())

    def action_move(self, steps: int) -> None:
        self.scroll_relative(y=steps, animate=False)

    def action_move_page(self, pages: int) -> None:
        self.scroll_relative(y=pages * max(1, self.page - 1), animate=False)

    def action_move_to(self, place: int) -> None:
        self.scroll_to(y=0 if place == 0 else self.max_scroll_y, animate=False)

    def action_shift(self, columns: int) -> None:
        self.scroll_relative(x=columns, animate=False)
