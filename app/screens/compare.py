"""Boxes side by side: their evidence, what each made of every file, and how two of them differ in one."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from app.action import Situation
from app.actions import bindings
from app.screens.verbs import BoxVerbs
from backends.snapshots import BoxRow, Diff
from backends.snapshots_compare import ComparedFile, Comparison, Version
from widgets.compare import LETTERS, BoxRows, FileRows
from widgets.diff_view import DiffView
from widgets.header import Header
from widgets.ink import line
from widgets.lines import RowView
from widgets.patch import EMPTY, PatchIndex, index_patch
from widgets.suspects import Survey, survey
from widgets.visible import runs, visible

NARROW = 110


class CompareScreen(BoxVerbs):
    """Reads the boxes once. Enter on a file sets two versions of it against each other; ``E`` on a box
    leads to its review."""

    CONTEXTS = ("compare",)
    BINDINGS: ClassVar[list[BindingType]] = bindings("compare", "anywhere")

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__()
        self.keys = keys
        self.found: Comparison | None = None
        self.pair = (0, 1)
        self.differing = False  # only files of which the boxes made different versions
        self._wanted: tuple[bytes, tuple[int, int]] | None = None  # what the diff shows, or will

    def compose(self) -> ComposeResult:
        yield Header()
        boxes = BoxRows(id="compare-boxes", classes="frame")
        boxes.border_title = "Boxes"
        yield boxes
        with Horizontal(id="compare-body"):
            files = FileRows(id="compare-files", classes="frame")
            files.border_title = "Files"
            yield files
            diff = DiffView(id="compare-diff", classes="frame")
            diff.border_title = "Between two"
            yield diff
        yield self.compose_frame()[1]

    def on_mount(self) -> None:
        super().on_mount()
        self.set_class(self.size.width < NARROW, "-narrow")
        self.boxes.styles.height = len(self.keys) + 3
        self.diff.set_index(EMPTY, note="enter on a file shows how two boxes differ in it")
        self.boxes.focus()
        self.show_header()
        self.show_footer()
        self.workbench.want((), ())
        self.ask(partial(self.workbench.engine.compare, self.keys), self._show, failed=self._failed)

    def on_resize(self) -> None:
        self.set_class(self.size.width < NARROW, "-narrow")

    def on_screen_resume(self) -> None:
        self.workbench.want((), ())

    def _failed(self, error: Exception) -> None:
        self.app.pop_screen()
        self.workbench.show_error(error)

    @property
    def boxes(self) -> BoxRows:
        return self.query_one(BoxRows)

    @property
    def files(self) -> FileRows:
        return self.query_one(FileRows)

    @property
    def diff(self) -> DiffView:
        return self.query_one(DiffView)

    # ------------------------------------------------------------ what is shown

    def _show(self, found: Comparison) -> None:
        self.found = found
        self.boxes.set_rows(found.boxes)
        self.files.boxes = found.boxes
        self._fill()
        self.show_header()
        self.show_footer()

    def _fill(self) -> None:
        found = self.found
        if found is None:
            return
        kept = tuple(file for file in found.files if not self.differing or _differs(file))
        files = self.files
        files.why_empty = (
            "no file that the boxes made differently" if self.differing else "no box changed a file"
        )
        files.set_rows(kept)
        apart = sum(_differs(file) for file in found.files)
        title = line(f"Files {len(kept)}", (f" · {apart} made differently", "quiet"))
        if found.more:
            title = line(*title, (f" · {found.more} more are not listed", "look"))
        files.border_title = files.rich_line(title)
        files.border_subtitle = files.rich_line(line(("equal numbers: the same to the byte", "quiet")))

    def show_header(self) -> None:
        parts = line(("fleet › ", "quiet"), ("compare", "title"), f"  {len(self.keys)} boxes")
        found = self.found
        if found is not None and found.one_base:
            parts = line(*parts, ("  all from ", "quiet"), (found.boxes[0].base[:10], "accent"))
        elif found is not None:
            parts = line(*parts, ("  bases differ: what is unchanged need not be the same", "look"))
        self.query_one(Header).show(parts)

    def _entitle(self, path: bytes) -> None:
        assert self.found is not None
        one, other = (self.found.boxes[place].row.name for place in self.pair)
        a, b = (LETTERS[place] for place in self.pair)
        self.diff.border_title = self.diff.rich_line(
            line(
                (f"{a} ", "accent"),
                *runs(one),
                (f" → {b} ", "accent"),
                *runs(other),
                "  ",
                *runs(path, "title"),
            )
        )

    # ------------------------------------------------------------ the person

    def subject(self) -> BoxRow | None:
        chosen = self.boxes.selected if self.is_mounted else None
        return chosen.row if chosen is not None else None

    def situation(self) -> Situation:
        row = self.subject()
        return Situation(box=row, busy=self.workbench.busy.get(row.key, "") if row is not None else "")

    def on_row_view_moved(self, event: RowView.Moved) -> None:
        self.show_footer()

    def on_row_view_chosen(self, event: RowView.Chosen) -> None:
        if isinstance(event.view, BoxRows):
            self.do_review()
        elif isinstance(event.view, FileRows):
            self._set_against()

    def do_pair(self) -> None:
        """The next two boxes; a file that is shown is shown of those."""
        found = self.found
        if found is None:
            return
        pairs = list(combinations(range(len(found.boxes)), 2))
        self.pair = pairs[(pairs.index(self.pair) + 1) % len(pairs)]
        self.boxes.set_pair(self.pair)
        self.files.set_pair(self.pair)
        if self._wanted is not None:
            self._set_against()

    def do_differ(self) -> None:
        self.differing = not self.differing
        self._fill()

    def do_sides(self) -> None:
        self.diff.set_split(not self.diff.sides)

    def _set_against(self) -> None:
        found, file = self.found, self.files.selected
        if found is None or file is None:
            return
        one, other = (found.boxes[place] for place in self.pair)
        wanted = (file.path, self.pair)
        self._wanted = wanted
        self._entitle(file.path)
        first, second = (file.versions[place] for place in self.pair)
        if found.one_base and _same(first, second):
            self.diff.set_index(EMPTY, note="the same to the byte in both")
            return
        self.diff.set_index(EMPTY, note="reading both…")
        engine, path = self.workbench.engine, file.path

        def read() -> tuple[Diff, PatchIndex, Survey]:
            diff = engine.between(one.row.key, other.row.key, path, (one.tree, other.tree))
            index = index_patch(diff.patch, tuple(change.path for change in diff.changes))
            return diff, index, survey(index)

        def show(value: tuple[Diff, PatchIndex, Survey]) -> None:
            if self._wanted == wanted:
                diff, index, suspects = value
                if diff.changes:
                    self.diff.set_index(index, file=0, survey=suspects)
                else:
                    self.diff.set_index(EMPTY, note="the same to the byte in both")

        self.ask(read, show, failed=partial(self._unread, wanted))

    def _unread(self, wanted: tuple[bytes, tuple[int, int]], error: Exception) -> None:
        if self._wanted == wanted:
            self.diff.set_index(EMPTY, note=f"cannot be shown: {visible(str(error))}")


def _differs(file: ComparedFile) -> bool:
    """Some box made another version of it than some other, where as the base counts as a version."""
    return file.numbers > 1 or None in file.versions


def _same(one: Version | None, other: Version | None) -> bool:
    """Whether two boxes of one base hold the same of a file; ``None`` is what the base has."""
    return (one.number if one is not None else 0) == (other.number if other is not None else 0)
