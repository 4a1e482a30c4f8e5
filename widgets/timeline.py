"""The journal as a list of sentences, newest last; who observed what stays visible."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType

from backends.snapshots import JournalRecord
from widgets import units
from widgets.ink import Line, Run, fill_line, line
from widgets.lines import RowView
from widgets.visible import fitted, runs

INKS = {
    "denial": "denial",
    "keeper-lost": "look strong",
    "lost": "look",
    "findings": "look",
    "proposal": "accent",
    "apply": "accent",
    "export": "accent",
}


def _word(data: Mapping[str, object], key: str) -> str:
    value = data.get(key)
    return "" if value is None else str(value)


def _argv(data: Mapping[str, object]) -> str:
    value = data.get("argv")
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else _word(data, "path")


def sentence(record: JournalRecord) -> Line:
    """What one record says, in a line; the values are outside text."""
    data = record.data
    kind = record.kind
    if kind == "transition":
        why = _word(data, "why")
        parts = line(
            f"{_word(data, 'from')} → ",
            (_word(data, "to"), "strong"),
            (f"  by {_word(data, 'who')}", "quiet"),
        )
        return line(*parts, ("  ", ""), *runs(why, "quiet")) if why else parts
    if kind == "session-start":
        return line((f"#{_word(data, 'session')} ", "accent"), *runs(_argv(data)))
    if kind == "session-exit":
        code = _word(data, "exit")
        peak = f"  {units.size(int(_float(data, 'peak_rss')))}" if data.get("peak_rss") is not None else ""
        figures = f"  {_float(data, 'wall'):.1f}s wall  {_float(data, 'cpu'):.1f}s cpu{peak}"
        ink = "quiet" if code == "0" else "look"
        return line((f"#{_word(data, 'session')} ", "accent"), (f"exit {code}", ink), (figures, "quiet"))
    if kind == "exec":
        return line((f"{_word(data, 'pid')} ", "quiet"), *runs(_argv(data)))
    if kind == "exit":
        return line((f"{_word(data, 'pid')} status {_word(data, 'status')}", "quiet"))
    if kind == "test-end":
        return line((f"{_word(data, 'pid')} ", "quiet"), *runs(_argv(data)), ("  ", ""), *_ended(data))
    if kind == "denial":
        count = _word(data, "count")
        times = f" ×{count}" if count not in ("", "1") else ""
        command = _word(data, "command")
        parts = line((f"{_word(data, 'kind')} ", "denial"), *runs(_word(data, "object")), (times, "denial"))
        return line(*parts, ("  by ", "quiet"), *runs(command, "quiet")) if command else parts
    if kind == "lost":
        return line((f"{_word(data, 'count')} {_word(data, 'what')} were lost", "look"))
    if kind == "proposal":
        return line(("snapshot ", "quiet"), _word(data, "id")[:12])
    if kind == "export":
        return line(("to ", "quiet"), *runs(_word(data, "out")))
    if kind == "apply":
        who = _word(data, "who")
        tips = f"  {_word(data, 'old')[:7]} → {_word(data, 'new')[:7]}"
        return line(*runs(_word(data, "branch"), "strong"), (tips, "quiet"), (f"  by {who}", "quiet"))
    return runs("  ".join(f"{key} {_flat(value)}" for key, value in data.items())[:400], "quiet")


def _ended(data: Mapping[str, object]) -> Line:
    """How a process ended, by the status of wait(2)."""
    status = data.get("status")
    if type(status) is not int:
        return runs(f"end not recorded: {_word(data, 'why')}", "idle")
    number = status & 0x7F
    said = f"signal {number}" if number else f"exit {status >> 8}"
    return line((said, "look" if status else "quiet"))


def record_paragraphs(record: JournalRecord) -> list[Line | tuple[Line, int]]:
    """A whole record, value by value, for a dialog."""
    rows: list[Line | tuple[Line, int]] = [
        line(
            (f"{units.moment(record.time)}:{units.clock(record.time)[-2:]}", "quiet"),
            ("  ", ""),
            *runs(record.kind, "strong"),
        ),
        (),
    ]
    for key, value in record.data.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True, default=str)
        rows.append((line(*fitted(key, 12, "accent"), " ", *runs(shown[:4000])), 13))
    rows += [
        (),
        (line(("record ", "quiet"), str(record.seq), ("  hash ", "quiet"), *runs(record.hash[:16])), 0),
    ]
    return rows


def _flat(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{len(value)}]"
    if isinstance(value, Mapping):
        return f"{{{len(value)}}}"
    return str(value)


def _float(data: Mapping[str, object], key: str) -> float:
    value = data.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0


class Timeline(RowView[JournalRecord]):
    """Records in order; the newest stays in sight while the cursor is on the last row."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("e", "execs", "Executions", show=False)]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._records: tuple[JournalRecord, ...] = ()
        self.with_executions = True

    def set_records(self, records: tuple[JournalRecord, ...]) -> None:
        if records == self._records:
            return
        at_end = not self.rows or self.index >= len(self.rows) - 1
        self._records = records
        self._fill()
        if at_end and self.rows:
            self.action_move_to(-1)
            self.call_after_refresh(self.action_move_to, -1)  # once the scrollbars know the rows

    def _fill(self) -> None:
        hidden = () if self.with_executions else ("exec", "exit")
        self.set_rows([record for record in self._records if record.kind not in hidden])

    def key_of(self, row: JournalRecord) -> int:
        return row.seq

    def heading(self, width: int) -> Line | None:
        words = "" if self.with_executions else "  executions hidden"
        return line((f"time     record         {len(self._records)} records, chained{words}", "quiet"))

    def row_line(self, index: int, row: JournalRecord, width: int) -> Line:
        ink = INKS.get(row.kind, "quiet")
        head = (Run(units.clock(row.time) + " ", "quiet"), *fitted(row.kind, 14, ink), Run(" "))
        return fill_line((*head, *sentence(row)), width)

    def empty_line(self) -> Line:
        return line(("the journal is empty", "idle"))

    def action_execs(self) -> None:
        self.with_executions = not self.with_executions
        self._fill()
        self.resized_rows()
