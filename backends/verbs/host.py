"""What this host can enforce, and whether host and boxes still keep their promises."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from backends.boxes import liveness, store
from backends.boxes.layout import BoxPaths, runtime_dir
from backends.boxes.lifecycle import RUNNING
from backends.boxes.manifest import Manifest, load
from backends.errors import ClocheError
from backends.evidence import journal
from backends.policy import canonical
from backends.snapshots import Claim, Finding
from backends.snapshots_host import Fact, HostReport
from backends.trees.values import Source


def report(*, fresh: bool = False, progress: Callable[[str], None] | None = None) -> HostReport:
    """Facts, proofs and obstacles; from an earlier run where nothing changed since, unless ``fresh``."""
    from backends.host import reporting

    return reporting.report(fresh=fresh, progress=progress)


def probe(*, fresh: bool = False) -> tuple[Claim, ...]:
    """Each tier and its claims with what came of the action that was run for it."""
    return report(fresh=fresh).claims()


def facts() -> tuple[Fact, ...]:
    """What was seen of this host without trying anything."""
    from backends.host.facts import gather

    return gather()


def doctor(paths: BoxPaths | None, repository_key: str | None) -> tuple[Finding, ...]:
    """The host's proofs, then the named box, or every box of this repository (outside any: of all)."""
    rows = [_of_claim(claim) for claim in probe()]
    rows.append(_runtime())
    boxes = [paths] if paths else [entry.paths for entry in store.entries(repository_key)]
    for box in boxes:
        rows += of_box(box)
    rows += _leftovers(repository_key)
    return tuple(rows)


def _of_claim(claim: Claim) -> Finding:
    verdict = {"proved": "ok", "failed": "fail"}.get(claim.result, "warn")
    return Finding(claim.id, verdict, claim.text, claim.evidence, "" if verdict == "ok" else "cloche probe")


def _runtime() -> Finding:
    try:
        return Finding("runtime-dir", "ok", "the socket folder is yours alone", str(runtime_dir()), "")
    except ClocheError as error:
        return Finding("runtime-dir", "fail", error.what, error.why, error.next_step)


def of_box(paths: BoxPaths) -> list[Finding]:
    """Whether one box is what it was made as: manifest, policy, journal, base, keeper."""
    try:
        manifest = load(paths)
    except ClocheError as error:
        return [Finding(f"{paths.key}: manifest", "fail", error.what, error.why, error.next_step)]
    return [
        _policy(paths, manifest),
        _journal(paths, manifest),
        *_base(paths, manifest),
        _keeper(paths, manifest),
    ]


def _policy(paths: BoxPaths, manifest: Manifest) -> Finding:
    name = f"{paths.key}: policy"
    try:
        found = canonical.digest(paths.policy.read_bytes())
    except OSError as error:
        found = error.strerror or "unreadable"
    if found == manifest.policy_digest:
        return Finding(name, "ok", "the policy is the one that the box was made with", f"SHA-256 {found}", "")
    why = f"policy.json has {found}, the box was made with {manifest.policy_digest}"
    return Finding(
        name, "fail", "the policy was changed", why, "do not start the box; look at who changed it"
    )


def _journal(paths: BoxPaths, manifest: Manifest) -> Finding:
    name = f"{paths.key}: journal"
    known = manifest.journal
    try:
        result = journal.verify(paths.journal, (known["count"], known["head"]) if known else None)
    except ClocheError as error:
        return Finding(name, "fail", error.what, error.why, error.next_step)
    if result.problems:
        why = "; ".join(result.problems[:3])
        return Finding(name, "fail", "the journal is not what was written", why, "do not trust its evidence")
    said = f"{result.count} records, head {result.head[:16]}"
    if manifest.tier == "workspace":
        text = "the chain holds, but nothing confines this tier: the agent could have written it anew"
        return Finding(name, "warn", text, said, "a confined tier keeps the journal out of reach")
    return Finding(name, "ok", "the journal is whole and reaches its anchor", said, "")


def _base(paths: BoxPaths, manifest: Manifest) -> list[Finding]:
    name = f"{paths.key}: base"
    if manifest.detached:
        return [Finding(name, "ok", "the box is detached and holds its base itself", manifest.base, "")]
    if not Path(manifest.git_dir).is_dir():
        why = f"{manifest.git_dir} is gone"
        return [
            Finding(name, "fail", "the source repository is not where it was", why, "move it back, or export")
        ]
    from backends.trees import source

    place = Source(manifest.repository, manifest.git_dir, manifest.git_dir)
    kept = source.tip(place, source.base_ref(manifest.name))
    if kept == manifest.base:
        return [Finding(name, "ok", "the base is kept alive in the source repository", kept, "")]
    why = f"{source.base_ref(manifest.name)} is {kept or 'gone'} and should be {manifest.base}"
    fix = f"git -C {manifest.repository} update-ref {source.base_ref(manifest.name)} {manifest.base}"
    return [Finding(name, "fail", "the base is no longer kept in the source repository", why, fix)]


def _keeper(paths: BoxPaths, manifest: Manifest) -> Finding:
    name = f"{paths.key}: keeper"
    live = liveness.read(paths)
    if live.kind == "live" and live.keeper:
        return Finding(name, "ok", "its keeper is live", f"pid {live.keeper.pid}", "")
    if live.kind == "lost" and live.keeper:
        left = "its init still runs" if liveness.alive(live.init) else "its processes ended with it"
        return Finding(
            name, "warn", "its keeper died", f"pid {live.keeper.pid}; {left}", f"cloche stop {paths.name}"
        )
    if manifest.state == RUNNING:
        return Finding(name, "warn", "it says running and has no keeper", "", f"cloche stop {paths.name}")
    return Finding(name, "ok", "it is not live and costs only disk", "", "")


def _leftovers(repository_key: str | None) -> list[Finding]:
    return [
        Finding(
            f"{paths.key}: unfinished",
            "warn",
            "a killed cloche new left this",
            str(paths.root),
            "cloche gc --all",
        )
        for paths in store.folders(repository_key)
        if not paths.manifest.exists() and not store.held(paths)
    ]
