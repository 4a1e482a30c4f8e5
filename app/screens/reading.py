"""Reading a diff in the gate: searching it, seeing more around it, what is no text, your own editor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported
from textual.widgets import Input

from app.screens.verbs import BoxVerbs
from app.workers.editing import Copies, edit, editor_argv
from backends.errors import ClocheError
from widgets import context as around
from widgets.blob_facts import BlobFacts, facts_lines, facts_of
from widgets.checks import Evidence
from widgets.diff_rows import AS_IT_IS
from widgets.diff_view import DiffView
from widgets.file_list import FileList
from widgets.ink import Line, line
from widgets.patch import EMPTY, PatchIndex, index_patch
from widgets.suspects import NO_SURVEY, Survey
from widgets.visible import visible

if TYPE_CHECKING:
    from backends.snapshots import FileChange

SUBMODULE, LINK = 0o160000, 0o120000


class Reading(BoxVerbs):
    """A screen with a list of files and a diff of the one that is selected."""

    row_key = ""

    def __init__(self) -> None:
        super().__init__()
        self.index: PatchIndex = EMPTY
        self.survey: Survey = NO_SURVEY
        self.context = around.USUAL
        self._shown: int | None = None  # the file in the diff
        self._goal: int | None = None  # a row to go to once its file is shown
        self._copies = Copies()

    @property
    def files(self) -> FileList:
        return self.query_one(FileList)

    @property
    def diff(self) -> DiffView:
        return self.query_one(DiffView)

    def on_unmount(self) -> None:
        self._copies.close()

    # ------------------------------------------------------------ which file

    def show_selected(self, note: str = "no changes") -> None:
        """Shows the file that the list has its cursor on; on a folder the diff stays what it is."""
        file = self.files.file
        if self._shown is not None and file is None and self.files.changes:
            return
        self._shown = file
        if self.diff.index is self.index and self.index is not EMPTY:
            self.diff.show_file(file)
        else:
            self.diff.set_index(self.index, file=file, note=note, survey=self.survey)
        if self._goal is not None:
            row, self._goal = self._goal, None
            self.diff.go_to_row(row)
        elif self.context != around.USUAL:
            self._surround()
        self._describe()

    def turn_to(self, file: int, goal: int | None = None) -> None:
        """Shows a file, with the cursor on row ``goal``, before the next key comes."""
        self._goal = goal
        self.files.select_file(file)
        self.show_selected()
        self.reframe()

    def moved_to(self) -> None:
        """The list's cursor stands elsewhere: shows the file, unless that was done at once."""
        if self.files.file != self._shown or self._goal is not None:
            self.show_selected()

    @property
    def change(self) -> FileChange | None:
        """The file in the diff."""
        changes = self.files.changes
        return changes[self._shown] if self._shown is not None and self._shown < len(changes) else None

    def on_diff_view_elsewhere(self, event: DiffView.Elsewhere) -> None:
        self.turn_to(event.file, event.row)

    def on_evidence_jump(self, event: Evidence.Jump) -> None:
        """To the file, and the line of it, that an item of the evidence is about."""
        place = next((at for at, one in enumerate(self.files.changes) if one.path == event.path), None)
        if place is None:
            self.notify("this diff has no such file", severity="warning", markup=False)
            return
        rows = self.index.files[place]
        near = range(rows.first, rows.last)
        row = next((at for at in near if event.line and self.index.new[at] == event.line), rows.first)
        if place == self._shown:
            self.diff.go_to_row(row)
        else:
            self._goal = row
            self.files.select_file(place)
        self.set_focus(self.diff)

    def step_hunk(self, steps: int) -> None:
        """The next hunk or the one before; beyond the file's last, that of the file that follows."""
        if self.diff.step_hunk(steps) or self._shown is None:
            return
        rows = self.index.files[self._shown]
        near = (rows.last, len(self.index)) if steps > 0 else (0, rows.first)
        beyond = self.index.hunks_in(*near)
        if beyond:
            hunk = self.index.hunks[beyond[0 if steps > 0 else -1]]
            self.turn_to(hunk.file, hunk.first)

    def reading_line(self) -> Line:
        """What the diff shows and how, for its frame."""
        view = self.diff
        index = view.index
        file = 0 if index is not self.index else self._shown
        rows = index.files[file] if file is not None and file < len(index.files) else None
        hunks = index.hunks_in(rows.first, rows.last) if rows is not None else range(0)
        here = view.hunk
        if here is not None and here in hunks:
            said = [f"hunk {hunks.index(here) + 1}/{len(hunks)}"]
        else:
            said = [f"{len(hunks)} hunk{'s' if len(hunks) != 1 else ''}" if hunks else "no hunk"]
        selection = view.selection
        if selection.unit != "line":
            count = selection.lines
            said.append(f"{selection.unit} of {count} changed line{'s' if count != 1 else ''}")
        if len(view.found.rows):
            count, number = len(view.found.rows), view.found.number(view.row)
            on = number and view.found.rows[number - 1] == view.row
            said.append(f"{f'{number} of ' if on else ''}{count} with “{visible(view.found.needle[:20])}”")
        if view.blanks != AS_IT_IS:
            said.append(view.blanks)
        if self.context != around.USUAL:
            said.append(around.words(self.context))
        said.append("side by side" if view.sides else "unified")
        return line((" · ".join(said), "quiet"))

    def do_whole(self) -> None:
        self.toggle_class("-whole")
        self.set_focus(self.diff)

    # ------------------------------------------------------------ searching

    def make_search(self) -> Input:
        return Input(placeholder="search the diff; capitals count when there are any", id="search")

    def do_search(self) -> None:
        field = self.query_one("#search", Input)
        field.add_class("-shown")
        field.value = self.diff.found.needle
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id != "search":
            return
        event.stop()
        self.close_search()
        if not self.diff.search(event.value):
            self.notify("nothing in this diff holds that text", markup=False, severity="warning", timeout=4)

    def close_search(self) -> bool:
        """Puts the field away; false when it was not there."""
        field = self.query_one("#search", Input)
        if not field.has_class("-shown"):
            return False
        field.remove_class("-shown")
        self.set_focus(self.diff)
        return True

    def do_next_found(self) -> None:
        self._step_found(1)

    def do_last_found(self) -> None:
        self._step_found(-1)

    def _step_found(self, steps: int) -> None:
        if not self.diff.step_found(steps):
            self.notify("nothing was searched for yet; / searches", markup=False, timeout=4)

    # ------------------------------------------------------------ context

    def do_more_context(self) -> None:
        self._step_context(1)

    def do_less_context(self) -> None:
        self._step_context(-1)

    def _step_context(self, steps: int) -> None:
        place = around.STEPS.index(self.context) + steps
        if 0 <= place < len(around.STEPS) and self.change is not None:
            self.context = around.STEPS[place]
            self._surround()

    def _surround(self) -> None:
        """Shows the file with as much context as was asked for."""
        file, change, context, index = self._shown, self.change, self.context, self.index
        if file is None or change is None or file >= len(index.files):
            return
        if context == around.USUAL:
            self._surrounded(file, context, index, file)
            return
        engine, key = self.workbench.engine, self.row_key
        rows = index.files[file]
        start = index.offsets[rows.first]
        end = index.offsets[rows.last] if rows.last < len(index) else len(index.patch)
        has_text = change.new_mode not in (0, SUBMODULE) and change.added is not None
        wanted = change.new_oid if context > around.USUAL and has_text else ""

        def work() -> PatchIndex:
            new = engine.blob(key, wanted) if wanted else None
            patch = around.with_context(index.patch[start:end], context, new)
            return index_patch(patch, (change.path,))

        self.ask(work, lambda made: self._surrounded(file, context, made, 0))

    def _surrounded(self, file: int, context: int, made: PatchIndex, place: int) -> None:
        if (file, context) != (self._shown, self.context):
            return  # the person went on
        survey = self.survey if made is self.index else None
        described = self.diff.described
        self.diff.set_index(made, file=place, survey=survey, keep=True)
        self.diff.set_description(described)
        self.reframe()

    def reframe(self) -> None:
        """The frames say what is shown now."""

    # ------------------------------------------------------------ what is no text

    def _describe(self) -> None:
        """Says what a file is whose content is no lines."""
        file, change = self._shown, self.change
        if change is None:
            return
        if SUBMODULE in (change.old_mode, change.new_mode):
            self.diff.set_description([(), line(("a submodule: only the commit that it stands on", "look"))])
            return
        if LINK in (change.old_mode, change.new_mode):
            self.diff.set_description([(), line(("a symbolic link: its lines are where it points", "look"))])
            return
        if change.added is not None and (change.added or change.deleted):
            return
        engine, key = self.workbench.engine, self.row_key

        def side(mode: int, oid: str) -> BlobFacts | None:
            return facts_of(engine.blob(key, oid)) if mode else None

        def work() -> list[Line]:
            return facts_lines(side(change.old_mode, change.old_oid), side(change.new_mode, change.new_oid))

        def described(lines: list[Line]) -> None:
            if self._shown == file:
                self.diff.set_description(lines)

        def failed(error: Exception) -> None:
            said = f"{error.what}: {error.why}" if isinstance(error, ClocheError) else str(error)
            described([(), line((said, "look"))])

        self.ask(work, described, failed=failed)

    # ------------------------------------------------------------ the person's editor

    def do_editor(self) -> None:
        change = self.change
        if change is None or SUBMODULE in (change.old_mode, change.new_mode):
            self.notify("there is no file to open here", markup=False, severity="warning", timeout=4)
            return
        oid = change.new_oid if change.new_mode else change.old_oid
        old, new = self.diff.line_numbers
        at = new if change.new_mode else old
        engine, key = self.workbench.engine, self.row_key
        self.ask(lambda: engine.blob(key, oid), lambda content: self._edit(oid, change.path, content, at))

    def _edit(self, oid: str, path: bytes, content: bytes, at: int) -> None:
        try:
            argv = editor_argv(os.environ, self._copies.put(oid, path, content), at)
        except ClocheError as error:
            self.workbench.show_error(error)
            return
        try:
            with self.app.suspend():
                code = edit(argv, os.environ)
        except SuspendNotSupported:
            self.notify("this terminal cannot be lent to an editor", markup=False, severity="warning")
            return
        if code:
            self.notify(f"the editor ended with {code}", markup=False, severity="warning")
