"""What was refused: one line of it for a pane, and every row of it for the Denials tab.

A kind that the tier cannot see is said to be not observed; it is never shown as zero.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len

from backends.snapshots import DenialRow, Tally
from widgets import units
from widgets.ink import Line, Run, line
from widgets.lines import RowView
from widgets.visible import fit, fitted, runs, visible

KINDS = ("fs-read", "fs-write", "exec", "net", "dns", "socket", "syscall", "limit")
"""What a tier may see: a kind that was watched and had no refusal is told from one that nobody watched."""


class TallyRow(NamedTuple):
    """A drawn row: a denial, or a sentence in its place; ``detail`` is all that there is to say of it."""

    key: tuple[str, str]
    denial: DenialRow | None
    sentence: Line
    detail: str = ""


def tally_rows(tally: Tally, launched: bool = True) -> list[TallyRow]:
    """Denials, latest first, then what had no row of its own, what was watched and not refused, what cannot
    be seen here, and what was lost. Before the first launch nothing was watched: no kind is called none."""
    rows = [
        TallyRow((row.kind, "\0".join(row[1:5])), row, ())
        for row in sorted(tally.rows, key=lambda row: (-row.last, row.kind, row.object))
    ]
    if tally.others:
        text = f"{units.count(tally.others)} more were counted after the table was full"
        detail = (
            f"{tally.others} refusals are counted in the total and have no row: too many different ones came "
            "at once, or the table of them was full. The sum of all rows and these is exact."
        )
        rows.append(TallyRow(("", "others"), None, line(("others   ", "denial"), text), detail))
    if not launched:
        said = "nothing has run yet, so nothing was watched"
        return [*rows, TallyRow(("", "not launched"), None, line((said, "idle")))]
    unseen = {missing.kind for missing in tally.not_observed}
    none = [kind for kind in KINDS if kind not in unseen and not any(row.kind == kind for row in tally.rows)]
    if none:
        kinds = " · ".join(none)
        sentence = line(("none     ", "quiet"), (kinds, "quiet"), ("  watched, nothing refused", "idle"))
        detail = f"These kinds are watched in this box, and nothing of them was refused so far: {kinds}."
        rows.append(TallyRow(("", "none"), None, sentence, detail))
    for missing in tally.not_observed:
        sentence = line(
            (fit(missing.kind, 9), "idle"), ("not observed: ", "idle strong"), (missing.reason, "idle")
        )
        detail = f"{missing.kind} is not observed at this tier: {missing.reason}. Such refusals are not zero."
        rows.append(TallyRow(("not observed", f"{missing.kind}: {missing.reason}"), None, sentence, detail))
    for what, count in tally.lost:
        lost = line((f"lost {units.count(count)}", "look strong"), ("  ", ""), *runs(what, "look"))
        detail = f"{count} {what} happened and could not be looked at: some of them may have been refused."
        rows.append(
            TallyRow(
                ("lost", what), None, line(*lost, (" happened and could not be looked at", "idle")), detail
            )
        )
    return rows


def fresh_mark(fresh: int) -> Line:
    """How many refusals came since the person looked at the box last."""
    return line((f"+{units.count(fresh)} new", "denial strong")) if fresh else ()


def summary(tally: Tally, width: int) -> Line:
    """The tally in one line: the total, what was not seen, then the objects refused most, as far as there is
    room."""
    lost = sum(count for _, count in tally.lost)
    unseen = line(("  ", ""), (f"lost {units.count(lost)}", "look strong")) if lost else ()
    if not tally.total:
        return line(*_nothing(tally)[:1], *unseen, *_nothing(tally)[1:])
    parts: list[Run] = [Run(f"denied {units.count(tally.total)}", "denial strong"), *unseen]
    used = sum(len(run.text) for run in parts)
    for place, row in enumerate(sorted(tally.rows, key=lambda row: (-row.count, -row.last))):
        text = visible(f"{row.kind} {row.object}")
        number = f" ×{units.count(row.count)}"
        room = width - used - len(number) - 3
        if room < 16:
            break
        parts += [
            Run("  " if not place else " · ", "faint"),
            Run(fit(text, min(len(text), room)).rstrip(), ""),
        ]
        parts.append(Run(number, "denial"))
        used += min(len(text), room) + len(number) + 3
    return tuple(parts)


def _nothing(tally: Tally) -> Line:
    if tally.not_observed:
        kinds = ", ".join(list(dict.fromkeys(missing.kind for missing in tally.not_observed))[:3])
        return line(("denied 0", "quiet"), (f"  not observed at this tier: {kinds}", "idle"))
    return line(("denied 0", "quiet"))


def object_cell(denial: DenialRow, width: int) -> Line:
    """The object in ``width`` cells: of a path the end is kept, of anything else the beginning."""
    return fitted(denial.object, width, keep="tail" if denial.object.startswith("/") else "head")


WIDE, MIDDLE, SLIM = 100, 64, 48


class TallyView(RowView[TallyRow]):
    """Every refusal, collapsed by kind and object: count, first and last time, and the latest caller."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._tally = Tally((), 0, 0, ())

    def set_tally(self, tally: Tally, launched: bool = True) -> None:
        self._tally = tally
        self.set_rows(tally_rows(tally, launched))

    @property
    def denial(self) -> DenialRow | None:
        """The refusal under the cursor; ``None`` on a sentence."""
        return self.selected.denial if self.selected is not None else None

    def key_of(self, row: TallyRow) -> tuple[str, str]:
        return row.key

    def heading(self, width: int) -> Line | None:
        head = f"kind     object · total {self._tally.total}"
        if width >= WIDE:
            tail = " count first    last     process         "
        elif width >= MIDDLE:
            tail = " count first  last     process  "
        else:
            tail = " count last    " if width >= SLIM else " count"
        return line((fit(head, width - len(tail)), "quiet"), (tail, "quiet"))

    def row_line(self, index: int, row: TallyRow, width: int) -> Line:
        if row.denial is None:
            return row.sentence
        denial = row.denial
        tail = [Run(fit(f"×{units.count(denial.count)}", 6, "right"), "denial strong")]
        if width >= MIDDLE:
            first = units.when(denial.first)
            if width < WIDE:
                first = first.rpartition(":")[0] or first  # without seconds
            tail.append(Run(" " + fit(first, 8 if width >= WIDE else 6), "quiet"))
        if width >= SLIM:
            tail.append(Run(f" {fit(units.when(denial.last), 8)}", "quiet"))
        if width >= MIDDLE:
            command = denial.command.partition(" ")[0].rpartition("/")[2] if width < WIDE else denial.command
            tail += [Run(" "), *fitted(command or "?", 15 if width >= WIDE else 8, "quiet"), Run(" ")]
        room = width - sum(cell_len(run.text) for run in tail) - 9
        return line((fit(denial.kind, 9), "denial"), object_cell(denial, room), *tail)

    def empty_line(self) -> Line:
        return line(("nothing was refused", "idle"))
