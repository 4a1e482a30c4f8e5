"""What a box is to be once a reference moved: written down before, so that a crash leaves no half.

The reference in the source repository that keeps a box's base moves in one transaction with the branch.
Whoever next takes the box's lock finds what was intended in the manifest, and by that reference, or where the
base stays by the branch, whether it happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.boxes.lifecycle import APPLIED, IDLE, PROPOSED
from backends.trees import source as sources
from backends.trees.values import Source

if TYPE_CHECKING:
    from backends.verbs.passage import Held


def intend(held: Held, base: dict[str, str], why: str, who: str, **fields: Any) -> None:
    """Write down that the box is to have another base, and with it ``fields`` of the manifest."""
    held.change(pending={"base": base, "why": why, "who": who, "fields": fields})


def intend_move(
    held: Held, branch: str, made: str, arrives: bool, state: str, why: str, who: str, **fields: Any
) -> None:
    """Write down that the commit ``made`` is to enter ``branch``, or to leave it; what the box is then."""
    held.change(
        pending={
            "branch": branch, "commit": made, "arrives": arrives, "state": state, "why": why, "who": who,
            "fields": fields,
        }
    )  # fmt: skip


def finish_move(held: Held, **fields: Any) -> None:
    """Make the box what was intended when the branch moves."""
    pending = held.manifest.pending
    assert pending is not None
    made = {**pending["fields"], **fields, "pending": None}
    held.move(pending["state"], pending["why"], pending["who"], **made)


def finish(held: Held, **fields: Any) -> None:
    """Give the box the intended base, with which it is idle; its files stay as they are."""
    pending = held.manifest.pending
    assert pending is not None
    base, why = pending["base"], pending["why"]
    held.record(
        "base", {"from": held.manifest.base, "to": base["base"], "tree": base["base_tree"], "why": why}
    )
    made = {**pending["fields"], **fields, **base, "pending": None}
    if held.manifest.state == IDLE:
        held.change(**made)
    else:
        held.move(IDLE, why, pending["who"], **made)


def settle(held: Held) -> None:
    """Finish what was intended if the reference moved, else forget it. The caller holds the lock."""
    manifest = held.manifest
    if manifest.pending is None or manifest.state not in (IDLE, PROPOSED, APPLIED):
        return
    if not Path(manifest.git_dir).is_dir():
        return  # told when the repository is back
    place = Source(manifest.repository, manifest.git_dir, manifest.git_dir)
    if "branch" in manifest.pending:
        if _holds(place, manifest.pending) == manifest.pending["arrives"]:
            finish_move(held)
        else:
            held.change(pending=None)
    elif sources.tip(place, sources.base_ref(manifest.name)) == manifest.pending["base"]["base"]:
        finish(held)
    else:
        held.change(pending=None)


def _holds(place: Source, pending: dict[str, Any]) -> bool:
    """Whether the branch contains the commit, which the person may have gone on from; not if it is gone."""
    args = ("merge-base", "--is-ancestor", pending["commit"], pending["branch"])
    return sources.git(place).call(*args).status == 0


@contextmanager
def settled(held: Held) -> Iterator[None]:
    """Leave nothing intended behind when the block fails."""
    try:
        yield
    except BaseException:
        settle(held)
        raise
