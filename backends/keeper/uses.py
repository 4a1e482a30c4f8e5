"""Which grants of its policy a box uses, for ``cloche learn``: each place below a grant once, not each act.

Bounded by the policy: a grant with more than a few places used is used as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

MOST_PLACES = 32  # of one grant; beyond, the grant itself is what a profile should state
WHOLE = "*"


class Uses:
    """``record(kind, data)`` journals what is new once a second, as rows of key, grant and place."""

    def __init__(self, record: Callable[[str, Mapping[str, object]], None]) -> None:
        self._record = record
        self._places: dict[tuple[str, bytes], set[bytes]] = {}
        self._new: list[tuple[str, str, str]] = []

    def seen(self, key: str, grant: bytes, path: bytes) -> None:
        """Something at ``path``, which ``grant`` covers, was opened or executed."""
        place = path[len(grant) :].lstrip(b"/").partition(b"/")[0]
        known = self._places.setdefault((key, grant), set())
        if place in known or len(known) > MOST_PLACES:
            return
        known.add(place)
        told = _text(place) if len(known) <= MOST_PLACES else WHOLE
        self._new.append((key, _text(grant), told))

    def tick(self) -> None:
        """Journal what is new."""
        if self._new:
            self._record("used", {"rows": self._new})
            self._new = []


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
