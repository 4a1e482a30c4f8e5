"""The whole answer about this host: facts, proofs, what stands in the way. Run now, or kept from before."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from backends import tiers
from backends.errors import from_dict
from backends.host import asking, cache, causes, claims, conditions, facts, injections, obstacles, probes
from backends.host.asking import Answer, Progress
from backends.host.cache import Kept, Passed
from backends.host.conditions import Conditions
from backends.policy.fit import IMAGE_TIERS
from backends.snapshots_host import Fact, HostReport, Proof
from backends.values import Claim

TOOLS = "tools"
LACKS = "host-lacks"


def report(*, fresh: bool = False, progress: Progress | None = None) -> HostReport:
    """What this host is and what was proved on it.

    The kept answer is given while its conditions hold, unless ``fresh``. ``UsageError`` when
    ``CLOCHE_INJECT`` asks for a failure that there is not.
    """
    asked = injections.asked()
    here = conditions.now()
    kept = cache.load()
    age = time.time() - kept.time
    if not fresh and not asked and kept.conditions == here and age >= 0 and _whole(kept):
        return _made(kept, facts.gather(), cached=True, age=age)
    began = time.time()
    answers = asking.ask((*tiers.MODULES, TOOLS), progress)
    took = time.time() - began
    proofs = tuple(proof for tier in tiers.MODULES for proof in _proofs(tier, answers[tier], began))
    passed = {**kept.passed, **{one.id: Passed(began, here) for one in proofs if one.result == probes.PROVED}}
    known = tuple(_remembered(one, kept.passed, here, asked) for one in proofs)
    now = Kept(here, began, took, _tools(answers[TOOLS]), known, kept.passed if asked else passed)
    not_kept = _passing(known) or answers[TOOLS].why
    if not asked:
        try:
            # An answer that is not kept takes the one before away: that is no longer known to hold.
            cache.save(cache.NOTHING._replace(passed=passed) if not_kept else now)
        except OSError as error:
            not_kept = f"{cache.path()}: {error.strerror}"
    return _made(now, facts.gather(), cached=False, age=0.0, asked=asked, not_kept=not_kept)


def gather_facts() -> tuple[Fact, ...]:
    """Every fact, also those that programs of the host have to be asked for; no tier is tried."""
    found = (*facts.gather(), *_tools(asking.ask((TOOLS,))[TOOLS]))
    return _sorted(found)


def _passing(proofs: Iterable[Proof]) -> str:
    """Why an answer is not one to keep: what may be over at the next look is looked for again."""
    found = next((one for one in proofs if one.cause and causes.BY_ID[one.cause].passing), None)
    return f"{found.id}: {causes.BY_ID[found.cause].what}" if found else ""


def _whole(kept: Kept) -> bool:
    return {one.id for one in kept.proofs} >= set(tiers.MODULES)


def _sorted(found: Iterable[Fact]) -> tuple[Fact, ...]:
    return tuple(sorted(found, key=lambda fact: facts.GROUPS.index(fact.group)))


def _made(
    kept: Kept,
    read: tuple[Fact, ...],
    *,
    cached: bool,
    age: float,
    asked: tuple[str, ...] = (),
    not_kept: str = "",
) -> HostReport:
    found = _sorted((*read, *kept.facts))
    return HostReport(
        found,
        kept.proofs,
        obstacles.find(found, kept.proofs),
        kept.time,
        kept.duration,
        cached,
        age,
        kept.conditions,
        asked,
        not_kept,
    )


# ---- what probers answered


def _tools(answer: Answer) -> tuple[Fact, ...]:
    if answer.document is None:
        return (Fact("programs", "programs of the host", answer.why, "host"),)
    return tuple(Fact(*map(str, row)) for row in answer.document["facts"])


def _proofs(tier: str, answer: Answer, now: float) -> tuple[Proof, ...]:
    """Every claim of a tier with what came of it; those that were not reached are told as not run."""
    stated = claims.stated(tier)
    if answer.document is None:
        found = {tier: Claim(tier, stated[0].text, probes.FAILED, answer.why, answer.duration)}
        error = None
    else:
        found = {row[0]: Claim(*row) for row in answer.document["claims"]}
        error = answer.document["error"]
    verdict = found[tier]
    cause = "" if verdict.result == probes.PROVED else _cause(tier, found.values(), verdict, error)
    own = str(error["next"]) if cause == LACKS and error else ""
    rows = []
    for row in stated:
        ident = f"{tier}.{row.id}" if row.id else tier
        claim = found.pop(ident, None) or Claim(
            ident, row.text, probes.NOT_RUN, "the tier could not be tried so far", 0.0
        )
        rows.append(_proof(tier, claim, row.without, now, cause, own))
    return (*rows, *(_proof(tier, claim, "", now, cause, own) for claim in found.values()))


def _cause(tier: str, found: Iterable[Claim], verdict: Claim, error: Mapping[str, Any] | None) -> str:
    known = causes.of_error(from_dict(dict(error))) if error else None
    if known:
        return known.id
    if error and tier in IMAGE_TIERS and not str(error["code"]).startswith("launch-"):
        return LACKS  # it came to no launch: the tier itself, its engine or its store says why
    words = " ".join([verdict.evidence, *(one.evidence for one in found if one.result == probes.FAILED)])
    hung = any(said in words for said in ("no answer within", "did not say"))
    return "proof-hung" if hung else "proof-failed"


def _proof(tier: str, claim: Claim, without: str, now: float, cause: str, own: str = "") -> Proof:
    """``own``: the remedy that the tier's own refusal names."""
    if claim.result == probes.PROVED:
        return Proof(*claim, tier, without, now, "", "", now, ())
    if claim.id.endswith(".memory-box") and "is not enforced" in claim.evidence and not cause:
        cause = "delegation"  # the row of the limit says why; without dd nothing was found out
    remedy = own or (causes.BY_ID[cause].remedy if cause else "")
    return Proof(*claim, tier, without, now, cause, remedy, 0.0, ())


def _remembered(
    proof: Proof, passed: Mapping[str, Passed], here: Conditions, asked: tuple[str, ...]
) -> Proof:
    """With when it last held, and what changed since: nothing for one that holds now."""
    before = passed.get(proof.id)
    if proof.result == probes.PROVED or before is None:
        return proof
    struck = tuple(f"injected: {one}" for one in asked)
    return proof._replace(
        passed=before.time, changed=(*struck, *conditions.differing(before.conditions, here))
    )
