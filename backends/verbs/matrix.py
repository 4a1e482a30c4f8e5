"""The isolation matrix as people ask for it: of this host, of one box, of other products."""

from __future__ import annotations

from pathlib import Path

from backends import tiers
from backends.boxes import liveness
from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import load
from backends.host import matrix
from backends.host.matrix_projects import PROJECTS
from backends.host.matrix_words import COLUMNS
from backends.policy import canonical, escapes
from backends.policy.explain import decode_sources
from backends.policy.model import Policy
from backends.snapshots_host import HostReport
from backends.snapshots_matrix import Matrix, Project
from backends.values import Claim


def show(paths: BoxPaths | None, key: str, report: HostReport) -> Matrix:
    """The whole table with this host's proofs; of a box its own row, with the proofs of its last launch."""
    claims = report.claims()
    if paths is None:
        rows = matrix.rows(claims, tiers.MODULES)
        return Matrix(COLUMNS, rows, "", report.time, report.cached, report.injected)
    manifest = load(paths)
    policy = canonical.decode(paths.policy.read_bytes())
    sources = decode_sources(paths.sources.read_bytes()) if paths.sources.exists() else {}
    confined = tiers.get(manifest.tier).confined  # where nothing is separated, nothing deletes it
    deleted = escapes.found(policy, str(Path.home().resolve()), sources) if confined else ()
    if manifest.tier == "container" and paths.root.stat().st_uid == 0:
        deleted += (escapes.rootful(),)
    row = matrix.of_box(manifest.tier, _launched(paths), deleted, claims, _network(policy))
    return Matrix(COLUMNS, (row,), key, report.time, report.cached, report.injected)


def _network(policy: Policy) -> str:
    """The network of this policy, where the tier's own words leave it open."""
    if policy.tier == "workspace":
        return "the host's"
    listed = len(policy.net.egress)
    return {
        "deny": "none",
        "host": "the host's",
        "allow": f"{listed} listed destination{'' if listed == 1 else 's'}",
    }[policy.net.mode]


def _launched(paths: BoxPaths) -> tuple[Claim, ...]:
    """What the box's own init proved at its last launch; nothing for a box that was never live."""
    told = liveness.read(paths).facts.get("claims", [])
    return tuple(
        Claim(str(ident), str(text), str(result), str(evidence), float(duration))
        for ident, text, result, evidence, duration in told
    )


def projects() -> tuple[Project, ...]:
    """What other products say of their sandboxes."""
    return PROJECTS
