"""How many records of one kind a box may cause: a busy build fits, a loop must not fill the host's disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping

PER_SECOND = 2000
IN_ALL = 200_000  # in one launch


class Budget:
    """Grants records one by one; what is too many is counted and told as ``lost``."""

    def __init__(
        self,
        what: str,
        record: Callable[[str, Mapping[str, object]], None],
        per_second: int = PER_SECOND,
        in_all: int = IN_ALL,
    ) -> None:
        self._what = what
        self._record = record
        self._per_second = per_second
        self._left = in_all
        self._now = per_second
        self._lost = 0

    def take(self) -> bool:
        """Whether one more record may be written."""
        if self._now <= 0 or self._left <= 0:
            self._lost += 1
            return False
        self._now -= 1
        self._left -= 1
        return True

    def tick(self) -> None:
        """A second has passed."""
        self._now = self._per_second
        if self._lost:
            self._record("lost", {"what": self._what, "count": self._lost})
            self._lost = 0


class Losses:
    """What happened and could not be looked at, told once a second as ``lost``: unseen is not zero."""

    def __init__(self, record: Callable[[str, Mapping[str, object]], None]) -> None:
        self._record = record
        self._counts: dict[str, int] = {}

    def add(self, what: str, count: int = 1) -> None:
        """``count`` of ``what`` (denials, execs, opens, connects) were not seen."""
        if count:
            self._counts[what] = self._counts.get(what, 0) + count

    def tick(self) -> None:
        """A second has passed."""
        for what, count in self._counts.items():
            self._record("lost", {"what": what, "count": count})
        self._counts.clear()
