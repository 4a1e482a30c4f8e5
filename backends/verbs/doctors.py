"""The part of the engine that says whether promises are kept, and repairs what is safe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from backends.boxes.layout import BoxPaths

if TYPE_CHECKING:
    from backends.snapshots import Finding
    from backends.snapshots_doctor import Repair, Triage
    from backends.trees.values import Source


class Doctors(ABC):
    """What :class:`backends.engine.Engine` is by this."""

    @property
    @abstractmethod
    def place(self) -> Source | None:
        """The source repository that one stands in."""

    @property
    @abstractmethod
    def repository_key(self) -> str | None:
        """The key of its boxes."""

    @abstractmethod
    def find(self, ref: str) -> BoxPaths:
        """Where the box lies on disk."""

    def doctor(
        self,
        ref: str | None = None,
        *,
        everywhere: bool = False,
        fresh: bool = False,
        boxes: bool = True,
        progress: Callable[[str], None] | None = None,
    ) -> tuple[Finding, ...]:
        """Whether the host, and the boxes, still keep their promises: every finding, worst first.

        ``ref``: that box alone. Otherwise the boxes of this repository, with those that look for it where it
        was before (outside any, or with ``everywhere``: of all). Each box's own policy is tried by starting
        an empty box under it. Nothing is changed. ``fresh``: the host's proofs are run now, not remembered.
        Without ``boxes`` the host alone is looked at, as the place where these boxes are.
        """
        from backends.verbs import doctoring

        paths = doctoring.found(ref, self.find) if ref else None
        key = None if everywhere else self.repository_key
        return doctoring.doctor(paths, key, self.place, fresh=fresh, examined=boxes, progress=progress)

    def repair(self, findings: tuple[Finding, ...], who: str) -> tuple[Repair, ...]:
        """Make the safe repairs that ``findings`` offer, each journalled with ``who``; a failure is a row.

        ``Refused`` for a caller inside a box.
        """
        from backends.verbs import doctoring

        return doctoring.repair(findings, self.place, who)

    def triage(self, ref: str | None = None, *, everywhere: bool = False) -> bytes:
        """A bundle for who is to help: findings, facts, proofs and tails of journals, redacted, as JSON."""
        from backends.verbs import triage

        paths = self.find(ref) if ref else None
        return triage.bundle(paths, None if everywhere else self.repository_key, self.place)

    def open_triage(self, path: Path) -> Triage:
        """Read a bundle that somebody sent. ``Refused`` for what is none, or larger than one can be."""
        from backends.verbs import triage

        return triage.opened(path)
