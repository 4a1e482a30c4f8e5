"""Denials counted from the journal: the same numbers on screen, in reports and in JSON.

The keeper keeps a ``Projection`` up to date record by record; everybody else projects the records of the
file. Both are this code, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backends.values import DenialRow, JournalRecord, NotObserved, Tally

MAX_LOST = 32  # kinds of events that were not seen; the keeper knows fewer, a forged journal may not
MAX_ROWS = 2000  # distinct refusals with a row of their own; what comes after is counted in "others"

_Key = tuple[str, str, str, str, str]


class Projection:
    """A tally in the making. Feed it every journal record; it looks at ``denial`` and ``lost`` only."""

    def __init__(self, limit: int = MAX_ROWS) -> None:
        self._limit = limit
        self._rows: dict[_Key, DenialRow] = {}
        self.total = 0
        self.others = 0
        self._lost: dict[str, int] = {}

    def add(self, record: JournalRecord) -> None:
        """Count one record. ``denial`` records carry the refusals since the previous one of the same key;
        ``lost`` records of ``what: "denials"`` carry refusals that nobody could describe any more; those of
        anything else carry events that nobody saw, which may have been refusals or not.
        """
        if record.kind == "denial":
            self._denied(record)
        elif record.kind == "lost":
            count, what = _count(record.data), _text(record.data, "what")
            if what == "denials":
                self.total += count
                self.others += count
            elif what in self._lost or len(self._lost) < MAX_LOST:
                self._lost[what] = self._lost.get(what, 0) + count

    def _denied(self, record: JournalRecord) -> None:
        data = record.data
        count = _count(data)
        self.total += count
        key = (
            _text(data, "kind"), _text(data, "object"), _text(data, "rule"), _text(data, "lane"),
            _text(data, "enforced_by"),
        )  # fmt: skip
        first, last = _time(data, "first", record.time), _time(data, "last", record.time)
        pid = data.get("pid")
        known = self._rows.get(key)
        if known is None and len(self._rows) >= self._limit:
            self.others += count
            return
        if known is not None:
            count += known.count
            first = min(first, known.first)
        if known is not None and known.last > last:
            self._rows[key] = known._replace(count=count, first=first)
            return
        self._rows[key] = DenialRow(
            *key, pid if type(pid) is int else 0, _text(data, "command"), count, first, last
        )

    def tally(self, not_observed: Iterable[NotObserved] = ()) -> Tally:
        """The value to show: rows by count, largest first, then by kind and object."""
        rows = sorted(self._rows.values(), key=lambda row: (-row.count, row[:5]))
        lost = tuple(sorted(self._lost.items()))
        return Tally(tuple(rows), self.total, self.others, tuple(not_observed), lost)


def project(
    records: Iterable[JournalRecord], not_observed: Iterable[NotObserved] = (), *, limit: int = MAX_ROWS
) -> Tally:
    """The tally of a journal. ``total`` is the sum of all rows and of ``others``, always."""
    projection = Projection(limit)
    for record in records:
        projection.add(record)
    return projection.tally(not_observed)


def _count(data: Mapping[str, object]) -> int:
    # A record that says it was refused but not how often still stands for one refusal.
    count = data.get("count")
    return count if type(count) is int and count >= 0 else 1


def _text(data: Mapping[str, object], key: str) -> str:
    value = data.get(key, "")
    return value if isinstance(value, str) else str(value)


def _time(data: Mapping[str, object], key: str, default: float) -> float:
    value = data.get(key)
    return float(value) if type(value) in (int, float) else default  # type: ignore[arg-type]
