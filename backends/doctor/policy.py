"""Whether the policy on disk is the one that the box was made with, by two witnesses of its digest."""

from __future__ import annotations

from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import Manifest, write_atomically
from backends.doctor.rows import Box, Voice, command
from backends.errors import ClocheError, Refused
from backends.evidence import journal
from backends.policy import canonical
from backends.policy.model import Policy
from backends.policy.resolve import resolve
from backends.snapshots import Finding
from backends.verbs import passage

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
        if agreed == wanted and _had_back(box) is not None:
            remedy = command("cloche", "doctor", box.paths.key, "--fix")
            return [
                voice.fail("the policy was changed", evidence, WHY, remedy, "policy" if box.ended else "")
            ]
        return [voice.fail("the policy was changed", evidence, WHY, _anew(box))]
    if agreed and agreed != wanted:
        evidence = f"policy.json and manifest have {found}, the journal says {agreed}"
        return [voice.fail("the policy was changed, and the manifest with it", evidence, WHY, _anew(box))]
    return [voice.ok("the policy is the one that the box was made with", f"SHA-256 {found}")]


def _anew(box: Box) -> str:
    """No command of the gate takes what was done under other rules: its changes are kept as a patch."""
    keep = f"{command('cloche', 'diff', box.paths.key)} > {command(box.paths.name + '.patch')}"
    return f"{keep} && {command('cloche', 'new', '--profile', box.manifest.profile)}"


def _had_back(box: Box) -> bytes | None:
    """The bytes that the digest names, made once more from the profile; None where that gives others by now.

    What has the digest that manifest and journal agree on is the policy, whoever writes it.
    """
    known = box.manifest
    place = Path(known.repository) if known.repository and Path(known.repository).is_dir() else None
    for trusted_ in (True, False):
        try:
            made = resolve(
                known.profile,
                repository=place,
                trusted=trusted_,
                tier=known.tier,
                protected=(*([Path(known.git_dir)] if known.git_dir else []), box.paths.root),
            )
        except ClocheError:
            continue  # the profile is gone, or written wrongly
        text = canonical.encode(made.policy)
        if canonical.digest(text) == known.policy_digest:
            return text
    return None


def restore(box: Box) -> str:
    """The repair: the policy that the digest names, where the profile still gives it."""
    with passage.holding(box.paths, "doctor"):
        text = _had_back(box)
        if text is None:
            raise Refused(
                "the policy cannot be had back",
                f"profile {box.manifest.profile} gives another one by now",
                _anew(box),
                code="policy-changed",
            )
        write_atomically(box.paths.policy, text)
    return f"policy.json is the one with the digest {box.manifest.policy_digest} again"


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
