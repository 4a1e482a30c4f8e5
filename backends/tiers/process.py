"""The ``process`` tier: namespaces, a root of granted paths only, Landlock, seccomp and limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from backends import injected
from backends.boxes.layout import state_dir
from backends.kernel import landlock, syscalls
from backends.policy.model import Policy
from backends.tiers import grants
from backends.tiers.protocol import LaunchSpec, LiveBox, Refusal
from backends.tiers.remedies import remedy

if TYPE_CHECKING:
    from backends.tiers.builder import Builder

LANDLOCK_MINIMUM = 2  # below it, moving a file between folders is refused inside too
LANDLOCK_HOST_NETWORK = 6  # abstract sockets of the host are in sight then; from here on they can be scoped


class ProcessTier:
    name = "process"
    confined = True
    promise = (
        "a file system allowlist, system call denials, namespaces and limits bind the whole process tree, "
        "whatever it forks"
    )
    stays_false = "the host's kernel is shared; the network is all or nothing, without a list of destinations"

    def refusals(self, policy: Policy) -> tuple[Refusal, ...]:
        return (*_network_refusals(policy), *policy_refusals(policy), *host_refusals(policy))

    def begin(self, begun: Builder | None) -> Builder | None:
        from backends.tiers.builder import Builder  # a command that only makes a box does without

        return begun or Builder()

    def launch(self, spec: LaunchSpec) -> LiveBox:
        from backends.tiers import starting

        return starting.start(self.name, spec, self.refusals(spec.policy))


# ---- what cannot be had


def _network_refusals(policy: Policy) -> Iterable[Refusal]:
    if policy.net.mode == "allow":
        yield Refusal(
            "net.mode",
            "this tier cannot hold a box to a list of destinations",
            'use --tier supervised, or state net.mode = "deny" (nothing) or "host" (everything)',
        )
    if policy.net.mode == "host" and not policy.net.loopback:
        yield Refusal(
            "net.loopback",
            "with the host's network its loopback is there too",
            'state net.loopback = true, or net.mode = "deny"',
        )


def policy_refusals(policy: Policy) -> Iterable[Refusal]:
    """What a tier that runs the host's programs in a root of grants cannot enforce, beside the network."""
    if policy.image:
        yield Refusal(
            "image",
            "this tier runs the host's programs, not an image",
            "use --tier container or microvm, or leave image out",
        )
    for key, stated in (("services", policy.services), ("secrets", policy.secrets)):
        if stated:
            yield Refusal(key, f"this tier provides no {key}", f"remove {key} from the profile")
    collisions = [("fs.read", *found) for found in grants.collisions(policy.fs.read)]
    collisions += [("fs.write", *found) for found in grants.collisions(policy.fs.write, writable=True)]
    for key, path, why in collisions:
        yield Refusal(key, f"{path} cannot be shown in a box: {why}", f"remove {path} from {key}")
    records = str(state_dir().resolve())
    for path in policy.fs.write:
        if grants.covers(path, records) or grants.covers(records, path):
            yield Refusal(
                "fs.write", f"{path} reaches Cloche's own records in {records}", "grant a smaller folder"
            )
    for path in grants.listening_below(policy.fs.write):
        yield Refusal(
            "fs.write",
            f"a host process listens on {path}, which a write grant would connect to the box",
            "grant a smaller folder, or read only",
        )


def host_refusals(policy: Policy) -> Iterable[Refusal]:
    """What this host cannot do for a confined box, as far as it tells without trying."""
    if syscalls.architecture() not in syscalls.ARCHITECTURES:
        yield Refusal(
            "tier", f"there is no system call table for {syscalls.architecture()}", remedy("architecture")
        )
    level = landlock.abi()
    if level < LANDLOCK_MINIMUM:
        yield Refusal(
            "tier",
            f"Landlock ABI {LANDLOCK_MINIMUM} is needed, this kernel offers {level or 'none'}"
            + (injected.MARK if injected.how("landlock") else ""),
            remedy("landlock"),
        )
    elif policy.net.mode == "host" and level < LANDLOCK_HOST_NETWORK:
        yield Refusal(
            "net.mode",
            f"the host's abstract sockets can be closed off from Landlock ABI {LANDLOCK_HOST_NETWORK} on,"
            f" this kernel offers {level}",
            'state net.mode = "deny", or use Linux 6.12',
        )


TIER = ProcessTier()
