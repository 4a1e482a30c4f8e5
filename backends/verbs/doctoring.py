"""Whether host and boxes keep their promises, what can safely be repaired, and a bundle that tells of it."""

from __future__ import annotations

import os
from collections.abc import Callable

from backends.boxes import manifest, store
from backends.boxes.layout import BoxPaths
from backends.doctor import examine, host, relocation
from backends.doctor.proof import Proofs
from backends.doctor.rows import worst_first
from backends.errors import ClocheError
from backends.host import reporting
from backends.snapshots import Finding
from backends.snapshots_doctor import Repair
from backends.snapshots_host import HostReport
from backends.trees.values import Source


def doctor(
    paths: BoxPaths | None,
    repository_key: str | None,
    here: Source | None,
    *,
    fresh: bool = False,
    examined: bool = True,
    progress: Callable[[str], None] | None = None,
) -> tuple[Finding, ...]:
    """See ``Engine.doctor``."""
    boxes = [paths] if paths else within(repository_key, here)
    report = reporting.report(fresh=fresh, progress=progress)
    return tuple(look(boxes, repository_key, here, report, progress, examined=examined))


def look(
    boxes: list[BoxPaths],
    repository_key: str | None,
    here: Source | None,
    report: HostReport,
    progress: Callable[[str], None] | None = None,
    *,
    examined: bool = True,
) -> tuple[Finding, ...]:
    """Every finding of the host and, where they are ``examined``, of ``boxes``, worst first."""
    rows = host.check(report, {tier for one in boxes if (tier := _tier(one))})
    proofs = Proofs()
    for box in boxes if examined else ():
        if progress:
            progress(f"box {box.name}")
        rows += examine.examine(box, here, proofs)
    proofs.end()
    rows += host.leftovers(repository_key)
    return worst_first(rows)


def within(repository_key: str | None, here: Source | None) -> list[BoxPaths]:
    """The boxes of a repository, or of all; with those that look for ``here`` where it is no more."""
    found = [paths for paths in store.folders(repository_key) if _is_box(paths)]
    if repository_key is None or here is None:
        return found
    for entry in store.folders():
        if entry.repository_key == repository_key or not _is_box(entry):
            continue
        try:
            known = manifest.load(entry)
        except (ClocheError, OSError):
            continue  # asked about by name, or with --all
        if relocation.belongs_here(known, here):
            found.append(entry)
    return found


def found(ref: str, find: Callable[[str], BoxPaths]) -> BoxPaths:
    """The box called ``ref``, also one whose folder is closed to us."""
    try:
        return find(ref)
    except PermissionError:
        for paths in store.folders():
            if ref in (paths.key, paths.name):
                return paths
        raise


def repair(findings: tuple[Finding, ...], here: Source | None, who: str) -> tuple[Repair, ...]:
    """See ``Engine.repair``."""
    from backends.doctor import repairs

    return repairs.make(findings, here, who)


def _is_box(paths: BoxPaths) -> bool:
    return os.path.lexists(paths.manifest) or not host.readable(paths)


def _tier(paths: BoxPaths) -> str:
    try:
        return manifest.load(paths).tier
    except (ClocheError, OSError):
        return ""  # its own findings tell
