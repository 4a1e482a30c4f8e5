"""The part of the engine that explains refusals and lets a person widen what a box may do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from backends.boxes.layout import BoxPaths

if TYPE_CHECKING:
    from backends.snapshots import Explanation, Learned, Proposal
    from backends.snapshots_matrix import Matrix, Project


class Explains(ABC):
    """What :class:`backends.engine.Engine` is by this."""

    @abstractmethod
    def find(self, ref: str) -> BoxPaths:
        """Where the box lies on disk."""

    def explain_denial(self, ref: str, kind: str, object: str, rule: str) -> Explanation:
        """Why this was refused (the three texts of a tally's row), and the narrowest change that allows it.

        Nothing is changed. Where nothing is proposed ``why_not`` says why.
        """
        from backends.verbs import explaining

        return explaining.explain(self.find(ref), kind, object, rule)

    def propose_rule(self, ref: str, key: str, value: str) -> Proposal:
        """The same change, asked for by a person: an element for a list of the profile, or a key's value.

        ``Refused`` for what is never accepted this way: credentials, ways to them, a network that the profile
        denies, and what the box's tier cannot enforce. ``UsageError`` for a key or value that is none.
        """
        from backends.verbs import explaining

        return explaining.propose(self.find(ref), key, value)

    def accept_rule(self, ref: str, proposal: Proposal, who: str, *, scripted: bool = False) -> None:
        """Write the diff that ``proposal`` shows, and open a generation of the box's policy, journalled.

        A live box of tier ``supervised`` takes a destination at once; any other change counts from its next
        start. ``Refused`` for a caller inside a box, and when the running keeper cannot take the rule
        (nothing is written then); ``Busy`` when the file is no longer the one that was shown.
        """
        from backends.verbs import acceptance

        acceptance.accept(self.find(ref), proposal, who, scripted=scripted)

    def learn(self, ref: str, name: str = "learned") -> Learned:
        """What the box used against what it was granted, and the narrowest profile, called ``name``, as TOML.

        Reads count only under ``observe = "all"``; what nobody looked at is kept as granted, and named.
        """
        from backends.verbs import learning

        return learning.learn(self.find(ref), name)

    def matrix(self, ref: str | None = None) -> Matrix:
        """What each way to hold a program separates, with this host's proofs of the tiers; never a score.

        Of a box: its own row, with the proofs of its last launch and what in its policy deletes a cell.
        """
        from backends.verbs import host, matrix

        paths = self.find(ref) if ref else None
        return matrix.show(paths, paths.key if paths else "", host.report())

    def projects(self) -> tuple[Project, ...]:
        """What seven other products say of their sandboxes, each with its pages."""
        from backends.verbs import matrix

        return matrix.projects()
