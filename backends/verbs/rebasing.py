"""Giving a box another base: written down before its reference moves, so that a crash leaves no half.

The reference in the source repository that keeps the base moves in one transaction with the branch. Whoever
next takes the box's lock finds what was intended in the manifest, and by that reference whether it happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.boxes.lifecycle import IDLE, PROPOSED
from backends.trees import source as sources
from backends.trees.values import Source

if TYPE_CHECKING:
    from backends.verbs.passage import Held


def intend(held: Held, base: dict[str, str], why: str, who: str, **fields: Any) -> None:
    """Write down that the box is to have another base, and with it ``fields`` of the manifest."""
    held.change(pending={"base": base, "why": why, "who": who, "fields": fields})


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
    if manifest.pending is None or manifest.state not in (IDLE, PROPOSED):
        return
    if not Path(manifest.git_dir).is_dir():
        return  # told when the repository is back
    place = Source(manifest.repository, manifest.git_dir, manifest.git_dir)
    if sources.tip(place, sources.base_ref(manifest.name)) == manifest.pending["base"]["base"]:
        finish(held)
    else:
        held.change(pending=None)


@contextmanager
def settled(held: Held) -> Iterator[None]:
    """Leave nothing intended behind when the block fails."""
    try:
        yield
    except BaseException:
        settle(held)
        raise
