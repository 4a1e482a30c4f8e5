"""Whether the manifest tells of the box that it lies in."""

from __future__ import annotations

import os

from backends.boxes.lifecycle import STATES
from backends.doctor.rows import Box, Voice, command
from backends.snapshots import Finding

WHY = "every command believes the manifest: which commit, which tier, which digest, whose files"


def check(box: Box) -> list[Finding]:
    """One row."""
    voice, known = Voice(box.paths.key, "manifest"), box.manifest
    wrong: list[str] = []
    if known.name != box.paths.name:
        wrong.append(f"it names the box {known.name!r}")
    if known.state not in STATES:
        wrong.append(f"its state is {known.state!r}")
    try:
        owner = os.lstat(box.paths.home).st_uid
    except FileNotFoundError:
        owner = known.payload_uid
    if owner != known.payload_uid:
        wrong.append(f"it says user {known.payload_uid}, the box's home belongs to {owner}")
    if wrong:
        remedy = command("cloche", "rm", "--force", box.paths.key)
        return [voice.fail("the manifest is not this box's", "; ".join(wrong), WHY, remedy)]
    return [voice.ok("the manifest is this box's", f"tier {known.tier}, state {known.state}")]
