"""The branch that apply moves, or makes."""

from __future__ import annotations

import os
import re

from backends.errors import Refused, UsageError
from backends.evidence.visible import hidden
from backends.gate import worktree
from backends.trees import source as sources
from backends.trees.values import Source

HEADS = "refs/heads/"
_OTHERWISE = re.compile(r"@|[0-9a-f]{40}|[0-9a-f]{64}")
"""Names that Git reads as something else wherever a person gives them: HEAD, an object."""


def tip(source: Source, branch: str, box: str) -> str:
    """The commit that ``branch`` (its full name) is at; ``Refused`` when it is none that can be moved."""
    if not branch.startswith(HEADS):
        raise Refused(
            "the proposal cannot be applied",
            "its base was taken from no branch",
            f"make one for it: cloche apply {box} --onto NAME; or export it: cloche export {box} --out DIR",
            code="no-branch",
        )
    if sources.git(source).call("symbolic-ref", "--quiet", branch).status == 0:
        raise Refused(
            "the proposal cannot be applied",
            f"{branch} is a symbolic reference to another branch",
            "make it a branch of its own, or export the proposal",
            code="symbolic-branch",
        )
    found = sources.tip(source, branch)
    if not found:
        raise Refused(
            "the proposal cannot be applied",
            f"{branch} is gone from {source.common_dir}",
            f"bring it back, or make another: cloche apply {box} --onto NAME; or export it: "
            f"cloche export {box} --out DIR",
            code="branch-gone",
        )
    return found


def fresh(source: Source, name: str) -> str:
    """The full name of a branch that can be made; ``UsageError`` for a name that Git takes for none or for
    something else, and for one with characters that cannot be seen.

    ``Refused`` when it exists, when another branch's name is a folder of it or the other way round (Git keeps
    names as paths), or when it is a checkout's branch that has no commit yet.
    """
    short = name.removeprefix(HEADS)
    repository = sources.git(source)
    unfit = short.startswith("-") or "\0" in short or _OTHERWISE.fullmatch(short) or hidden(short)
    checked = () if unfit else ("check-ref-format", "--branch", short)
    if not checked or repository.call(*checked).stdout != os.fsencode(short) + b"\n":
        raise UsageError(
            f"{name!r} is no name for a branch",
            "git-check-ref-format(1) says what is",
            "cloche apply BOX --onto NAME",
            code="bad-branch",
        )
    ref = HEADS + short
    listed = os.fsdecode(repository.run("for-each-ref", "--format=%(refname)", HEADS)).splitlines()
    taken = [one for one in listed if f"{one}/".startswith(f"{ref}/") or ref.startswith(f"{one}/")]
    if not taken and repository.call("symbolic-ref", "--quiet", ref).status == 0:
        taken = [ref]
    if taken:
        raise Refused(
            "the branch cannot be made",
            f"{taken[0]} exists",
            "choose another name: --onto NAME",
            code="branch-exists",
        )
    place = worktree.checkout_of(source, ref)
    if place is not None:
        raise Refused(
            "the branch cannot be made",
            f"{place.work_tree} is on it already, without a commit",
            "choose another name: --onto NAME",
            code="branch-exists",
        )
    return ref
