"""Choosing a tier by the first failure that must not happen: one table and one reasoning for all who ask.

``cloche new --tier auto``, the dialog for a new box and the refusal of a box that no tier can take say the
same, because it is said here. The result is a tier that enforces every key of a profile, never a score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from backends import tiers
from backends.policy.fit import AUTO_ORDER, candidates, misfits
from backends.policy.model import Policy
from backends.record import NamedTuple
from backends.snapshots_choice import ABSENT, DEARER, NEVER, REFUSED, TAKEN, Reasoning, Weighed
from backends.values import Claim

if TYPE_CHECKING:
    from backends.snapshots_host import Proof


class Question(NamedTuple):
    """A failure that must not happen, the tier that answers it, and what the person gets and does not."""

    tier: str
    must_not: str
    becomes_true: str
    stays_false: str
    profile: str  # of the built-in ones, the one that goes with the answer


QUESTIONS: tuple[Question, ...] = (
    Question(
        "auto",
        "I do not know: the cheapest tier proved here",
        "the cheapest tier that can enforce every key of the profile, and says which; never workspace",
        "whatever the chosen tier leaves false",
        "default",
    ),
    Question(
        "workspace",
        "my checkout is disturbed",
        "edits land in a separate Git worktree, branch and index, with a pinned base",
        "nothing confines the process: it runs as you",
        "default",
    ),
    Question(
        "process",
        "something roams my files",
        "filesystem allowlist, syscall denials, namespaces and limits bind the whole process tree",
        "shared kernel; the network is denied or the host's, there is no destination allowlist",
        "default",
    ),
    Question(
        "supervised",
        "something talks to a host I did not list",
        "all of process, and a private network: a raw socket to an address off the list fails",
        "shared kernel",
        "agent",
    ),
    Question(
        "container",
        "the toolchain differs from CI's",
        "one image everywhere; rootless, no capabilities, read-only root, only intended mounts, never pulls",
        "egress by name in a proxy is L7 scoping only where an engine can offer no more; shared kernel",
        "default",
    ),
    Question(
        "microvm",
        "it shares my kernel",
        "own guest kernel behind a hypervisor; destination rules in the guest's network path",
        "heavier start; thinner per-request evidence",
        "default",
    ),
)

NOT_HERE = "this version does not have it"
STARTED = "started"
"""The claim of each tier whose duration is what a start costs (:mod:`backends.host.claims`)."""
PROVED_HERE = "it can enforce every key, and did here"
UNTRIED = "it can enforce every key; each launch proves it, or is refused"
NEVER_AUTO = "auto never takes it: it enforces nothing"
CHEAPEST = "the cheapest tier that can enforce every key of the policy"
LAST_RESORT = "cloche probe says what this host can do; a box without a boundary takes --tier workspace"

Verdict = Callable[[str], "Claim | Proof | None"]
"""What this host showed of a claim by its id (a tier's own name: the whole tier), None where nothing was run.
A proof comes with its remedy."""


def unproved(name: str) -> Claim | None:
    """A verdict for who asks nothing of the host: every launch proves its claims itself, or is refused."""
    return None


def weigh_one(policy: Policy, name: str, verdict: Verdict) -> Weighed:
    """Whether ``name`` can take ``policy`` here; the state is ``dearer`` for one that can."""
    if name == "workspace":
        return Weighed(name, NEVER, NEVER_AUTO, "", "", None)
    if name not in tiers.MODULES:
        return Weighed(name, ABSENT, NOT_HERE, "", "", None)
    wanted = policy._replace(tier=name)
    found = misfits(wanted, name) or tiers.get(name).refusals(wanted)
    if found:
        return Weighed(name, REFUSED, f"{found[0].key}: {found[0].why}", found[0].remedy, "", None)
    claim = verdict(name)
    if claim is None:
        return Weighed(name, DEARER, UNTRIED, "", "", None)
    if claim.result != "proved":
        remedy = "" if isinstance(claim, Claim) else claim.remedy
        return Weighed(name, REFUSED, claim.evidence.removesuffix(f". Remedy: {remedy}"), remedy, "", None)
    started = verdict(f"{name}.{STARTED}")
    cost = started.duration if started is not None and started.result == "proved" else None
    return Weighed(name, DEARER, PROVED_HERE, "", claim.evidence, cost)


def weigh(policy: Policy, verdict: Verdict = unproved, *, age: float | None = None) -> Reasoning:
    """Every tier beside ``policy``, and the one that ``auto`` takes: the first of its order that can.

    ``age``: seconds since what ``verdict`` tells was run.
    """
    rows = {
        question.tier: weigh_one(policy, question.tier, verdict)
        for question in QUESTIONS
        if question.tier != "auto"
    }
    taken = next((name for name in AUTO_ORDER if rows[name].state == DEARER), "")
    if taken:
        rows[taken] = rows[taken]._replace(state=TAKEN)
    why = why_taken(rows, taken) if taken else why_none(policy, rows)[0]
    return Reasoning(policy.profile, taken, why, tuple(rows.values()), age)


def why_taken(rows: Mapping[str, Weighed], taken: str) -> str:
    """Why auto takes ``taken``, in one sentence; ``rows`` has it and every cheaper one."""
    proved = ", proved on this host" if rows[taken].proof else ""
    cheaper = [f"{name}: {rows[name].why}" for name in AUTO_ORDER[: AUTO_ORDER.index(taken)]]
    return f"{CHEAPEST}{proved}" + (f" ({'; '.join(cheaper)})" if cheaper else "")


def why_none(policy: Policy, rows: Mapping[str, Weighed]) -> tuple[str, str]:
    """Why no tier can take ``policy`` here, and what to change: what stands in the way of the cheapest tier
    that could enforce it can be changed; a tier of a later version cannot be had."""
    fitting = candidates(policy)
    if not fitting:
        found = misfits(policy, AUTO_ORDER[0])
        return "no tier can enforce each of its keys on any host", "; ".join(one.remedy for one in found)
    why = "; ".join(f"{name}: {rows[name].why}" for name in fitting)
    remedies = [rows[name].remedy for name in fitting if rows[name].remedy]
    return why, remedies[0] if remedies else LAST_RESORT


def sentences(reasoning: Reasoning) -> tuple[str, ...]:
    """The reasoning for people, one line each; every value in it is trusted words or comes from the host."""
    head = f"tier {reasoning.tier}: {CHEAPEST}" if reasoning.tier else "no tier can enforce this policy here"
    lines = [f"{head} (profile {reasoning.profile})"]
    for row in reasoning.rows:
        took = "" if row.start is None else f"; a start takes {row.start * 1000:.0f} ms"
        said = f"{row.why}: {row.proof}{took}" if row.proof else row.why
        lines.append(f"  {row.state:<8} {row.tier:<10} {said}" + (f"; {row.remedy}" if row.remedy else ""))
    return tuple(lines)
