"""What a proposal changes since the one that was reviewed before it, as a diff of its own."""

from __future__ import annotations

from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import load
from backends.errors import Refused
from backends.gate import decisions
from backends.gate.decisions import Compared
from backends.gate.patch import interdiff as between
from backends.gate.patch import read
from backends.gate.patch.between import REBASED
from backends.snapshots import Diff
from backends.trees import diff as diffs
from backends.trees import quarantine
from backends.verbs import proposal


def interdiff(paths: BoxPaths) -> Diff:
    """See ``Engine.interdiff``."""
    snapshot = proposal.info(proposal.snapshot_of(paths, load(paths), "compare"))
    now = diffs.diff(paths, snapshot.base, snapshot.base_tree, snapshot.id)
    review, _ = decisions.load(paths, read(now, snapshot.base_tree), snapshot)
    if review.since is None:
        raise Refused(
            f"there is nothing to compare the proposal of box {paths.name} with",
            "no proposal of it was reviewed before this one",
            f"read all of it: cloche diff {paths.name}",
            code="no-earlier-review",
        )
    return since(paths, review.since, now)


def since(paths: BoxPaths, before: Compared, now: Diff) -> Diff:
    """The files that ``now`` proposes otherwise than ``before`` did, from what was to what is.

    Where the base moved in between, files that only it changed are left out.
    """
    found = diffs.diff(paths, before.id, before.id, now.tree)
    git = quarantine.git(paths)
    earlier = diffs.changes(git, before.base_tree, before.id)
    moved = {one.path for one in between(earlier, now.changes) if one.kind != REBASED}
    patch = read(found, before.id)
    kept = [file for file in patch.files if moved & {file.path, file.base_path}]
    if len(kept) == len(patch.files):
        return found
    return found._replace(
        changes=tuple(file.change for file in kept), patch=b"".join(file.text for file in kept)
    )
