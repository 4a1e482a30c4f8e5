"""The host's own findings: what its tiers proved, its folders, room and clock, what killed commands left."""

from __future__ import annotations

import os
from collections.abc import Collection

from backends.boxes import store
from backends.boxes.layout import BoxPaths, runtime_dir, state_dir
from backends.doctor import clock, room, strays
from backends.doctor.rows import HOST, Voice, command
from backends.errors import ClocheError
from backends.host import probes
from backends.host.causes import BY_ID
from backends.snapshots import Finding
from backends.snapshots_host import HostReport, Obstacle, Proof
from backends.verbs import removal

SEVERE = "boxes of this tier do not start"


def check(report: HostReport, used: Collection[str]) -> list[Finding]:
    """The rows of the host. ``used``: the tiers of the boxes that are looked at, which must not fail."""
    rows = [_of_proof(proof, used, report) for proof in report.proofs]
    if report.injected:
        text = "failures are injected: this is not what the host is"
        rows.insert(
            0, Voice(HOST, "injected").warn(text, ", ".join(report.injected), SEVERE, "unset CLOCHE_INJECT")
        )
    rows += [_of_obstacle(one, used) for one in report.obstacles if not _told(one, used)]
    rows.append(_remembered(report))
    rows.append(_runtime())
    for look in (room.host, clock.host, strays.check):
        try:
            rows += look()
        except ClocheError:
            continue  # the row of the socket folder tells
    return rows


def _of_proof(proof: Proof, used: Collection[str], report: HostReport) -> Finding:
    voice = Voice(HOST, proof.id)
    if proof.result == probes.PROVED:
        return voice.ok(proof.text, proof.evidence)
    changed = f"; since it last held: {', '.join(proof.changed)}" if proof.changed else ""
    why = proof.without or SEVERE
    evidence, remedy = proof.evidence + changed, proof.remedy or "cloche probe --fresh"
    if proof.result == "not run":
        return voice.note(proof.text, evidence, why, remedy)
    verdict = report.verdict(proof.tier)
    started = verdict is not None and verdict.result == probes.PROVED
    if proof.tier in used or proof.passed or (started and proof.id != proof.tier):
        return voice.fail(proof.text, evidence, why, remedy)
    return voice.warn(proof.text, evidence, f"{why}; no box that was looked at needs it", remedy)


def _told(obstacle: Obstacle, used: Collection[str]) -> bool:
    """Whether the row of a proof says it already."""
    return not BY_ID[obstacle.id].narrows and any(tier in used for tier in obstacle.tiers)


def _of_obstacle(one: Obstacle, used: Collection[str]) -> Finding:
    voice = Voice(HOST, f"cause {one.id}")
    concerned = [tier for tier in one.tiers if tier in used]
    why = f"{one.why}; it concerns {', '.join(one.tiers) or 'no tier'}"
    if concerned:
        return voice.warn(one.what, one.evidence, why, one.remedy)
    return voice.note(one.what, one.evidence, f"{why}, and no box that was looked at", one.remedy)


def _remembered(report: HostReport) -> Finding:
    voice = Voice(HOST, "proofs")
    if report.cached:
        said = f"{report.age:.0f} s ago, under the same kernel, packages and configuration"
        return voice.ok("the proofs were run before and are remembered; --fresh runs them now", said)
    if report.not_kept and not report.injected:
        why = "every command that asks about this host runs all proofs again"
        return voice.note("the proofs cannot be remembered", report.not_kept, why, "cloche probe --fresh")
    return voice.ok("the proofs were run just now", f"{report.duration:.1f} s")


def _runtime() -> Finding:
    voice = Voice(HOST, "runtime-dir")
    try:
        return voice.ok("the socket folder is yours alone", str(runtime_dir()))
    except ClocheError as error:
        return voice.error(error, "whoever owns it could pose as the keeper of a box")


def readable(paths: BoxPaths) -> bool:
    """Whether we may look into a box's folder; of one that is closed to us its own findings tell."""
    return os.access(paths.root, os.R_OK | os.X_OK)


def leftovers(repository_key: str | None) -> list[Finding]:
    """Boxes that were never finished or half removed, and folders of killed probes."""
    rows = [
        Voice(paths.key, "unfinished").warn(
            "a killed cloche new left this",
            str(paths.root),
            "it keeps a reference in its repository, and its name",
            "cloche gc",
            "unfinished",
        )
        for paths in store.folders(repository_key)
        if readable(paths) and not paths.manifest.exists() and not store.held(paths)
    ]
    root = state_dir()
    for parent in [root / repository_key] if repository_key else sorted(root.glob("*")):
        for left in sorted(parent.glob(f"{removal.REMOVING}*")):
            text, why = "a box is half removed", "it takes room"
            rows.append(Voice(HOST, "half-removed").warn(text, str(left), why, "cloche gc"))
    try:
        stale = probes.stale()
    except ClocheError:
        return rows  # the socket folder's row tells
    for folder in stale:
        text, why = "a killed probe left this", "it takes room"
        remedy = command("rm", "-r", folder)
        rows.append(Voice(HOST, "stale-probe").note(text, str(folder), why, remedy, "probes"))
    return rows
