"""Whether the folders of a box are there and whose they should be; never what they hold."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from backends.doctor.rows import Box, Voice, command
from backends.snapshots import Finding
from backends.trees import layers, worktree
from backends.trees.values import Source

WHY = "what the agent did lies there; without it nothing can be proposed, and the box does not start"


def check(box: Box) -> list[Finding]:
    """One row for the folders, one for a linked worktree, one for shared layers."""
    rows = [_folders(box)]
    if box.manifest.tier == "workspace" and Path(box.manifest.git_dir).is_dir():
        rows.append(_registered(box))
    lost = [tree for tree in layers.used(box.paths) if layers.find(tree) is None]
    if lost:
        rows.append(
            Voice(box.paths.key, "layers").fail(
                "a shared layer below the box's files is gone",
                ", ".join(one[:16] for one in lost),
                WHY,
                command("cloche", "run", box.paths.key, "--", "true"),
            )
        )
    return rows


def _folders(box: Box) -> Finding:
    voice = Voice(box.paths.key, "tree")
    wrong: list[str] = []
    owned = [box.paths.written, box.paths.home]
    if box.manifest.tier != "workspace":
        owned.append(box.paths.repo)
    for path in owned:
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            wrong.append(f"{path.name} is missing")
            continue
        if not stat.S_ISDIR(status.st_mode):
            wrong.append(f"{path.name} is no folder")
        elif status.st_uid not in (box.manifest.payload_uid, os.geteuid()):
            wrong.append(f"{path.name} belongs to user {status.st_uid}, not {box.manifest.payload_uid}")
    if wrong:
        remedy = command("cloche", "rm", "--force", box.paths.key)
        return voice.fail("the box's folders are not as it left them", "; ".join(wrong), WHY, remedy)
    return voice.ok("its files are there", f"{box.manifest.tree_provider}, user {box.manifest.payload_uid}")


def _registered(box: Box) -> Finding:
    voice, known = Voice(box.paths.key, "worktree"), box.manifest
    entry = worktree.find(box.paths, Source(known.repository, known.git_dir, known.git_dir))
    if entry is not None:
        return voice.ok("its worktree is registered in the source repository", str(entry))
    return voice.fail(
        "its worktree is not registered in the source repository",
        f"no entry of {known.git_dir}/worktrees names {box.paths.tree}",
        "git worktree prune took it: Git does not keep what only this worktree reaches",
        command("git", "-C", known.git_dir, "worktree", "repair", box.paths.tree),
    )
