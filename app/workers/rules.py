"""What is asked of the engine about refusals, for threads beside the loop: events, rules, egress."""

from __future__ import annotations

from collections import deque

from app.engine import EngineLike
from backends.errors import ClocheError
from backends.snapshots import BoxRow, DenialRow, EgressRow, Explanation, Proposal
from widgets.denial import Event, Events, event_of, same

MOST = 1000
"""Records of one denial that are kept for the screen, the newest."""

SUPERVISED = "supervised"
"""The tier whose boxes have an egress list (others have none to show)."""


def events(engine: EngineLike, key: str, denial: DenialRow) -> Events:
    """The records of one row of the tally, newest first; what is kept of them is bounded."""
    newest: deque[Event] = deque(maxlen=MOST)
    records = refusals = 0
    for record in engine.journal(key):
        if same(record, denial):
            event = event_of(record)
            newest.append(event)
            records += 1
            refusals += event.count
    return Events(tuple(reversed(newest)), records, refusals)


def explain(engine: EngineLike, key: str, denial: DenialRow) -> Explanation:
    """Why it was refused and what would allow it."""
    return engine.explain_denial(key, denial.kind, denial.object, denial.rule)


def accept(engine: EngineLike, key: str, proposal: Proposal) -> None:
    """Writes exactly the change that the person saw, in the name of whoever runs the workbench."""
    from backends.verbs.passage import person

    engine.accept_rule(key, proposal, person())


def egress(engine: EngineLike, row: BoxRow) -> tuple[EgressRow, ...] | str:
    """Where packets of the box may go; a sentence where nobody can tell, "" for a tier without a list."""
    if row.tier != SUPERVISED:
        return ""
    try:
        return engine.egress(row.key)
    except ClocheError as error:  # nothing runs, or its keeper is of an older version: said in the place
        return f"{error.what}: {error.why}"
