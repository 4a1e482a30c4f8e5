"""The ``supervised`` tier: all of ``process``, and a private network with a list of destinations.

The box's network namespace has no way out. What is on the list is led to a relay of the keeper, which judges
it again and dials; whatever else is sent is refused and counted by the packet filter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from backends.errors import UsageError
from backends.policy.fit import misfits
from backends.policy.model import Policy
from backends.tiers import process
from backends.tiers.protocol import LaunchSpec, LiveBox, Refusal

if TYPE_CHECKING:
    from backends.tiers.builder import Builder


class SupervisedTier:
    name = "supervised"
    confined = True
    promise = (
        "all of process, and a private network: only listed destinations are reached, over TCP; every "
        "other packet is refused and counted by destination"
    )
    stays_false = (
        "the host's kernel is shared; inside TLS a listed server may lead on to others (domain fronting)"
    )

    def refusals(self, policy: Policy) -> tuple[Refusal, ...]:
        return (
            *_network_refusals(policy),
            *process.policy_refusals(policy),
            *process.host_refusals(policy),
        )

    def begin(self, begun: Builder | None) -> Builder | None:
        return process.TIER.begin(begun)

    def launch(self, spec: LaunchSpec) -> LiveBox:
        from backends.tiers import networking, starting

        refusals = self.refusals(spec.policy)
        decided = None if refusals else networking.decide(spec.policy)
        return starting.start(self.name, spec, refusals, decided)


def _network_refusals(policy: Policy) -> Iterable[Refusal]:
    for misfit in misfits(policy, SupervisedTier.name):
        if misfit.key.startswith("net."):
            yield Refusal(*misfit)
    if policy.net.mode == "allow":
        from backends.egress import rules

        for text in policy.net.egress:
            try:
                rules.parse(text)
            except UsageError as error:
                yield Refusal("net.egress", error.why, error.next_step)


TIER = SupervisedTier()
