"""Writing a proposal out, and checking what was written again. Not for callers inside a box."""

from __future__ import annotations

import json
from pathlib import Path

from backends.boxes import store
from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import require
from backends.boxes.manifest import load
from backends.errors import ClocheError, NoSuchBox
from backends.snapshots import BoxRow, ExportOutcome, Finding
from backends.trees import source as sources
from backends.verbs import authority, passage, proposal


def export(paths: BoxPaths, row: BoxRow, out: Path, force: bool, series: bool = False) -> ExportOutcome:
    """Write the three artefacts; see ``Engine.export``."""
    authority.require_outside("export")
    from backends.gate import export as gate
    from backends.verbs import reviewing

    with passage.holding(paths, "export") as held:
        require(paths.name, held.manifest.state, "export")
        review = reviewing.review(paths, row)
        known = held.manifest.journal
        from backends.verbs import commits

        mails = commits.series(held) if series else ()
        done = gate.export(
            paths,
            review,
            out,
            force=force,
            anchor=(known["count"], known["head"]) if known else None,
            series=mails,
        )
        proposal.anchor(paths, held.change())
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
