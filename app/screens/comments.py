"""Every comment of a review in one list, those whose file has changed since among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from app.decided import place
from app.screens.modal import Modal
from backends.snapshots import ReviewComment
from widgets.ink import Line, crop_line_left, fill_line, line
from widgets.lines import Document, RowView
from widgets.suspects import named
from widgets.visible import rich_text, runs


class Wanted(NamedTuple):
    """What the person wants with a comment."""

    comment: ReviewComment
    what: str  # go, edit


class Listed(RowView[tuple[ReviewComment, bool]]):
    """One row a comment; True: its file has changed since."""

    def key_of(self, row: tuple[ReviewComment, bool]) -> int:
        return row[0].id

    def row_line(self, index: int, row: tuple[ReviewComment, bool], width: int) -> Line:
        comment, stale = row
        sign = ("! ", "look strong") if stale else ("“ ", "quiet")
        room = max(12, width // 3)
        name = fill_line(crop_line_left(named(comment.path, "strong"), room), room)
        where = "changed since" if stale else place(comment)
        first = comment.text.strip().split("\n", 1)[0][:400]
        return line(sign, name, (f"  {where:<14.22}  ", "look" if stale else "quiet"), *runs(first))

    def empty_line(self) -> Line:
        return line(("nothing was said yet; c comments on the line under the cursor", "idle"))


class CommentsScreen(Modal[Wanted | None]):
    """The list, and all of the comment under its cursor. ``delete`` is told of each that is taken away."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,L", "close", "Close", show=False),
        Binding("e,c", "edit", "Change", show=False),
        Binding("delete,x,minus", "delete", "Delete", show=False),
    ]

    def __init__(
        self,
        comments: Sequence[ReviewComment],
        stale: Callable[[ReviewComment], bool],
        delete: Callable[[ReviewComment], None],
    ) -> None:
        super().__init__()
        self._comments = [(one, stale(one)) for one in comments]
        self._delete = delete
        self._armed: int | None = None  # the comment that the same key again deletes

    def compose(self) -> ComposeResult:
        frame = Vertical(classes="dialog comments")
        frame.border_title = rich_text(f"Comments {len(self._comments)}")
        frame.border_subtitle = "enter goes there · e changes · x deletes · esc closes"
        with frame:
            yield Listed(id="listed")
            yield Document(id="what")

    def on_mount(self) -> None:
        self.query_one("#what", Document).can_focus = False
        self.query_one(Listed).set_rows(self._comments)
        self.query_one(Listed).focus()
        self._show()

    def on_row_view_moved(self) -> None:
        self._show()

    def _show(self) -> None:
        row = self.query_one(Listed).selected
        paragraphs: list[Line | tuple[Line, int]] = []
        if row is not None:
            comment, stale = row
            paragraphs.append(line(*runs(comment.who or "somebody", "strong"), ("  ", ""), place(comment)))
            if comment.quote:
                paragraphs.append((line(("  ", ""), *runs(comment.quote.strip(), "quiet")), 2))
            if stale:
                paragraphs.append(line(("the file has changed since, or is not proposed any more", "look")))
            paragraphs.append(())
            paragraphs += [runs(text) for text in comment.text.expandtabs(4).split("\n")]
        self.query_one("#what", Document).set_paragraphs(paragraphs)

    def on_row_view_chosen(self) -> None:
        self._want("go")

    def action_edit(self) -> None:
        self._want("edit")

    def action_close(self) -> None:
        self.dismiss(None)

    def _want(self, what: str) -> None:
        row = self.query_one(Listed).selected
        if row is not None:
            self.dismiss(Wanted(row[0], what))

    def action_delete(self) -> None:
        listed = self.query_one(Listed)
        row = listed.selected
        if row is None:
            return
        if self._armed != row[0].id:
            self._armed = row[0].id
            self.notify("the same key again deletes this comment", severity="warning", markup=False)
            return
        self._comments.remove(row)
        self._delete(row[0])
        near = min(listed.index, len(self._comments) - 1)
        listed.set_rows(list(self._comments))
        if near >= 0:
            listed.select(self._comments[near][0].id)
        self._show()
