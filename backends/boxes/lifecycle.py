"""The life of a box: which state may follow which, and what to do when an act does not fit.

``created -> running <-> idle -> proposed -> applied | aborted``, then removed. Pure: whoever causes a
transition asks here first and journals it after.
"""

from __future__ import annotations

from backends.errors import Busy, Refused
from backends.record import NamedTuple

CREATED = "created"
RUNNING = "running"
IDLE = "idle"
PROPOSED = "proposed"
APPLIED = "applied"
ABORTED = "aborted"
REMOVED = "removed"
STATES = (CREATED, RUNNING, IDLE, PROPOSED, APPLIED, ABORTED, REMOVED)


class Move(NamedTuple):
    """One legal transition and the act that causes it."""

    source: str
    target: str
    act: str


MOVES = (
    Move(CREATED, RUNNING, "run"),
    Move(CREATED, ABORTED, "abort"),
    Move(CREATED, REMOVED, "rm"),
    Move(RUNNING, IDLE, "end"),
    Move(IDLE, RUNNING, "run"),
    Move(IDLE, PROPOSED, "propose"),
    Move(IDLE, ABORTED, "abort"),
    Move(IDLE, REMOVED, "rm"),
    Move(PROPOSED, IDLE, "reopen"),
    Move(PROPOSED, APPLIED, "apply"),
    Move(PROPOSED, ABORTED, "abort"),
    Move(PROPOSED, REMOVED, "rm"),
    Move(APPLIED, PROPOSED, "unapply"),
    Move(APPLIED, REMOVED, "rm"),
    Move(ABORTED, REMOVED, "rm"),
)

# What a person does first, where the act they asked for does not fit the state that the box is in.
REMEDIES = {
    ("run", PROPOSED): "take the proposal back first: cloche reopen {box}",
    ("run", APPLIED): "the box is finished; make a new one: cloche new",
    ("run", ABORTED): "the box is finished; make a new one: cloche new",
    ("propose", CREATED): "run something in it first: cloche run {box} -- CMD",
    ("propose", RUNNING): "let its processes end, or end them: cloche stop {box}",
    ("propose", PROPOSED): "it is proposed already: cloche export {box} --out DIR, cloche apply {box} "
    "or cloche reopen {box}",
    ("propose", APPLIED): "the box is finished; make a new one: cloche new",
    ("propose", ABORTED): "the box is finished; make a new one: cloche new",
    ("reopen", CREATED): "nothing was proposed yet: cloche run {box} -- CMD",
    ("reopen", RUNNING): "nothing is proposed; it can be used as it is",
    ("reopen", IDLE): "nothing is proposed; it can be used as it is",
    ("reopen", APPLIED): "the box is finished; make a new one: cloche new",
    ("reopen", ABORTED): "the box is finished; make a new one: cloche new",
    ("apply", CREATED): "run something in it, then propose: cloche propose {box}",
    ("apply", RUNNING): "end its processes and propose first: cloche stop {box}, then cloche propose {box}",
    ("apply", IDLE): "propose first, so that what is applied is what was reviewed: cloche propose {box}",
    ("apply", APPLIED): "it was applied already: cloche log {box}",
    ("apply", ABORTED): "the box was aborted; make a new one: cloche new",
    ("unapply", CREATED): "nothing was applied yet: cloche status {box}",
    ("unapply", RUNNING): "end its processes first: cloche stop {box}",
    ("unapply", PROPOSED): "take the proposal of the rest back first: cloche reopen {box}",
    ("unapply", ABORTED): "the box was aborted; undo it in your repository: git revert",
    ("rebase", CREATED): "nothing is in it yet; make a new one from there: cloche new --from REV",
    ("rebase", RUNNING): "end its processes first: cloche stop {box}",
    ("rebase", APPLIED): "the box is finished; make a new one: cloche new",
    ("rebase", ABORTED): "the box is finished; make a new one: cloche new",
    ("export", CREATED): "run something in it, then propose: cloche propose {box}",
    ("export", RUNNING): "end its processes and propose first: cloche stop {box}, then cloche propose {box}",
    ("export", IDLE): "propose first: cloche propose {box}",
    ("export", ABORTED): "the box was aborted; make a new one: cloche new",
    ("abort", RUNNING): "end its processes first: cloche stop {box}",
    ("abort", APPLIED): "it was applied; remove it when it is no longer needed: cloche rm {box}",
    ("abort", ABORTED): "it was aborted already; remove it: cloche rm {box}",
    ("rm", RUNNING): "end its processes first: cloche stop {box}, or cloche rm --force {box}",
}

_LEGAL = {(m.source, m.target) for m in MOVES}
_ACTS = {(m.source, m.act) for m in MOVES}


def legal(source: str, target: str) -> bool:
    """Whether a box in state ``source`` may become ``target``."""
    return (source, target) in _LEGAL


def allows(state: str, act: str) -> bool:
    """Whether ``act`` fits a box in ``state`` (run, propose, reopen, apply, unapply, rebase, export, rm ...).

    ``run`` fits a running box too, which it leaves running. Exporting changes no state; it needs a snapshot,
    so it fits a proposed box and an applied one.
    """
    if act == "export":
        return state in (PROPOSED, APPLIED)
    if act == "rebase":
        return state in (IDLE, PROPOSED)
    if act == "unapply":  # after a part was applied the box is idle
        return state in (IDLE, APPLIED)
    return (state, act) in _ACTS or (act == "run" and state == RUNNING)


def require(box: str, state: str, act: str) -> None:
    """Raise unless ``act`` fits: ``Busy`` while processes run, else ``Refused``; both name the way on."""
    if allows(state, act):
        return
    kind = Busy if state == RUNNING else Refused
    next_step = REMEDIES.get((act, state), "cloche status {box}").format(box=box)
    raise kind(f"cannot {act} box {box}", f"it is {state}", next_step, code="wrong-state")
