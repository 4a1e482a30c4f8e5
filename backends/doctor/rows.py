"""What every check is given, and how it says what it found."""

from __future__ import annotations

import shlex

from backends.boxes.layout import BoxPaths
from backends.boxes.liveness import Liveness
from backends.boxes.manifest import Manifest
from backends.errors import ClocheError
from backends.record import NamedTuple
from backends.snapshots import Finding
from backends.trees.values import Source

HOST = "host"
OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"
ORDER = {FAIL: 0, WARN: 1, NOTE: 2, OK: 3}


class Box(NamedTuple):
    """One box whose manifest could be read. ``here`` is the repository that the caller stands in."""

    paths: BoxPaths
    manifest: Manifest
    live: Liveness
    here: Source | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing of it should run."""
        return self.live.kind != "live"


class Voice:
    """Says what one check found of one subject. The id of a finding is stable: ``subject: check``."""

    def __init__(self, subject: str, check: str) -> None:
        self._subject = subject
        self._id = check if subject == HOST else f"{subject}: {check}"

    def ok(self, text: str, evidence: str = "") -> Finding:
        """It is as it should be."""
        return Finding(self._id, OK, text, evidence, "", "", "", self._subject)

    def note(self, text: str, evidence: str, why: str, remedy: str = "", fix: str = "") -> Finding:
        """Worth knowing; nothing is wrong."""
        return Finding(self._id, NOTE, text, evidence, remedy, why, fix, self._subject)

    def warn(self, text: str, evidence: str, why: str, remedy: str, fix: str = "") -> Finding:
        """It will hurt, or something was left behind; no claim is broken."""
        return Finding(self._id, WARN, text, evidence, remedy, why, fix, self._subject)

    def fail(self, text: str, evidence: str, why: str, remedy: str, fix: str = "") -> Finding:
        """A claim does not hold, or the box cannot be used as it was meant to be."""
        return Finding(self._id, FAIL, text, evidence, remedy, why, fix, self._subject)

    def error(self, error: ClocheError, why: str) -> Finding:
        """What the engine refused, in its own three sentences."""
        return self.fail(error.what, error.why, why, error.next_step)


def command(*words: object) -> str:
    """A command as it can be pasted into a shell: every word quoted where it needs to be."""
    return shlex.join([str(word) for word in words])


def worst_first(rows: list[Finding]) -> tuple[Finding, ...]:
    """Subjects with the worst finding first, the host before boxes as bad, each subject's worst first."""
    worst: dict[str, int] = {}
    for row in rows:
        worst[row.subject] = min(worst.get(row.subject, 9), ORDER[row.verdict])

    def place(row: Finding) -> tuple[int, bool, str, int]:
        return worst[row.subject], row.subject != HOST, row.subject, ORDER[row.verdict]

    return tuple(sorted(rows, key=place))
