"""What was refused since the person looked at each box last: kept on this host, because people come back.

One small file beside the boxes, the count of refusals by box at the last look. It is a mark for the eye and
no evidence: the journal has the truth, and a file that is lost or damaged only makes everything new again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from backends.snapshots import BoxRow

FILE = "looked.json"
MOST = 4000  # boxes that are remembered, those looked at last
LARGEST = 1 << 20  # bytes that are read


class Looked:
    """Counts by box; for the UI loop, but :meth:`save`, which may run on any thread."""

    def __init__(self, path: Path | None) -> None:
        """``path`` is the file, ``None`` keeps nothing beyond this process."""
        self.path = path
        self._counts: dict[str, tuple[float, int]] = _read(path) if path is not None else {}

    def fresh(self, row: BoxRow) -> int:
        """Refusals of the box since the last look; a box of the same name made later was never looked at."""
        created, count = self._counts.get(row.key, (row.created, 0))
        return max(0, row.denied - count) if created == row.created else row.denied

    def look(self, row: BoxRow) -> bool:
        """The person has the box in front of them now; whether that changed anything."""
        seen = (row.created, row.denied)
        if self._counts.get(row.key) == seen:
            return False
        self._counts.pop(row.key, None)
        self._counts[row.key] = seen  # at the end: the order is that of the looks
        return True

    def text(self) -> str:
        """What is to be saved."""
        return json.dumps(dict(list(self._counts.items())[-MOST:]))

    def save(self, text: str) -> None:
        """Writes what :meth:`text` gave, whole or not at all; ``OSError`` when the disk refuses."""
        if self.path is None:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        beside.replace(self.path)


def _read(path: Path) -> dict[str, tuple[float, int]]:
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {
        key: (float(seen[0]), seen[1])
        for key, seen in value.items()
        if isinstance(seen, list)
        and len(seen) == 2
        and isinstance(seen[0], (int, float))
        and type(seen[1]) is int
    }
