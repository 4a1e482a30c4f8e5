"""The actions that set boxes beside each other."""

from __future__ import annotations

from app.action import Action, Situation

LEAST = 2


def _mark(situation: Situation) -> str:
    return "" if situation.box is not None else "no box is selected"


def _compare(situation: Situation) -> str:
    if situation.marked >= LEAST:
        return ""
    return f"{LEAST} boxes have to be marked, space marks the selected one; {situation.marked} marked so far"


COMPARE: tuple[Action, ...] = (
    Action(
        "mark",
        "space",
        "mark",
        "Mark the box, or take its mark away; M sets marked boxes beside each other",
        ("fleet",),
        footer=False,
        reason=_mark,
    ),
    Action(
        "compare",
        "M",
        "compare",
        "Set the marked boxes beside each other: files, tests, refusals, time",
        ("fleet",),
        footer=False,
        reason=_compare,
    ),
    Action("pair", "p", "pair", "The next two boxes, whose files are set against each other", ("compare",)),
    Action("differ", "f", "differing", "Only files that the boxes made differently, or all", ("compare",)),
)
