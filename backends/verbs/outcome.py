"""Carrying a result out: export, apply, and checking an export again. Not for callers inside a box."""

from __future__ import annotations

import json
from pathlib import Path

from backends.boxes import store
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import APPLIED, require
from backends.boxes.manifest import load
from backends.errors import ClocheError, NoSuchBox, Refused
from backends.snapshots import ApplyOutcome, BoxRow, ExportOutcome, Finding
from backends.trees import source as sources
from backends.verbs import authority, passage, proposal


def export(paths: BoxPaths, row: BoxRow, out: Path, force: bool) -> ExportOutcome:
    """Write the three artefacts; see ``Engine.export``."""
    authority.require_outside("export")
    from backends.gate import export as gate

    with passage.holding(paths, "export") as held:
        require(paths.name, held.manifest.state, "export")
        review = proposal.review(paths, row)
        known = held.manifest.journal
        done = gate.export(
            paths, review, out, force=force, anchor=(known["count"], known["head"]) if known else None
        )
        proposal.anchor(paths, held.change())
    return done


def apply(paths: BoxPaths, *, squash: bool, as_name: str | None, expect: str | None) -> ApplyOutcome:
    """Carry the reviewed snapshot onto its branch; see ``Engine.apply``."""
    authority.require_outside("apply")
    from backends.gate import apply as gate
    from backends.verbs import reviewing

    if as_name is not None and not as_name.strip():
        raise Refused(
            f"box {paths.name} was not applied",
            "the name of the script is empty",
            "give one: --as NAME",
            code="no-name",
        )
    with passage.holding(paths, "apply") as held:
        manifest = held.manifest
        require(paths.name, manifest.state, "apply")
        if manifest.detached:
            raise Refused(
                f"box {paths.name} cannot be applied",
                "it is detached: no branch of yours is its parent",
                f"export it: cloche export {paths.name} --out DIR",
                code="detached",
            )
        snapshot = proposal.snapshot_of(paths, manifest, "apply")
        if expect is not None and expect != snapshot["id"]:
            raise Refused(
                f"box {paths.name} was not applied",
                f"its snapshot is {snapshot['id']}, and {expect} was reviewed",
                f"review it again: cloche diff {paths.name}",
                code="other-snapshot",
            )
        reviewing.require_nothing_rejected(paths, proposal.info(snapshot))
        place = proposal.source_of(paths, manifest)
        assert place is not None
        who = as_name if as_name is not None else passage.person()
        done = gate.apply(
            paths,
            place,
            proposal.info(snapshot),
            branch=manifest.base_ref,
            who=who,
            scripted=as_name is not None,
            squash=squash,
            purpose=manifest.purpose,
            policy_digest=manifest.policy_digest,
            checks=proposal.checks(paths, snapshot),
        )
        held.move(
            APPLIED,
            f"applied to {manifest.base_ref}",
            who,
            applied={**done._asdict(), "scripted": as_name is not None},
            commit=done.new,
        )
        proposal.anchor(paths, held.manifest)
    return done


def verify(folder: Path) -> tuple[Finding, ...]:
    """Check an exported folder; with its box on this host, against the box's journal and every anchor."""
    from backends.evidence.verify import box_of, verify_bundle

    try:
        paths = store.find(box_of(folder), None)
    except NoSuchBox:
        return verify_bundle(folder)
    anchors: list[tuple[str, int, str]] = []
    try:
        manifest = load(paths)
        if manifest.journal:
            anchors.append(("manifest", manifest.journal["count"], manifest.journal["head"]))
        place = proposal.source_of(paths, manifest)
        blob = sources.read_anchor(place, paths.name) if place else None
        if blob:
            value = json.loads(blob)
            anchors.append(("source repository", int(value["count"]), str(value["head"])))
    except (ClocheError, ValueError, KeyError, TypeError) as error:
        damaged = Finding(
            "anchors", "fail", "an anchor of the journal cannot be read", str(error), "cloche doctor"
        )
        return (*verify_bundle(folder, paths.journal, anchors), damaged)
    return verify_bundle(folder, paths.journal, anchors)
