"""Whether the image of a box is still the one that its policy pins."""

from __future__ import annotations

from backends.doctor.policy import trusted
from backends.doctor.rows import Box, Voice, command
from backends.snapshots import Finding

WHY = "other programs would run in the box than those that were agreed on"


def check(box: Box) -> list[Finding]:
    """One row for a box whose policy names an image."""
    policy = trusted(box.paths, box.manifest)
    if policy is None or not policy.image:
        return []
    voice = Voice(box.paths.key, "image")
    if "@sha256:" not in policy.image:
        remedy = command("cloche", "policy", "explain", box.paths.key)
        return [voice.fail("the image is not pinned", policy.image, WHY, remedy)]
    return [voice.ok("the image is pinned by digest", policy.image)]
