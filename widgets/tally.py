"""What was refused: one line of it for a pane, and every row of it for the Denials tab.

A kind that the tier cannot see is said to be not observed; it is never shown as zero.
"""

from __future__ import annotations

from typing import NamedTuple

from backends.snapshots import DenialRow, Tally
from widgets import units
from widgets.ink import Line, Run, line
from widgets.lines import RowView
from widgets.visible import fit, fitted, runs, visible


class TallyRow(NamedTuple):
    """A drawn row: a denial, or a sentence in its place."""

    key: tuple[str, str]
    denial: DenialRow | None
    sentence: Line


def tally_rows(tally: Tally) -> list[TallyRow]:
    """Denials, latest first, then what had no row of its own, then what cannot be seen here."""
    rows = [
        TallyRow((row.kind, f"{row.object}\0{row.rule}\0{row.lane}"), row, ())
        for row in sorted(tally.rows, key=lambda row: (-row.last, row.kind, row.object))
    ]
    if tally.others:
        text = f"{tally.others} more were counted after the table was full"
        rows.append(TallyRow(("", "others"), None, line(("others   ", "denial"), text)))
    for missing in tally.not_observed:
        sentence = line(
            (fit(missing.kind, 9), "idle"), ("not observed: ", "idle strong"), (missing.reason, "idle")
        )
        rows.append(TallyRow(("not observed", missing.kind), None, sentence))
    for what, count in tally.lost:
        lost = line((f"lost {units.count(count)}", "look strong"), ("  ", ""), *runs(what, "look"))
        rows.append(
            TallyRow(("lost", what), None, line(*lost, (" happened and could not be looked at", "idle")))
        )
    return rows


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
        kinds = ", ".join(missing.kind for missing in tally.not_observed[:3])
        return line(("denied 0", "quiet"), (f"  not observed at this tier: {kinds}", "idle"))
    return line(("denied 0", "quiet"))


def denial_paragraphs(denial: DenialRow) -> list[Line | tuple[Line, int]]:
    """Everything that is known of one refusal, for a dialog."""
    times = "once" if denial.count == 1 else f"{denial.count} times"
    process = line(*runs(denial.command or "not known", "strong"))
    if denial.pid:
        process = line(*process, (f"  pid {denial.pid}", "quiet"))
    values = (
        ("kind", runs(denial.kind, "denial strong")),
        ("object", runs(denial.object, "strong")),
        (
            "refused",
            line(times, (f"  first {units.clock(denial.first)}  last {units.clock(denial.last)}", "quiet")),
        ),
        ("rule", runs(denial.rule or "not granted")),
        ("by", runs(denial.enforced_by)),
        ("seen by", runs(denial.lane)),
        ("latest", process),
    )
    return [(line((f"{name:<10}", "quiet"), *said), 10) for name, said in values]


class TallyView(RowView[TallyRow]):
    """Every refusal, collapsed by kind and object."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._tally = Tally((), 0, 0, ())

    def set_tally(self, tally: Tally) -> None:
        self._tally = tally
        self.set_rows(tally_rows(tally))

    def key_of(self, row: TallyRow) -> tuple[str, str]:
        return row.key

    def heading(self, width: int) -> Line | None:
        tail = " count first    last     " if width >= 76 else " count last     "
        head = f"kind     object · total {self._tally.total}"
        process = "process          " if width >= 100 else ""
        return line((fit(head, width - len(tail) - len(process)), "quiet"), (process + tail, "quiet"))

    def row_line(self, index: int, row: TallyRow, width: int) -> Line:
        if row.denial is None:
            return row.sentence
        denial = row.denial
        times = [Run(fit(f"×{units.count(denial.count)}", 6, "right"), "denial strong")]
        if width >= 76:
            times.append(Run(f" {units.clock(denial.first)}", "quiet"))
        times.append(Run(f" {units.clock(denial.last)} ", "quiet"))
        process: tuple[Run, ...] = ()
        if width >= 100:
            process = (*fitted(denial.command, 16, "quiet"), Run(" "))
        room = width - sum(len(run.text) for run in times) - sum(len(run.text) for run in process) - 9
        return line(
            (fit(denial.kind, 9), "denial"), fitted(denial.object, room, keep="tail"), *process, *times
        )

    def empty_line(self) -> Line:
        return line(("nothing was refused", "idle"))
