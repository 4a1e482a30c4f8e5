"""What an action of the workbench is, and what the reason why it cannot be done now depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from backends.snapshots import BoxRow, DenialRow, Finding, ProcessRow, ReviewView

CONTEXTS: dict[str, str] = {
    "anywhere": "Anywhere",
    "fleet": "Fleet",
    "box": "Box",
    "denials": "Denials",
    "tree": "Process tree",
    "denial": "One denial",
    "terminal": "Terminal",
    "timeline": "Timeline",
    "gate": "Gate",
    "compare": "Compare",
    "triage": "Triage",
    "matrix": "Isolation matrix",
    "diff": "Diff",
    "lists": "Lists and texts",
}
"""Where an action is found, in the order of the help screen."""


class Situation(NamedTuple):
    """What the person has in front of them; why an action is disabled depends on nothing else."""

    box: BoxRow | None = None
    process: ProcessRow | None = None
    process_ended: bool = False
    terminal: bool = False  # a session's terminal is open in this screen
    review: ReviewView | None = None
    denial: DenialRow | None = None  # the refusal under the cursor
    finding: Finding | None = None  # what doctor found, under the cursor
    elsewhere: bool = False  # what is shown is of another host
    file: bool = False  # a file is selected in the gate
    marked: int = 0  # boxes that are marked in the fleet
    repository: bool = True  # the workbench was opened inside one
    deciding: str = "the review is not read yet"  # why nothing can be decided in the gate, "": it can
    trying: str = ""  # what is being tried of the proposal
    undo: bool = False  # a decision can be taken back
    redo: bool = False  # or taken again
    busy: str = ""  # what is being done to this box right now


Reason = Callable[[Situation], str]


class Action(NamedTuple):
    """One thing to do. ``own`` actions belong to a widget, which binds their keys itself."""

    id: str
    key: str  # Textual's names, several separated by commas
    text: str  # as short as a footer needs
    tooltip: str
    contexts: tuple[str, ...]
    danger: bool = False
    own: bool = False
    footer: bool = True
    reason: Reason = lambda situation: ""
