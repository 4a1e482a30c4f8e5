"""What a person must know of a box beside its tier, wherever it is shown: less is promised than usual."""

from __future__ import annotations

from backends.policy.model import Policy

EMULATED = "emulated: about 13 times slower, no isolation promised"
ROOTFUL = "rootful: its engine runs as root, and who gets out of the container is root on the host"


def caveat(policy: Policy) -> str:
    """One word, a colon and the sentence; "" where the tier holds what it promises."""
    if policy.tier == "container" and policy.rootful:
        return ROOTFUL
    if policy.tier == "microvm" and policy.accelerator == "tcg":
        return EMULATED
    return ""
