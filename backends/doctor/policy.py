"""Whether the policy on disk is the one that the box was made with, by two witnesses of its digest."""

from __future__ import annotations

from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import Manifest
from backends.doctor.rows import Box, Voice, command
from backends.errors import ClocheError
from backends.evidence import journal
from backends.policy import canonical
from backends.policy.model import Policy
from backends.snapshots import Finding

WHY = "the box would be held to other rules than those that were agreed on; it is refused a start"


def check(box: Box) -> list[Finding]:
    """One row: the bytes, the manifest and the journal name one digest."""
    voice = Voice(box.paths.key, "policy")
    wanted = box.manifest.policy_digest
    try:
        found = canonical.digest(box.paths.policy.read_bytes())
    except OSError as error:
        found = error.strerror or "unreadable"
    agreed = _journalled(box.paths, box.manifest.generation)
    if found != wanted:
        evidence = f"policy.json has {found}, the box was made with {wanted}"
        return [voice.fail("the policy was changed", evidence, WHY, _anew(box))]
    if agreed and agreed != wanted:
        evidence = f"policy.json and manifest have {found}, the journal says {agreed}"
        return [voice.fail("the policy was changed, and the manifest with it", evidence, WHY, _anew(box))]
    return [voice.ok("the policy is the one that the box was made with", f"SHA-256 {found}")]


def _anew(box: Box) -> str:
    """The rules that were agreed on cannot be had back from their digest: what the box holds can."""
    name, profile = box.paths.key, box.manifest.profile
    fresh = command("cloche", "new", "--profile", profile)
    if box.manifest.state in ("created", "aborted"):
        return f"{command('cloche', 'rm', '--force', name)} && {fresh}"
    if box.manifest.state in ("proposed", "applied"):
        keep = command("cloche", "export", name, "--out", f"{box.paths.name}-export")
        return f"{keep} && {command('cloche', 'rm', '--force', name)}"
    return (
        f"{command('cloche', 'propose', name)} && "
        f"{command('cloche', 'export', name, '--out', f'{box.paths.name}-export')} && "
        f"{fresh}"
    )


def _journalled(paths: BoxPaths, generation: int) -> str:
    """The digest of that generation as the journal tells it, "" where it tells none (cut or damaged)."""
    said: dict[object, str] = {}
    try:
        for record in journal.read(paths.journal):
            if record.kind == "created":
                said[1] = str(record.data.get("policy_digest", ""))
            elif record.kind == "policy":
                said[record.data.get("generation")] = str(record.data.get("digest", ""))
    except (ClocheError, OSError):
        return ""  # the check of the journal tells
    return said.get(generation, "")


def trusted(paths: BoxPaths, manifest: Manifest) -> Policy | None:
    """The policy, where it is the one whose digest the manifest has."""
    try:
        data = paths.policy.read_bytes()
        return canonical.decode(data) if canonical.digest(data) == manifest.policy_digest else None
    except (OSError, ClocheError):
        return None
