"""Writing a proposal out, and checking what was written again. Not for callers inside a box."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from backends.boxes import store
from backends.boxes.layout import BoxPaths, config_dir
from backends.boxes.lifecycle import require
from backends.boxes.manifest import load
from backends.errors import ClocheError, NoSuchBox, UsageError
from backends.policy.settings import settings
from backends.snapshots import BoxRow, ExportOutcome, Finding
from backends.trees import source as sources
from backends.verbs import authority, passage, proposal


def export(
    paths: BoxPaths,
    row: BoxRow,
    out: Path,
    force: bool,
    *,
    series: bool = False,
    sign: Path | None = None,
    prompt: bool = False,
) -> ExportOutcome:
    """Write the three artefacts; see ``Engine.export``."""
    authority.require_outside("export")
    from backends.gate import export as gate
    from backends.verbs import reviewing

    with passage.holding(paths, "export") as held:
        require(paths.name, held.manifest.state, "export")
        review = reviewing.review(paths, row)
        known = held.manifest.journal
        from backends.verbs import commits

        mails, unseen = commits.series(held) if series else ((), ())
        review = review._replace(checks=(*review.checks, *unseen))
        done = gate.export(
            paths,
            review,
            out,
            force=force,
            anchor=(known["count"], known["head"]) if known else None,
            series=mails,
            sign=_signer(sign, prompt),
        )
        proposal.anchor(paths, held.change())
    return done._replace(warnings=unseen)


def _signer(key: Path | None, prompt: bool) -> Callable[[bytes], bytes] | None:
    if key is None:
        return None
    from backends.evidence import signing

    signing.executable("the receipt was not signed")  # before anything is rendered
    return lambda receipt: signing.sign(receipt, key, prompt=prompt)


def key_of(wish: str | None, cwd: Path) -> Path | None:
    """The key that is to sign: as asked, ``None`` as the person's configuration says, "" for none."""
    return _place(settings().sign, config_dir()) if wish is None else _place(wish, cwd)


def signers_of(wish: str | None, cwd: Path) -> Path | None:
    """The file that says whose signatures count, alike."""
    return _place(settings().signers, config_dir()) if wish is None else _place(wish, cwd)


def _place(text: str, folder: Path) -> Path | None:
    return folder / Path(text).expanduser() if text else None


def verify(folder: Path, signers: Path | None = None) -> tuple[Finding, ...]:
    """Check an export; with its box on this host, against the box's journal and every anchor.

    ``signers`` as for :func:`backends.evidence.verify.verify_bundle`.
    """
    from backends.evidence.verify import box_of, verify_bundle

    try:
        paths = store.find(box_of(folder), None)
    except (NoSuchBox, UsageError):  # what a receipt says need not be the name of any box
        paths = None
    if paths is None:
        return verify_bundle(folder, signers=signers)
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
        return (*verify_bundle(folder, paths.journal, anchors, signers), damaged)
    return verify_bundle(folder, paths.journal, anchors, signers)
