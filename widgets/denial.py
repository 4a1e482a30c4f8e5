"""One denial: its events from the journal, the rule that refused it, and the change that would allow it.

All but our own words comes from a box or from a file: it is drawn through :mod:`widgets.visible`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from backends.snapshots import DenialRow, Explanation, JournalRecord, Proposal
from widgets import units
from widgets.ink import Line, Run, fill_line, line
from widgets.lines import RowView
from widgets.visible import fit, runs

Paragraph = Line | tuple[Line, int]

LONGEST = 4000
"""Characters of one value that are shown; the journal holds all of it."""

COMMAND = 100
"""Characters of a command line beside the rule; the events have more of it."""


class Event(NamedTuple):
    """One record of a denial: ``count`` refusals between two moments, the latest by this process."""

    seq: int
    first: float
    last: float
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of an event
    pid: int
    command: str


class Events(NamedTuple):
    """What the journal holds of one denial: the newest records, and how many older ones are left out."""

    rows: tuple[Event, ...]
    records: int
    refusals: int


def same(record: JournalRecord, denial: DenialRow) -> bool:
    """Whether the record counts into this row of the tally."""
    data = record.data
    return record.kind == "denial" and all(
        str(data.get(name, "")) == value
        for name, value in zip(("kind", "object", "rule", "lane", "enforced_by"), denial[:5], strict=True)
    )


def event_of(record: JournalRecord) -> Event:
    """A denial record as an event; figures that are none (a tampered journal) count as one refusal then."""
    data = record.data
    count, pid = data.get("count"), data.get("pid")
    first, last = data.get("first"), data.get("last")
    return Event(
        record.seq,
        float(first) if isinstance(first, (int, float)) else record.time,
        float(last) if isinstance(last, (int, float)) else record.time,
        count if type(count) is int and count >= 0 else 1,
        pid if type(pid) is int else 0,
        str(data.get("command", "")),
    )


class EventsView(RowView[Event]):
    """Events, newest first; bounded by whoever reads the journal."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._events = Events((), 0, 0)
        self._read = False

    def set_events(self, events: Events) -> None:
        self._events, self._read = events, True
        self.set_rows(events.rows)

    def key_of(self, row: Event) -> int:
        return row.seq

    def heading(self, width: int) -> Line | None:
        return line((f"{'until':<8}{'count':>6} {'since':<8} {'pid':<8} process", "quiet"))

    def foot(self) -> str:
        """How much there is, and how much of it is left out."""
        events = self._events
        left = events.records - len(events.rows)
        older = f", {left} older records left out" if left else ""
        return f"{events.refusals} in {events.records} record{'' if events.records == 1 else 's'}{older}"

    def row_line(self, index: int, row: Event, width: int) -> Line:
        since = units.when(row.first) if row.count > 1 else ""
        head = line(
            (fit(units.when(row.last), 8), "quiet"),
            (fit(f"×{units.count(row.count)}", 6, "right"), "denial strong"),
            (f" {fit(since, 8)}", "quiet"),
            (f" {fit(str(row.pid or '·'), 8)}", "quiet"),
            " ",
        )
        return fill_line((*head, *runs(row.command[:LONGEST] or "not known")), width)

    def empty_line(self) -> Line:
        words = "the journal holds no event of it yet" if self._read else "reading the journal…"
        return line((words, "idle"))


def denial_paragraphs(denial: DenialRow) -> list[Paragraph]:
    """What the tally knows of one refusal."""
    if denial.count == 1:
        refused = line("once, ", units.when(denial.last))
    else:
        refused = line(f"{denial.count} times, {units.when(denial.first)} to {units.when(denial.last)}")
    command = denial.command if len(denial.command) <= COMMAND else denial.command[:COMMAND] + "…"
    process = line(*runs(command or "not known", "strong"))
    if denial.pid:
        process = line(*process, (f"  pid {denial.pid}", "quiet"))
    values: tuple[tuple[str, Line], ...] = (
        ("kind", runs(denial.kind, "denial strong")),
        ("object", runs(denial.object[:LONGEST], "strong")),
        ("refused", refused),
        ("latest", process),
        ("by", line(*runs(denial.enforced_by), ("  seen by ", "quiet"), *runs(denial.lane))),
    )
    return [_said(name, said) for name, said in values]


def explanation_paragraphs(denial: DenialRow, explanation: Explanation) -> list[Paragraph]:
    """Which rule of which file and line refused it, and what would allow just that, or why nothing does."""
    rows: list[Paragraph] = [
        _said("why", runs(explanation.reason[:LONGEST], "strong")),
        _said("rule", runs(explanation.rule[:LONGEST] or denial.rule[:LONGEST] or "not granted")),
        _said("stated", runs(explanation.where[:LONGEST] or "not recorded", "accent")),
        (),
    ]
    proposal = explanation.proposal
    if proposal is None:
        return [
            *rows,
            _said("allowed", line(("by no change: ", "look"), *runs(explanation.why_not[:LONGEST]))),
        ]
    key = line(*runs(proposal.key, "accent"), " = ", *runs(proposal.value[:LONGEST], "strong"))
    return [
        *rows,
        _said("allowed", line(("by ", "quiet"), *key)),
        (),
        *diff_paragraphs(proposal.diff),
        (),
        line(("a ", "key"), ("proposes this change; nothing changes until you accept it", "quiet")),
    ]


def proposal_paragraphs(proposal: Proposal, name: str) -> list[Paragraph]:
    """What accepting would do: the file, the difference, and when it counts."""
    if proposal.live:
        when = line(
            ("now: ", "look strong"), *runs(name, "strong"), " runs on and takes it without a restart"
        )
    else:
        when = line(
            ("from its next start: ", "strong"), *runs(name, "strong"), " runs on under the rules it has"
        )
    return [
        _said(
            "allows", line(*runs(proposal.key, "accent"), " = ", *runs(proposal.value[:LONGEST], "strong"))
        ),
        _said("changes", runs(proposal.file[:LONGEST], "accent")),
        _said("counts", when),
        (),
        *diff_paragraphs(proposal.diff),
    ]


def diff_paragraphs(diff: str) -> Iterable[Paragraph]:
    """A unified diff line by line, split at LF only (a lone CR stays visible in its line)."""
    if not diff:
        yield line(("the file says it already; the box was made before it did", "quiet"))
        return
    for text in diff.removesuffix("\n").split("\n"):
        ink = {"+": "added", "-": "removed", "@": "quiet"}.get(text[:1], "")
        yield runs(text, "quiet" if text.startswith(("--- ", "+++ ")) else ink), 1


def _said(name: str, said: Line) -> tuple[Line, int]:
    return (Run(fit(name, 9), "quiet"), *said), 9
