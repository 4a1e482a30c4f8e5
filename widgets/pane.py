"""One box as a pane of the fleet: what it is, what runs, what was refused, what changed, what it said last.

A pane is a single widget that draws its own lines: two dozen of them cost no more than one list.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from backends.snapshots import BoxRow, BoxView
from widgets import marks, units
from widgets.diff_lines import diff_lines
from widgets.ink import Line, crop_line, line, spread, tint, width_of
from widgets.inked import Inked
from widgets.patch import PatchIndex
from widgets.printed import output_lines, printed_line
from widgets.process_tree import layout, process_line
from widgets.tally import fresh_mark, summary, tally_rows
from widgets.visible import fitted, runs

VIEWS = ("tree", "denials", "diff", "output")
"""What a pane can show in its body, in the order in which it cycles."""

BARS = "▁▂▃▄▅▆▇█"


def bars(samples: Sequence[float]) -> str:
    """CPU samples as bars; the scale starts at one core, so a quiet box looks quiet."""
    top = max(100.0, max(samples, default=0.0))
    return "".join(BARS[min(7, int(value / top * 7.99))] if value >= 0.5 else "▁" for value in samples)


class BoxPane(Inked, can_focus=True):
    """Draws one :class:`BoxView`. Enter or a click opens the box."""

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", show=False)]

    class Opened(Message):
        def __init__(self, pane: BoxPane) -> None:
            super().__init__()
            self.pane = pane

    COMPONENT_CLASSES: ClassVar[set[str]] = {"pane--rule"}

    def __init__(self, row: BoxRow, view: str = "tree", fresh: int = 0) -> None:
        super().__init__(classes="box-pane")
        self.row = row
        self.view: BoxView | None = None
        self.shows = view
        self.fresh = fresh  # refusals since the person looked at the box last
        self.marked = False  # by the person, to be compared
        self.trouble = ""  # why the last question to this box failed
        self.patch: PatchIndex | None = None
        self._drawn: tuple[tuple[int, int], list[Line]] | None = None
        self.samples: deque[float] = deque(maxlen=16)

    @property
    def key(self) -> str:
        return self.row.key

    def set_row(self, row: BoxRow, fresh: int = 0) -> None:
        changed = (row, fresh) != (self.row, self.fresh)
        self.row, self.fresh = row, fresh
        self.samples.append(row.cpu)
        if changed:
            self.redraw()
        self._entitle()

    def set_view(self, view: BoxView) -> None:
        self.trouble = ""
        if view != self.view:
            self.view = view
            self.row = view.row
            self.redraw()
            self._entitle()

    def set_trouble(self, why: str) -> None:
        """The box could not be asked; its pane says so, the others do not care."""
        if why != self.trouble:
            self.trouble = why
            self.redraw()
            self._entitle()

    def set_marked(self, marked: bool) -> None:
        if marked != self.marked:
            self.marked = marked
            self._entitle()

    def set_patch(self, patch: PatchIndex) -> None:
        self.patch = patch
        self.redraw()

    def show(self, view: str) -> None:
        self.shows = view
        self.redraw()
        self._entitle()

    # ------------------------------------------------------------ frame

    def on_mount(self) -> None:
        self._entitle()

    def on_resize(self) -> None:
        self._entitle()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted:  # component styles are there only after the rules were applied
            self.call_later(self._entitle)

    def _entitle(self) -> None:
        room = max(8, self.outer_size.width - 6)
        row = self.row
        now = time.time()
        state = marks.state(row)
        if self.trouble and row.live not in marks.LIVE:
            state = line(("~ keeper does not answer", "look"))
        mark = line((f"{marks.MARKED} ", "accent strong")) if self.marked else ()
        parts = line(*mark, *marks.name(row), "  ", *marks.tier(row), "  ", *state)
        if row.state in ("running", "created"):
            parts = line(*parts, (f" {units.span(now - row.created)}", "quiet"))
        if self.fresh:
            parts = line(*parts, "  ", *fresh_mark(self.fresh))
        late = marks.overdue(row, now)
        if late:
            parts = line(*parts, "  ", *late)
        self.border_title = self.rich_line(crop_line(parts, room))
        foot = marks.base(row)
        if width_of(foot) + 12 <= room:
            foot = line((f"{self.shows} ", "accent"), *foot)
        self.border_subtitle = self.rich_line(crop_line(foot, room))
        self.set_class(bool(row.needs) or row.live in marks.LIVE or bool(self.trouble), "-needs")
        self.set_class(row.state in ("applied", "aborted", "idle") and not row.needs, "-quiet")

    # ------------------------------------------------------------ body

    def redraw(self) -> None:
        self._drawn = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if self._drawn is None or self._drawn[0] != (width, height):
            self._drawn = ((width, height), self.compose_lines(width, height))
        lines = self._drawn[1]
        return self.strip_of(lines[y] if y < len(lines) else (), width)

    def compose_lines(self, width: int, height: int) -> list[Line]:
        """All lines of the body: the chosen view above, three lines of summary below."""
        foot = self._foot(width)[-max(1, min(3, height - 2)) :] if height > 3 else self._foot(width)[-1:]
        room = height - len(foot)
        head: list[Line] = []
        if self.row.needs:
            head.append(line(("! ", "look strong"), *tint(runs(self.row.needs), "look")))
        if self.trouble:
            head.append(line(("~ ", "look"), *tint(runs(self.trouble), "look")))
        head += self._body(width, max(0, room - len(head)))
        head = [crop_line(one, width) for one in head[:room]]
        return head + [()] * (room - len(head)) + [crop_line(one, width) for one in foot]

    def _body(self, width: int, room: int) -> list[Line]:
        if room <= 0:
            return []
        if self.shows == "diff":
            if self.patch is None:
                return [line(("reading the changes…", "idle"))]
            return diff_lines(self.patch, room) or [line(("no changes against the base", "idle"))]
        view = self.view
        if view is None:
            return [line(("…", "idle"))] if not self.trouble else []
        if self.shows == "output":
            return output_lines(view.output, room) or [line(("no output yet", "idle"))]
        if self.shows == "denials":
            return self._denials(view, width, room)
        tree = self._tree(view, width, room)
        return tree + self._spare(view, width, room - len(tree))

    def _tree(self, view: BoxView, width: int, room: int) -> list[Line]:
        if not view.processes:
            return self._resting(view)
        rows = layout(view.processes[: room + 1], set())[:room]
        lines = [process_line(row, width) for row in rows]
        missing = len(view.processes) - room
        if missing > 0 and lines:
            lines[-1] = line((f"  and {missing + 1} more processes", "quiet"))
        return lines

    def _spare(self, view: BoxView, width: int, room: int) -> list[Line]:
        """Below a short tree: the tail of the output, then as far as there is room the changes (of a box at
        rest the changes first): no part is idle."""
        rule = line(("╌" * width, "faint"))
        parts: list[list[Line]] = []
        tail = output_lines(view.output, room)[: -1 if self._last_words() else None] if room >= 3 else []
        said = [tint(one, "quiet") for one in tail]
        changed = diff_lines(self.patch, room) if self.patch is not None and room >= 3 else []
        for part in (said, changed) if view.processes else (changed, said):
            if part and room >= 3:
                shown = part[-(room - 1) :] if part is said else part[: room - 1]
                parts.append([rule, *shown])
                room -= len(shown) + 1
        return [one for part in parts for one in part]

    def _resting(self, view: BoxView) -> list[Line]:
        row = view.row
        if row.live == "lost":
            return [line(("the keeper ended; the box's processes ended with it", "look"))]
        words = {
            "created": "nothing has run yet",
            "proposed": "frozen: waiting for review",
            "applied": "applied; its evidence is kept until it is removed",
            "aborted": "given up; its evidence is kept until it is removed",
        }
        lines = [line((words.get(row.state, "nothing runs"), "idle"))]
        if row.purpose:
            lines.append(line(("for  ", "quiet"), *runs(row.purpose, "quiet")))
        return lines

    def _denials(self, view: BoxView, width: int, room: int) -> list[Line]:
        lines: list[Line] = []
        for row in tally_rows(view.tally, view.row.state != "created")[:room]:
            if row.denial is None:
                lines.append(row.sentence)
            else:
                number = line((f" ×{units.count(row.denial.count)}", "denial strong"))
                shown = fitted(row.denial.object, width - 9 - width_of(number), keep="tail")
                lines.append(line((f"{row.denial.kind:<9}", "denial"), *shown, *number))
        return lines or [line(("nothing was refused", "idle"))]

    def _foot(self, width: int) -> list[Line]:
        row = self.row
        if self.view is not None:
            denied = summary(self.view.tally, width)
        elif row.denied:
            denied = line((f"denied {units.count(row.denied)}", "denial strong"))
        else:
            denied = line(("denied 0", "quiet"))
        right: Line = ()
        if row.live == "live" and row.processes:
            figures = f" {units.percent(row.cpu)} {units.size(row.rss)}"
            recent = list(self.samples)[-16 if width >= 64 else -8 :] if width >= 44 else []
            right = line((bars(recent), "live" if any(recent) else "faint"), (figures, "quiet"))
        middle = line(*marks.changes(row), *self._last_exit())
        last = self._last_words()
        return [denied, spread(middle, right, width), last]

    def _last_exit(self) -> Line:
        if self.view is None:
            return ()
        ended = [session for session in self.view.sessions if session.exit is not None]
        if not ended:
            return ()
        latest = max(ended, key=lambda session: session.ended or 0.0)
        ink = "quiet" if latest.exit == 0 else "look"
        return line(("   ", ""), *runs(" ".join(latest.argv)[:40], "quiet"), (f" exit {latest.exit}", ink))

    def _last_words(self) -> Line:
        said = printed_line(self.row.last_line)
        if not said and self.view is not None and self.view.output:
            said = printed_line(self.view.output)
        return line(("› ", "faint"), *said) if said else ()

    # ------------------------------------------------------------ input

    def on_click(self, event: events.Click) -> None:
        if event.chain >= 2:
            self.post_message(self.Opened(self))

    def action_open(self) -> None:
        self.post_message(self.Opened(self))
