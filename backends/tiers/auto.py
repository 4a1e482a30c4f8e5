"""``--tier auto``: the cheapest tier that can enforce every key of the policy, by a documented table.

The order is that of the starts' cost: process, supervised, container, microvm. ``workspace`` is never among
them, because it enforces nothing. Which keys a tier can enforce at all is in :mod:`backends.policy.fit`;
whether this host can have it is the tier's own answer, by refusals and, where asked for, by a probe. The
reasoning and its words are those of :mod:`backends.tiers.choosing`.
"""

from __future__ import annotations

from backends.errors import Refused
from backends.policy.fit import AUTO_ORDER
from backends.policy.model import Policy
from backends.record import NamedTuple
from backends.snapshots_choice import DEARER, Weighed
from backends.tiers import choosing


class Choice(NamedTuple):
    """The tier and one sentence that says why this one."""

    tier: str
    why: str


def choose(policy: Policy, *, verdict: choosing.Verdict = choosing.unproved) -> Choice:
    """The tier for ``policy`` on this host; ``Refused`` when none can be had. No dearer tier is asked.

    ``verdict`` is what is known of a minimal box of each tier that ran here; without, nothing is.
    """
    rows: dict[str, Weighed] = {}
    for name in AUTO_ORDER:
        rows[name] = choosing.weigh_one(policy, name, verdict)
        if rows[name].state == DEARER:
            return Choice(name, choosing.why_taken(rows, name))
    why, remedy = choosing.why_none(policy, rows)
    raise Refused("no tier can enforce this policy here", why, remedy, code="no-tier")
