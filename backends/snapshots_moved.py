"""Frozen values of what moves a box or a branch after a review: undoing an apply, and rebasing."""

from __future__ import annotations

from typing import NamedTuple


class UnapplyPlan(NamedTuple):
    """What ``unapply`` would do now."""

    branch: str
    old: str  # the branch's tip, the commit that apply made
    new: str  # where the branch goes back to, "" where apply made it: it goes
    subject: str  # first line of the message of ``old``; raw
    commits: int  # that leave the branch: with a merge the proposal's own goes as well
    files: int  # that differ between both
    work_tree: str  # the checkout that is brought back, "" when the branch is in none
    state: str  # of the box afterwards: proposed, or idle where a part had been applied
    base: tuple[str, str] | None  # of the box, now and afterwards, where a part had been applied


class RebaseOutcome(NamedTuple):
    """What ``rebase`` did: the box's files are those it had, merged with what the branch gained."""

    branch: str
    old: str  # the base before
    new: str  # and now, the branch's tip
    written: int  # files of the box that were changed or removed
    conflicts: tuple[tuple[bytes, str], ...]  # path and Git's word: to be solved in the box
