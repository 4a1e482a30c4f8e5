"""Tiers in words: the host in one line, and a tier beside a profile as the dialog for a new box shows it."""

from __future__ import annotations

from collections.abc import Sequence

from backends.snapshots import Claim
from backends.snapshots_choice import ABSENT, REFUSED, TAKEN, Reasoning, Weighed
from backends.tiers.choosing import QUESTIONS, Question
from widgets import units
from widgets.ink import Line, line, spread, width_of
from widgets.visible import runs

Paragraph = Line | tuple[Line, int]
INDENT = 15
CHOSEN, OPEN = "(●) ", "( ) "


def claim_of(tier: str, claims: Sequence[Claim]) -> Claim | None:
    """The probe's verdict on a whole tier."""
    return next((claim for claim in claims if claim.id == tier), None)


def host_truth(claims: Sequence[Claim]) -> Line:
    """The host in a few words: each tier with ``+`` proved, ``-`` refused, ``?`` not tried."""
    parts: list[Line] = []
    for question in QUESTIONS[2:]:
        claim = claim_of(question.tier, claims)
        if claim is None:
            continue
        sign, ink = {"proved": ("+", "live"), "failed": ("-", "look")}.get(claim.result, ("?", "idle"))
        parts.append(line((question.tier, "quiet"), (sign, ink), " "))
    if not parts:
        return ()
    return line(("host ", "quiet"), *(run for part in parts for run in part))


def took(seconds: float) -> str:
    """A start's cost: ``18 ms``, ``2.4 s``."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def weighed(question: Question, reasoning: Reasoning | None) -> Weighed | None:
    """What is known of the tier that answers; of auto, the tier that it takes."""
    if reasoning is None:
        return None
    return reasoning.row(reasoning.tier if question.tier == "auto" else question.tier)


def question_line(question: Question, reasoning: Reasoning | None, *, chosen: bool, width: int) -> Line:
    """The failure, and at the right end the tier with what this host says to it."""
    left = line(
        (CHOSEN if chosen else OPEN, "accent" if chosen else "quiet"),
        (question.must_not, "strong" if chosen else ""),
        " ",
    )
    tier = line((question.tier, "accent" if chosen else "quiet"))
    verdict = _verdict(question, reasoning)
    whole = line(*tier, *verdict) if verdict else tier
    return spread(left, whole if width_of(left) + width_of(whole) <= width else verdict or tier, width)


def _verdict(question: Question, reasoning: Reasoning | None) -> Line:
    if reasoning is None:
        return ()
    if question.tier == "auto":
        return line((" → ", "quiet"), (reasoning.tier, "live")) if reasoning.tier else _refused("none here")
    row = reasoning.row(question.tier)
    if row is None:
        return ()
    if row.state == REFUSED:
        return _refused("refused here")
    if row.state == ABSENT:
        return line((" - not in this version", "idle"))
    if row.start is not None:
        return line((" ✓ ", "live"), (took(row.start), "quiet"))
    return line((" ! confines nothing", "look")) if question.tier == "workspace" else ()


def _refused(words: str) -> Line:
    return line((f" ✗ {words}", "look strong"))


def _labelled(label: str, *rest: str | Line | tuple[str, str]) -> Paragraph:
    return line((label.ljust(INDENT), "quiet"), *rest), INDENT


def tier_paragraphs(
    question: Question, profile: str, reasoning: Reasoning | None, trouble: str = ""
) -> list[Paragraph]:
    """The result (a tier and a profile), what becomes true, what stays false, and what this host showed.

    ``trouble``: why the profile cannot be weighed, as text from outside.
    """
    tier = question.tier
    named = line((tier, "accent strong"))
    if tier == "auto" and reasoning is not None and reasoning.tier:
        named = line(*named, (" → ", "quiet"), (reasoning.tier, "accent strong"))
    rows = [
        _labelled("result", ("tier ", "quiet"), named, (" · profile ", "quiet"), runs(profile, "accent")),
        _labelled("becomes true", question.becomes_true),
        _labelled("stays false", (question.stays_false, "look")),
    ]
    if trouble:
        return [*rows, _labelled("profile", ("✗ ", "look strong"), runs(trouble, "look"))]
    if tier == "workspace":
        return rows
    if reasoning is None:
        return [*rows, _labelled("this host", ("being probed…", "idle"))]
    return rows + (_of_auto(reasoning) if tier == "auto" else _of_row(reasoning.row(tier), reasoning))


def _of_auto(reasoning: Reasoning) -> list[Paragraph]:
    row = reasoning.row(reasoning.tier)
    if row is None:
        none = "✗ no tier can enforce this policy here: "
        return [_labelled("this host", (none, "look strong"), runs(reasoning.why))]
    return [
        _labelled("why", runs(reasoning.why)),
        *([_labelled("this host", _proved(row, reasoning))] if row.proof else []),
    ]


def _of_row(row: Weighed | None, reasoning: Reasoning) -> list[Paragraph]:
    if row is None:
        return []
    if row.state in (REFUSED, ABSENT):
        sign = "✗ refused: " if row.state == REFUSED else "- "
        rows = [_labelled("this host", (sign, "look strong"), runs(row.why))]
        return [*rows, _labelled("remedy", runs(row.remedy, "strong"))] if row.remedy else rows
    if not row.proof:
        return [_labelled("this host", ("? ", "idle"), runs(row.why))]
    also = "" if row.state == TAKEN or not reasoning.tier else f"; auto would take {reasoning.tier}"
    return [_labelled("this host", _proved(row, reasoning), runs(row.proof), (also, "quiet"))]


def _proved(row: Weighed, reasoning: Reasoning) -> Line:
    """What was measured here: a minimal box from its start to its end."""
    when = "just now" if not reasoning.age or reasoning.age < 2 else f"{units.span(reasoning.age)} ago"
    cost = "" if row.start is None else f", start {took(row.start)}"
    return line(("✓ proved", "live"), (f"{cost} ({when}) ", "quiet"))
