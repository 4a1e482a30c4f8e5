"""Which failure must not happen, and the tier that answers it (the words of docs/tiers.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from backends.snapshots import Claim
from widgets import marks
from widgets.ink import Line, line
from widgets.visible import runs


class Question(NamedTuple):
    tier: str
    must_not: str
    becomes_true: str
    stays_false: str


QUESTIONS: tuple[Question, ...] = (
    Question(
        "auto",
        "I do not know: take the cheapest tier that is proved here",
        "the cheapest tier that can enforce every key of the profile, and says which; never workspace",
        "whatever the chosen tier leaves false",
    ),
    Question(
        "workspace",
        "my checkout is disturbed",
        "edits land in a separate Git worktree, branch and index, with a pinned base",
        "nothing confines the process: it runs as you",
    ),
    Question(
        "process",
        "something roams my files",
        "filesystem allowlist, syscall denials, namespaces and limits bind the whole process tree",
        "shared kernel; the network is denied or the host's, there is no destination allowlist",
    ),
    Question(
        "supervised",
        "something talks to a host I did not list",
        "all of process, and a private network: a raw socket to an address off the list fails",
        "shared kernel",
    ),
    Question(
        "container",
        "the toolchain differs from CI's",
        "one image everywhere; rootless, no capabilities, read-only root, only intended mounts, never pulls",
        "egress by name in a proxy is L7 scoping only where an engine can offer no more; shared kernel",
    ),
    Question(
        "microvm",
        "it shares my kernel",
        "own guest kernel behind a hypervisor; destination rules in the guest's network path",
        "heavier start; thinner per-request evidence",
    ),
)


def claim_of(tier: str, claims: Sequence[Claim]) -> Claim | None:
    """The probe's verdict on a whole tier."""
    wanted = (tier, f"tier.{tier}", f"tier:{tier}", f"tier-{tier}")
    return next((claim for claim in claims if claim.id in wanted), None)


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


def tier_paragraphs(question: Question, claims: Sequence[Claim] | None) -> list[Line | tuple[Line, int]]:
    """What becomes true, what stays false, and what this host proved of it."""
    rows: list[Line | tuple[Line, int]] = [
        (line(("tier           ", "quiet"), (question.tier, "accent strong")), 15),
        (line(("becomes true   ", "quiet"), question.becomes_true), 15),
        (line(("stays false    ", "quiet"), (question.stays_false, "look")), 15),
    ]
    if question.tier in ("auto", "workspace"):
        return rows
    if claims is None:
        return [*rows, line(("this host      ", "quiet"), ("being probed…", "idle"))]
    claim = claim_of(question.tier, claims)
    if claim is None:
        rows.append(
            (line(("this host      ", "quiet"), ("? not probed: the engine decides at creation", "idle")), 15)
        )
        return rows
    sign, ink = marks.RESULTS.get(claim.result, ("?", "look"))
    if claim.result == "failed":
        ink = "look strong"
    took = f"  {claim.duration * 1000:.0f} ms" if claim.duration else ""
    proof = line(
        ("this host      ", "quiet"),
        (f"{sign} {claim.result}: ", ink),
        *runs(claim.evidence),
        (took, "quiet"),
    )
    return [*rows, (proof, 15)]
