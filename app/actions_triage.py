"""The actions of triage: what no longer holds, on what proof, and the remedy."""

from __future__ import annotations

from app.action import Action, Situation


def _finding(situation: Situation) -> str:
    return situation.busy or ("" if situation.finding is not None else "no finding is selected")


def _here(situation: Situation) -> str:
    """Nothing is looked at again, or repaired, where another host tells of itself."""
    if situation.elsewhere:
        return "a bundle tells of another host: nothing of it can be looked at here"
    return _finding(situation)


def _remedy(situation: Situation) -> str:
    if situation.finding is None:
        return "no finding is selected"
    return "" if situation.finding.remedy else "nothing has to be done about it"


def _box(situation: Situation) -> str:
    reason = _here(situation)
    if reason or situation.finding is None:
        return reason
    return "it is about the host, not about a box" if situation.finding.subject == "host" else ""


def _repair(situation: Situation) -> str:
    reason = _here(situation)
    if reason or situation.finding is None:
        return reason
    return "" if situation.finding.fix else "no repair of it is safe to make unseen; y copies the remedy"


def _anything(situation: Situation) -> str:
    if situation.elsewhere:
        return "a bundle tells of another host: nothing of it can be looked at here"
    return situation.busy


TRIAGE: tuple[Action, ...] = (
    Action(
        "doctor",
        "exclamation_mark",
        "doctor",
        "Look whether the host and every box keep their promises, worst first; from a box, at it first",
        ("fleet", "box"),
    ),
    Action(
        "visit",
        "enter",
        "open",
        "Open the box that the finding is about",
        ("triage",),
        own=True,
        reason=_box,
    ),
    Action("faults", "f", "faults", "Only what fails or will hurt, or everything", ("triage",)),
    Action(
        "rerun",
        "r",
        "rerun",
        "Look at the host, or at the box, of the selected finding again; proofs are run anew",
        ("triage",),
        reason=_here,
    ),
    Action(
        "rerun-all",
        "R",
        "all",
        "Look at the host and at every box again; proofs are run anew",
        ("triage",),
        reason=_anything,
    ),
    Action(
        "remedy",
        "y",
        "copy",
        "Copy the remedy of the selected finding (OSC 52), escapes written out",
        ("triage",),
        reason=_remedy,
    ),
    Action(
        "repair",
        "F",
        "repair",
        "Make the safe repair that the selected finding offers, and look at its subject again",
        ("triage",),
        danger=True,
        footer=False,
        reason=_repair,
    ),
    Action(
        "bundle",
        "b",
        "bundle",
        "Write what was found, facts, proofs and tails of journals, redacted, into one file for a report",
        ("triage",),
        reason=_anything,
    ),
    Action(
        "bundle-open", "o", "open bundle", "Read a triage bundle of another host", ("triage",), footer=False
    ),
)
