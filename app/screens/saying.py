"""Saying something in the gate: comments on lines and files, and the summary of the review."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from app.decided import Change, comments_at, head
from app.screens.comments import CommentsScreen, Wanted
from app.screens.deciding import Deciding
from backends.gate.decisions import COMMENT_LIMIT, NEW, OLD, SUMMARY_LIMIT, stale
from backends.snapshots import ReviewComment
from widgets.ink import Line, line
from widgets.patch import HUNK, NOTE, REMOVED
from widgets.selection import FILE, begin
from widgets.suspects import named
from widgets.visible import runs


class Spot(NamedTuple):
    """What a comment is about; line 0 is the file."""

    path: bytes
    side: str
    line: int
    quote: bytes


class Saying(Deciding):
    """A screen on which lines and files are commented on."""

    def __init__(self) -> None:
        super().__init__()
        self._drafts: dict[object, str] = {}  # what could not be kept, for the next try

    # ------------------------------------------------------------ comments

    def spot(self) -> Spot | None:
        """The line under the cursor (of a range its last, of a hunk its first), or the file."""
        if self.in_files:
            change = self.files.change
            return Spot(change.path, NEW, 0, b"") if change is not None else None
        selection, index = self.diff.selection, self.diff.index
        if selection.path not in self.patch_files:
            return None
        row = self.diff.row
        if selection.unit == FILE or index.hunk_at(row) is None:
            return Spot(selection.path, NEW, 0, b"")
        if index.kinds[row] == HUNK:
            row += 1
        elif index.kinds[row] == NOTE:
            row -= 1
        row = begin(index, row)
        if index.kinds[row] == REMOVED:
            return Spot(selection.path, OLD, index.old[row], index.text(row))
        return Spot(selection.path, NEW, index.new[row], index.text(row))

    def do_comment(self) -> None:
        spot = self.spot()
        if spot is None or self.decided is None:
            self.notify("choose a file or a line first", markup=False, severity="warning", timeout=4)
            return
        there = comments_at(self.decided.comments, self.patch_files, spot.path, spot.side, spot.line)
        who = self.who
        mine = next((one for one in reversed(there) if one.who == who), None)
        others = [one for one in there if one is not mine]
        self._write_comment(spot, mine, others)

    def _write_comment(
        self, spot: Spot, mine: ReviewComment | None, others: list[ReviewComment] | None = None
    ) -> None:
        from app.screens.writing import WriteScreen, Written

        where = line(*named(spot.path, "strong"), "  ", (_words(spot), "quiet"))
        said: list[Line | tuple[Line, int]] = [where]
        if spot.quote:
            said.append((line("  ", *runs(spot.quote[:300].strip(), "quiet")), 2))
        for one in (others or [])[-5:]:
            said += [(), head(one, False), (line("  ", *runs(one.text[:1000].replace("\n", " "))), 2)]
        draft = self._drafts.pop(spot, None)
        text = draft if draft is not None else mine.text if mine is not None else ""

        def written(answer: Written | None) -> None:
            if answer is None:
                return
            failed = partial(self._draft, spot, answer.text)
            if answer.delete and mine is not None:
                self._delete(mine)
            elif mine is not None:
                number = mine.id
                self.act(
                    lambda desk: desk.change(lambda review: review.reword(number, answer.text)), failed=failed
                )
            else:
                self.act(lambda desk: desk.comment(*spot[:3], answer.text, spot.quote), failed=failed)

        title = "Your comment" if mine is not None else "Comment"
        screen = WriteScreen(title, said, text, limit=COMMENT_LIMIT, there=mine is not None)
        self.app.push_screen(screen, written)

    def _delete(self, comment: ReviewComment) -> None:
        number = comment.id
        self.act(lambda desk: desk.change(lambda review: review.uncomment(number)))

    def _draft(self, key: object, text: str, error: Exception) -> None:
        if text:
            self._drafts[key] = text
            self.notify("what you wrote is there when you try again", markup=False, timeout=8)

    @property
    def who(self) -> str:
        """Who comments, as the desk writes it."""
        from backends.verbs.passage import person

        return person()

    # ------------------------------------------------------------ all of them

    def do_comments(self) -> None:
        review = self.decided
        if review is None:
            return

        def wanted(answer: Wanted | None) -> None:
            if answer is None:
                return
            one = answer.comment
            if answer.what == "edit":
                quote = one.quote.encode("utf-8", "surrogateescape")
                self._write_comment(Spot(one.path, one.side, one.line, quote), one)
            else:
                self.go_to_comment(one)

        self.app.push_screen(
            CommentsScreen(review.comments, lambda one: stale(one, self.patch_files), self._delete), wanted
        )

    def go_to_comment(self, comment: ReviewComment) -> None:
        """Shows the file of a comment, with the cursor on its line if that is still what it was about."""
        places = {change.path: number for number, change in enumerate(self.files.changes)}
        if comment.path not in places:
            self.notify("its file is not proposed any more", markup=False, severity="warning")
            return
        file = places[comment.path]
        goal = None
        if comment.line and not stale(comment, self.patch_files):
            goal = self._row_of(file, comment)
        if self._shown == file and goal is not None:
            self.diff.go_to_line(self.index.old[goal], self.index.new[goal])
        else:
            self.turn_to(file, goal)
        self.set_focus(self.diff)

    def _row_of(self, file: int, comment: ReviewComment) -> int | None:
        rows = self.index.files[file]
        numbers = self.index.old if comment.side == OLD else self.index.new
        try:
            return numbers.index(comment.line, rows.first, rows.last)
        except ValueError:
            return None

    # ------------------------------------------------------------ the summary

    def do_summary(self) -> None:
        from app.screens.writing import WriteScreen, Written

        review = self.decided
        if review is None:
            return

        def written(answer: Written | None) -> None:
            if answer is not None:
                self.act(
                    lambda desk: desk.change(lambda review: review.summarise(answer.text)),
                    self._summarised,
                    partial(self._draft, "summary", answer.text),
                )

        said = line(("What you think of the whole proposal; it goes with the comments.", "quiet"))
        text = self._drafts.pop("summary", review.summary)
        self.app.push_screen(
            WriteScreen("Summary", [said], text, limit=SUMMARY_LIMIT, there=bool(review.summary)), written
        )

    def _summarised(self, change: Change) -> None:
        self.notify(
            "the summary is kept" if change.review.summary else "the summary is deleted", markup=False
        )


def _words(spot: Spot) -> str:
    if not spot.line:
        return "the file"
    return f"line {spot.line}" if spot.side == NEW else f"removed line {spot.line}"
