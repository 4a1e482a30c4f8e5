"""Policies as people ask for them: checked, shown, explained, named."""

from __future__ import annotations

from pathlib import Path

from backends.boxes.layout import BoxPaths, config_dir
from backends.boxes.place import locate
from backends.policy import canonical
from backends.policy.check import check_file
from backends.policy.explain import decode_sources
from backends.policy.explain import explain as explain_rows
from backends.policy.files import REPOSITORY_FILE, USER_FILE
from backends.policy.model import Policy
from backends.policy.resolve import resolve
from backends.snapshots import Finding
from backends.verbs.settlement import with_proved_tier


def _repository(cwd: Path) -> Path | None:
    place = locate(cwd)
    return Path(place.work_tree) if place and place.work_tree else None


def _policy(
    paths: BoxPaths | None, cwd: Path, profile: str, *, settled: bool = True
) -> tuple[Policy, dict[str, str]]:
    """The policy of a box, or the one a box made here and now would get: ``auto`` is settled as creation
    does it. Not ``settled``: the policy as stated, also where no tier can enforce it."""
    if paths is not None:
        policy = canonical.decode(paths.policy.read_bytes())
        return policy, decode_sources(paths.sources.read_bytes()) if paths.sources.exists() else {}
    resolved = resolve(profile or None, repository=_repository(cwd))
    if settled:
        resolved = with_proved_tier(resolved)
    return resolved.policy, resolved.sources


def check(cwd: Path, path: Path | None) -> tuple[Finding, ...]:
    """One row for each profile of the file, or of all files that would count here."""
    if path is not None:
        files = [cwd / path]
    else:
        repository = _repository(cwd)
        places = [config_dir() / USER_FILE, *([repository / REPOSITORY_FILE] if repository else [])]
        files = [file for file in places if file.exists()]
    rows: list[Finding] = []
    for file in files:
        for one in check_file(file):
            name = f"{file}: profile {one.name}"
            if one.problem is not None:
                rows.append(Finding(name, "fail", one.problem.what, one.problem.why, one.problem.next_step))
                continue
            rows.append(
                Finding(
                    name, "ok", f"profile {one.name} resolves", f"digest of what it states: {one.digest}", ""
                )
            )
            rows += [
                Finding(name, "warn", f"{w.key} = {w.value}: {w.text}", w.where, "see docs/policy.md")
                for w in one.warnings
            ]
    return tuple(rows)


def show(paths: BoxPaths | None, cwd: Path, profile: str) -> str:
    """Canonical JSON, as it lies in ``policy.json``, or would."""
    return canonical.encode(_policy(paths, cwd, profile)[0]).decode("ascii")


def explain(paths: BoxPaths | None, cwd: Path, profile: str) -> tuple[tuple[str, str, str], ...]:
    """Key, value and source of each value."""
    policy, sources = _policy(paths, cwd, profile, settled=False)
    return tuple((row.key, row.value, row.source) for row in explain_rows(policy, sources))


def digest(paths: BoxPaths | None, cwd: Path, profile: str) -> str:
    """The digest of the policy; without a box, the one that ``cloche new`` would record here."""
    return canonical.digest(canonical.encode(_policy(paths, cwd, profile)[0]))
