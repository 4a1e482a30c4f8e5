"""When a host last kept each policy, and under which conditions: so that a failure says what changed since.

One file below the state folder, beside the host's own answers. Nothing is decided by it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from backends import injected
from backends.boxes.layout import state_dir
from backends.host import cache, conditions
from backends.host.conditions import Conditions

SCHEMA = "cloche.held/1"
MOST = 64  # policies; those that held last
_LARGEST = 4 << 20
_SHOWN = 4


class Held:
    """What is remembered, read once; :meth:`save` at the end writes what was learned."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[float, Conditions]] = _load()
        self._now: Conditions | None = None
        self._new = False

    def passed(self, digest: str) -> None:
        """The policy of that digest was just kept. What was made to fail on request counts as nothing."""
        if not injected.text():
            self._rows[digest] = (time.time(), self._conditions())
            self._new = True

    def since(self, digest: str) -> str:
        """When the policy was last kept and what is another now, as words to append; "" where none saw it."""
        known = self._rows.get(digest)
        if known is None:
            return ""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(known[0]))
        changed = conditions.differing(known[1], self._conditions())
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        return f"; it last held {moment}, since then: {'; '.join(changed[:_SHOWN]) or 'no change seen'}{more}"

    def save(self) -> None:
        """Keep it for the next time. Where it cannot be written the next failure says less, and no more."""
        if not self._new:
            return
        rows = dict(sorted(self._rows.items(), key=lambda one: -one[1][0])[:MOST])
        data = json.dumps({"schema": SCHEMA, "held": rows}).encode("ascii")
        with contextlib.suppress(OSError):
            cache.replace(_path(), data)
        self._new = False

    def _conditions(self) -> Conditions:
        if self._now is None:
            self._now = conditions.now()
        return self._now


def _path() -> Path:
    return state_dir() / "doctor.json"


def _load() -> dict[str, tuple[float, Conditions]]:
    try:
        fd = os.open(_path(), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return {}
    with open(fd, "rb") as file:
        try:
            value = json.loads(file.read(_LARGEST))
            if value["schema"] != SCHEMA:
                return {}
            return {
                str(digest): (float(when), tuple((str(name), str(found)) for name, found in rows))
                for digest, (when, rows) in value["held"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
            return {}  # another version's, or damaged: what held is seen anew
