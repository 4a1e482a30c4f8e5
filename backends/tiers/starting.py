"""Launching a box of a tier that confines by the kernel: what is planned, handed to the launcher."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from backends import trace
from backends.errors import Refused
from backends.kernel import audit, cgroups, landlock
from backends.tiers import etc, launcher, limits, planning, received
from backends.tiers.builder import Builder
from backends.tiers.limits import Held
from backends.tiers.protocol import LaunchSpec, LiveBox, Refusal
from backends.tiers.remedies import explained

if TYPE_CHECKING:
    from backends.tiers.networking import Networking


def start(
    tier: str, spec: LaunchSpec, refusals: Iterable[Refusal], networking: Networking | None = None
) -> LiveBox:
    """Launches a box of ``tier``; with ``networking`` in a network with a list. Raises as Tier.launch."""
    for first in refusals:
        raise Refused(f"the {tier} tier cannot take {first.key}", first.why, first.remedy, code="tier")
    begun = spec.begun or Builder()
    try:
        layered = planning.layered(spec)
        begun.open(planning.opening(spec, layered))  # it takes the kernel longer than us to plan
        held = limits.hold(_group_name(spec), spec.policy.resources, confined=True)
    except BaseException:
        begun.abandon()
        raise
    heard = None
    try:
        trace.point("launch: limits")
        try:
            begun.enter(held.groups)  # that, too
            silent = audit.unavailable(landlock.abi())
            heard = None if silent else audit.listen()
            prepared = planning.prepare(spec, held, layered, networking)
        except BaseException:
            begun.abandon()
            raise
        trace.point("launch: plan")
        launched = launcher.launch(prepared.build._replace(audited=heard is not None), begun)
        trace.point("launch: boundary")
    except launcher.LaunchError as error:
        _give_up(held, heard)
        reason, remedy = explained(error.stage, error.why)
        raise Refused(
            f"the {tier} tier cannot start box {spec.box_name}",
            f"{error.what}: {error.why} ({reason})",
            remedy,
            code=f"launch-{error.stage}",
        ) from error
    except BaseException:
        _give_up(held, heard)
        raise
    return LiveBox(
        init=launched.init,
        pidfd=launched.pidfd,
        control=launched.control,
        notify=launched.notify,
        death=launched.death,
        enforcement=(*prepared.enforcement, received.shared(prepared.build.root.shares, launched.unset)),
        not_observed=received.not_observed(spec.policy, held, networking, silent),
        cgroups=held.groups.folders,
        inside_tree=etc.TREE,
        inside_home=etc.HOME,
        pid_namespace=launched.namespace,
        network=networking.live(launched.network, launched.hosts) if networking else None,
        audit=heard,
    )


def _give_up(held: Held, heard: socket.socket | None) -> None:
    cgroups.remove(held.groups.folders)
    if heard is not None:
        heard.close()


def _group_name(spec: LaunchSpec) -> str:
    return f"{spec.paths.repository_key}-{spec.box_name}-{os.urandom(4).hex()}"
