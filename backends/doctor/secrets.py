"""Whether what a box is to be given is there to be given. Names only: no value is read, shown or kept."""

from __future__ import annotations

import os

from backends.doctor.policy import trusted
from backends.doctor.rows import Box, Voice, command
from backends.evidence.redact import is_secret_name
from backends.snapshots import Finding


def check(box: Box) -> list[Finding]:
    """One row where the policy names secrets or passes variables that hold some."""
    policy = trusted(box.paths, box.manifest)
    if policy is None:
        return []
    voice = Voice(box.paths.key, "secrets")
    if policy.secrets:
        return [
            voice.fail(
                "secrets are named that nothing here hands out",
                ", ".join(policy.secrets),
                "the box does not start: this version has no store of secrets",
                command("cloche", "policy", "explain", box.paths.key),
            )
        ]
    wanted = [name for name in policy.env.passed if is_secret_name(name)]
    missing = [name for name in wanted if name not in os.environ]
    if missing:
        return [
            voice.note(
                "variables that the policy passes are not set here",
                ", ".join(missing),
                "a session that is started from this shell does not have them",
                f"export {missing[0]}=...",
            )
        ]
    return [voice.ok("every secret that the policy passes is set", ", ".join(wanted))] if wanted else []
