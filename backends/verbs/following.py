"""Bringing a box onto where its branch is now: its files are merged with what the branch gained.

The merge is made of objects in the quarantine; what differs then is written into the box's files. Where both
changed the same lines these get conflict marks, to be solved in the box. Branch and checkout stay.
"""

from __future__ import annotations

from pathlib import Path

from backends.boxes.layout import BoxPaths
from backends.boxes.lifecycle import require
from backends.errors import ClocheError, Refused
from backends.gate import branches, configuration, merging, moving
from backends.snapshots_moved import RebaseOutcome
from backends.trees import layers, names
from backends.trees import snapshot as snapshots
from backends.trees import source as sources
from backends.trees.git import Git
from backends.trees.listing import Listing
from backends.trees.rewriting import Change, Rewriter
from backends.trees.values import Source, TreeSnapshot
from backends.verbs import authority, passage, proposal, rebasing
from backends.verbs.passage import Held


def rebase(paths: BoxPaths, *, as_name: str | None) -> RebaseOutcome:
    """Merge what the branch gained into the box; see ``Engine.rebase``."""
    authority.require_outside("rebase")
    if as_name is not None and not as_name.strip():
        raise Refused(
            f"box {paths.name} was not rebased",
            "the name of the script is empty",
            "give one: --as NAME",
            code="no-name",
        )
    with passage.holding(paths, "rebase", end_idle=True) as held:
        manifest = held.manifest
        require(paths.name, manifest.state, "rebase")
        if manifest.detached:
            raise Refused(
                f"box {paths.name} cannot be rebased",
                "it is detached: no branch of yours is its parent",
                f"export it: cloche export {paths.name} --out DIR",
                code="detached",
            )
        place = proposal.source_of(paths, manifest)
        assert place is not None
        tip = branches.tip(place, manifest.base_ref, paths.name)
        if tip == manifest.base:
            raise Refused(
                f"box {paths.name} was not rebased",
                f"{manifest.base_ref} is still at its base {tip[:12]}",
                f"go on with it: cloche run {paths.name} -- CMD",
                code="nothing-to-rebase",
            )
        return _onto(held, place, tip, as_name)


def _onto(held: Held, place: Source, tip: str, as_name: str | None) -> RebaseOutcome:
    paths, manifest = held.paths, held.manifest
    git = moving.quarantine_of(paths, place)
    tip_tree = git.line("rev-parse", f"{tip}^{{tree}}")
    before = _read(held, manifest.base_tree)
    merged, conflicts = _merge(place, git, manifest.base_tree, tip_tree, before.tree)
    changes = _changes(git, before.tree, merged)
    who = as_name if as_name is not None else passage.person()
    held.record(
        "rebase",
        {
            "branch": manifest.base_ref, "old": manifest.base, "new": tip, "who": who,
            "scripted": as_name is not None, "before": before.tree, "after": merged, "written": len(changes),
            "conflicts": [[path.decode("utf-8", "surrogateescape"), how] for path, how in conflicts[:1000]],
        },
    )  # fmt: skip
    lower = None
    if layers.used(paths):
        lower = Listing(snapshots.listing(paths, manifest.under).read_bytes())
    rewriter = Rewriter(paths.written, paths.name, lower, lambda oid: git.run("cat-file", "blob", oid))
    try:
        rewriter.write(changes)
    except OSError as error:
        raise ClocheError(
            f"box {paths.name} was not rebased",
            f"its files could not all be written: {error.strerror}; its base is the one before",
            f"make room or look at {paths.written}, then again: cloche rebase {paths.name}",
            code="not-written",
        ) from error
    found = _read(held, tip_tree)
    if found.tree != merged:
        raise ClocheError(
            f"box {paths.name} was not rebased",
            f"its files are the tree {found.tree} now, and the merge is {merged}: something wrote to them",
            f"look at them: cloche diff {paths.name}; they were {before.tree}",
            code="rebase-differs",
        )
    after = {
        "base": tip,
        "base_tree": tip_tree,
        "base_ref": manifest.base_ref,
        "lower_tree": manifest.under if layers.used(paths) else "",
    }
    with rebasing.settled(held):
        rebasing.intend(held, after, f"rebased onto {manifest.base_ref}", who, snapshot=None, applied=None)
        _keep(place, paths.name, manifest.base, tip)
    rebasing.finish(held)
    proposal.anchor(paths, held.manifest)
    return RebaseOutcome(manifest.base_ref, manifest.base, tip, len(changes), conflicts)


def _read(held: Held, compared: str) -> TreeSnapshot:
    """What the box's files are now; what ``compared`` has is carried, ignored or not."""
    manifest = held.manifest
    return snapshots.snapshot(
        held.paths, compared, lower=manifest.under, confine=manifest.tier != "workspace"
    )


def _merge(
    place: Source, git: Git, base: str, tip: str, tree: str
) -> tuple[str, tuple[tuple[bytes, str], ...]]:
    """The merge of two trees since a third, by commits that nobody keeps: the branch may be rewritten."""
    own = git.with_variables(configuration.identity(configuration.read(place)))

    def commit(content: str, *parents: str) -> str:
        args = [word for parent in parents for word in ("-p", parent)]
        return own.run("commit-tree", content, *args, "-F", "-", input=b"merge\n").decode("ascii").strip()

    since = commit(base)
    # The box's side first: of a binary file that both changed its version stays in the box.
    return merging.merged_tree(own, commit(tree, since), commit(tip, since))


def _changes(git: Git, before: str, after: str) -> tuple[Change, ...]:
    """What is to be written into the box; ``Refused`` for a name that some system reads as ``.git``."""
    fields = git.run("diff-tree", "-r", "-z", "--no-renames", "--full-index", before, after).split(b"\0")
    found = []
    for facts, path in zip(fields[::2], fields[1::2], strict=False):
        old, new, _, oid, _ = facts.removeprefix(b":").split(b" ")
        why = names.hostile(path) if int(new, 8) else ""
        if why:
            raise Refused(
                "the box cannot be rebased",
                f"{path.decode('utf-8', 'surrogateescape')}: {why}",
                "choose another base: cloche new --from REV",
                code="hostile-path",
            )
        found.append(Change(path, int(old, 8), int(new, 8), oid.decode("ascii")))
    return tuple(found)


def _keep(place: Source, box: str, old: str, new: str) -> None:
    step = moving.Step(sources.base_ref(box), old, new)
    moving.swap_refs(Path(place.common_dir), step, None, f"cloche rebase {box}", {}, f"cloche rebase {box}")
