"""Which tiers can enforce a policy at all, whatever the host: the documented table behind ``--tier auto``.

Whether this host can have the tier is another question, answered by the tier itself and by the probes.
"""

from __future__ import annotations

from backends.policy.model import Policy
from backends.record import NamedTuple


class Misfit(NamedTuple):
    """A key that a tier cannot enforce, why, and what to do instead."""

    key: str
    why: str
    remedy: str


# From the cheapest to the dearest start; auto takes the first that fits and is proved on the host.
AUTO_ORDER = ("process", "supervised", "container", "microvm")
EGRESS_TIERS = frozenset({"supervised", "container", "microvm"})
IMAGE_TIERS = frozenset({"container", "microvm"})


def misfits(policy: Policy, tier: str) -> tuple[Misfit, ...]:
    """Every key of ``policy`` that ``tier`` cannot enforce; empty if it can enforce all."""
    found = []
    if policy.net.mode == "allow" and tier not in EGRESS_TIERS:
        found.append(
            Misfit(
                "net.mode",
                f"the {tier} tier cannot hold a box to a list of destinations",
                'use --tier supervised, or state net.mode = "deny" (nothing) or "host" (everything)',
            )
        )
    if tier in EGRESS_TIERS and policy.net.mode == "host":
        found.append(
            Misfit(
                "net.mode",
                f"the {tier} tier gives a box a network of its own, never the host's",
                'state net.mode = "allow" with net.egress, or "deny"; "host" takes --tier process',
            )
        )
    if tier == "supervised" and not policy.net.loopback:
        found.append(
            Misfit(
                "net.loopback",
                f"at the {tier} tier the way to every destination is the box's own loopback",
                "state net.loopback = true: it reaches nothing of the host",
            )
        )
    if policy.image and tier not in IMAGE_TIERS:
        found.append(
            Misfit(
                "image",
                f"the {tier} tier runs the host's own programs, not an image",
                "use --tier container or microvm, or leave image out",
            )
        )
    for key, differs, only in (
        ("runtime", policy.runtime != "auto", "container"),
        ("rootful", policy.rootful, "container"),
        ("accelerator", policy.accelerator != "hardware", "microvm"),
        ("vmm", policy.vmm != "auto", "microvm"),
    ):
        if differs and tier != only:
            found.append(
                Misfit(key, f"the {tier} tier has no {key}", f"use --tier {only}, or leave {key} out")
            )
    for key, stated in (("services", policy.services), ("secrets", policy.secrets)):
        if stated:
            found.append(
                Misfit(
                    key,
                    f"the {tier} tier of this version provides no {key}",
                    f"remove {key} from the profile",
                )
            )
    if tier in IMAGE_TIERS and not policy.image:
        found.append(
            Misfit("image", f"the {tier} tier needs an image", "state image in the profile, or --image")
        )
    return tuple(found)


def candidates(policy: Policy) -> tuple[str, ...]:
    """The tiers that ``auto`` may take for ``policy``, cheapest first. Never ``workspace``."""
    return tuple(tier for tier in AUTO_ORDER if not misfits(policy, tier))
