"""Which way a live box is held to its list of destinations; only a tier with one has what it loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.tiers.protocol import LaunchSpec, LiveBox

if TYPE_CHECKING:
    from backends.keeper.listed import Listed, Record
    from backends.keeper.log import Log
    from backends.keeper.loop import Loop
    from backends.keeper.packets import Deny


def listed(loop: Loop, log: Log, spec: LaunchSpec, box: LiveBox, deny: Deny, record: Record) -> Listed | None:
    """By a packet filter with a relay, by a proxy, or None: the box has no list."""
    if box.network is not None:
        from backends.keeper.egress import Egress

        return Egress(loop, log, spec.policy, box.network, deny, record, box=spec.box_name)
    if box.proxy is not None:
        from backends.keeper.proxy_egress import ProxyEgress

        return ProxyEgress(loop, log, spec.policy, box.proxy, deny, record)
    return None
