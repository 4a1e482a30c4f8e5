"""``--tier auto``: the cheapest tier that can enforce every key of the policy, by a documented table.

The order is that of the starts' cost: process, supervised, container, microvm. ``workspace`` is never among
them, because it enforces nothing. Which keys a tier can enforce at all is in :mod:`backends.policy.fit`;
whether this host can have it is the tier's own answer, by refusals and, where asked for, by a probe. The
reasoning and its words are those of :mod:`backends.tiers.choosing`.
"""

from __future__ import annotations

from backends import tiers
from backends.errors import Refused
from backends.policy.fit import AUTO_ORDER
from backends.policy.model import Policy
from backends.record import NamedTuple
from backends.snapshots_choice import DEARER, Weighed
from backends.tiers import choosing
from backends.values import Claim


class Choice(NamedTuple):
    """The tier and one sentence that says why this one."""

    tier: str
    why: str


def choose(policy: Policy, *, executed: bool = False, verdict: choosing.Verdict | None = None) -> Choice:
    """The tier for ``policy`` on this host; ``Refused`` when none can be had. No dearer tier is asked.

    ``executed``: a candidate counts only after a minimal box of it just ran here. ``verdict`` is what is
    known of such a run already.
    """
    asked = verdict or (_runs() if executed else choosing.unproved)
    rows: dict[str, Weighed] = {}
    for name in AUTO_ORDER:
        rows[name] = choosing.weigh_one(policy, name, asked)
        if rows[name].state == DEARER:
            return Choice(name, choosing.why_taken(rows, name))
    why, remedy = choosing.why_none(policy, rows)
    raise Refused("no tier can enforce this policy here", why, remedy, code="no-tier")


def _runs() -> choosing.Verdict:
    """Runs a tier's probe when it is first asked for, and tells of each of its claims."""
    from backends.host import probes

    known: dict[str, Claim] = {}

    def tell(ident: str) -> Claim | None:
        if ident in tiers.MODULES:
            known.update((claim.id, claim) for claim in probes.probe(ident))
        return known.get(ident)

    return tell
