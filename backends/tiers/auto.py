"""``--tier auto``: the cheapest tier that can enforce every key of the policy, by a documented table.

The order is that of the starts' cost: process, supervised, container, microvm. ``workspace`` is never among
them, because it enforces nothing. Which keys a tier can enforce at all is in :mod:`backends.policy.fit`;
whether this host can have it is the tier's own answer, by refusals and, where asked for, by a probe.
"""

from __future__ import annotations

from backends import tiers
from backends.errors import Refused
from backends.policy.fit import AUTO_ORDER, candidates, misfits
from backends.policy.model import Policy
from backends.record import NamedTuple


class Choice(NamedTuple):
    """The tier and one sentence that says why this one."""

    tier: str
    why: str


def choose(policy: Policy, *, executed: bool = False) -> Choice:
    """The tier for ``policy`` on this host; ``Refused`` when none can be had.

    ``executed``: a candidate counts only after a minimal box of it just ran here.
    """
    passed_over: list[str] = []
    remedies: list[str] = []
    for name in candidates(policy):
        why_not = _why_not(policy, name, executed=executed)
        if why_not is None:
            cheaper = f" ({'; '.join(passed_over)})" if passed_over else ""
            proved = ", proved by a run just now" if executed else ""
            return Choice(
                name, f"the cheapest tier that can enforce every key of the policy{proved}{cheaper}"
            )
        passed_over.append(f"{name}: {why_not.why}")
        remedies += [why_not.remedy] if why_not.remedy else []
    # What stands in the way of the cheapest tier can be changed; a tier of a later version cannot be had.
    nearest = remedies[:1] or [misfit.remedy for misfit in misfits(policy, AUTO_ORDER[0])]
    raise Refused(
        "no tier can enforce this policy here",
        "; ".join(passed_over) or "no tier can enforce each of its keys on any host",
        "; ".join(nearest)
        or "cloche probe says what this host can do; a box without a boundary takes --tier workspace",
        code="no-tier",
    )


class _WhyNot(NamedTuple):
    why: str
    remedy: str


def _why_not(policy: Policy, name: str, *, executed: bool) -> _WhyNot | None:
    if name not in tiers.MODULES:
        return _WhyNot("this version does not have it", "")
    refusals = tiers.get(name).refusals(policy._replace(tier=name))
    if refusals:
        return _WhyNot(f"{refusals[0].key}: {refusals[0].why}", refusals[0].remedy)
    if executed:
        from backends.host import probes

        verdict = probes.probe(name)[0]
        if verdict.result != probes.PROVED:
            return _WhyNot(verdict.evidence, "")
    return None
