"""The ``container`` tier: a rootless Podman container of an image, less all that Podman leaves open."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from backends import injected
from backends.errors import UsageError
from backends.policy.fit import misfits
from backends.policy.model import Policy
from backends.tiers.protocol import LaunchSpec, LiveBox, Refusal

if TYPE_CHECKING:
    from backends.tiers.builder import Builder


class ContainerTier:
    name = "container"
    confined = True
    promise = (
        "one image's files and none of the host's, read-only, in a rootless container without capabilities, "
        "without a network beside a list, under this product's own seccomp profile"
    )
    stays_false = (
        "the host's kernel is shared; refusals inside are not counted; a program that ignores the proxy of "
        "a list reaches nothing at all"
    )

    def refusals(self, policy: Policy) -> tuple[Refusal, ...]:
        return (*_policy_refusals(policy), *_host_refusals(policy))

    def begin(self, begun: Builder | None) -> None:
        if begun is not None:
            begun.abandon()

    def launch(self, spec: LaunchSpec) -> LiveBox:
        from backends.container import launching

        return launching.start(spec, self.refusals(spec.policy))


def _policy_refusals(policy: Policy) -> Iterable[Refusal]:
    for misfit in misfits(policy, ContainerTier.name):
        yield Refusal(*misfit)
    if policy.net.mode == "allow":
        from backends.egress import rules

        for text in policy.net.egress:
            try:
                rules.parse(text)
            except UsageError as error:
                yield Refusal("net.egress", error.why, error.next_step)
    if not policy.net.loopback:
        yield Refusal(
            "net.loopback",
            "a container's loopback is always up, and Podman has no way to leave it down",
            "state net.loopback = true: it reaches nothing of the host",
        )


def _host_refusals(policy: Policy) -> Iterable[Refusal]:
    from backends.container import gvisor, gvisor_call, podman, runtimes, userns

    struck = injected.how("podman")
    if (os.geteuid() == 0 or struck == "rootful") and not policy.rootful:
        mark = injected.MARK if struck == "rootful" else ""
        yield Refusal(
            "rootful",
            f"root's Podman runs as root: whoever gets out of its container is root on the host{mark}",
            "use this tier as an ordinary user, or state rootful = true, which is shown wherever the box is",
        )
    if os.geteuid() and policy.rootful:
        yield Refusal("rootful", "you are not root, so your containers are rootless", "leave rootful out")
    if podman.find() is None:
        places = [f"{folder}/docker" for folder in podman.SEARCH.split(":")]
        docker = [path for path in places if os.access(path, os.X_OK)]
        also = (
            f"; {docker[0]} is not used instead: its daemon is root and obeys whoever reaches its socket"
            if docker
            else ""
        )
        yield Refusal(
            "tier",
            f"there is no Podman here{injected.MARK if struck else ''}{also}",
            "as root: apt-get install podman runc uidmap",
        )
    elif os.geteuid() and not userns.subordinate():
        yield Refusal(
            "tier",
            "you have no ids in /etc/subuid and /etc/subgid, and an image has files of many users",
            "as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER",
        )
    if policy.runtime == gvisor_call.NAME:
        yield from gvisor.refusals(net=policy.net.mode, rootful=policy.rootful)
    if not any(runtimes.program(name) for name in runtimes.wanted(policy.runtime)):
        yield Refusal(
            "runtime",
            f"this host has none of {', '.join(runtimes.wanted(policy.runtime))}",
            runtimes.REMEDY,
        )


TIER = ContainerTier()
