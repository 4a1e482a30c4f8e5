"""Differences between two tree objects, the same under any configuration of the user's.

Everything that configuration or attributes could change is said on the command line (git-diff-tree(1)) or
shut off in :mod:`backends.trees.git`; text or binary is decided by the blob's bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from backends.boxes.layout import BoxPaths
from backends.errors import ClocheError
from backends.snapshots import Diff, FileChange
from backends.trees import quarantine
from backends.trees.git import Git

COMMON = (
    "diff-tree",
    "-r",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--ignore-submodules=none",
    "--submodule=short",
    "--full-index",
    "--find-renames=50%",
    "-l400",  # renames are looked for among at most so many files: the search is quadratic
)
PATCH = (
    "--patch",
    "--binary",
    "--unified=3",
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",
    "--indent-heuristic",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
LINK = 0o120000
# The head of a file that moves as it is. Lines of content begin with a sign or hold no space (binary ones).
_MOVED = re.compile(
    rb"^similarity index 100%\nrename from [^\n]+\nrename to [^\n]+\n(?=diff --git |\Z)", re.MULTILINE
)


def diff(
    paths: BoxPaths,
    base: str,
    base_tree: str,
    tree: str,
    skipped: tuple[tuple[bytes, str], ...] = (),
) -> Diff:
    """The difference that ``tree`` (an object of the box's quarantine) makes to its base, with its patch.

    ``skipped`` are the paths that the snapshot left out, carried along for whoever shows the diff.
    """
    git = quarantine.git(paths)
    return Diff(base, tree, changes(git, base_tree, tree), patch(git, base_tree, tree), skipped)


def changes(git: Git, old: str, new: str) -> tuple[FileChange, ...]:
    """The files that differ between two trees, with line counts (``None`` for binary), in path order."""
    if old == new:
        return ()
    return tuple(parse(git.run(*COMMON, "-z", "--raw", "--numstat", old, new)))


def patch(git: Git, old: str, new: str) -> bytes:
    """The patch from one tree to another: ``git apply`` on ``old`` gives ``new``, binary files included.

    It is Git's own but for one line: of a link that moves its mode is said (:func:`_with_modes_of_links`).
    """
    if old == new:
        return b""
    text = git.run(*COMMON, *PATCH, old, new)
    return _with_modes_of_links(text, git, old, new) if _MOVED.search(text) else text


def _with_modes_of_links(text: bytes, git: Git, old: str, new: str) -> bytes:
    """The patch with an ``index`` line for each link that moves, as Git writes it where content changes.

    Git says no mode of what moves as it is. ``git apply`` decides before it looks at the base which links go
    away (prepare_symlink_changes of apply.c), does not count one whose mode the patch does not say, and so
    refuses whatever lies below its old name as "beyond a symbolic link", even the moved link itself.
    """
    moved = [one for one in changes(git, old, new) if one.status == "R" and one.old_oid == one.new_oid]
    heads = list(_MOVED.finditer(text))
    if len(heads) != len(moved):
        raise ClocheError(
            "the patch cannot be written",
            f"Git lists {len(moved)} files that move as they are and shows {len(heads)}",
            "report this with the words above",
            code="patch-unwritten",
        )
    out: list[bytes] = []
    at = 0
    for head, one in zip(heads, moved, strict=True):
        if one.old_mode == LINK:
            out += (text[at : head.end()], b"index %s..%s %o\n" % (*_oids(one), LINK))
            at = head.end()
    return b"".join((*out, text[at:]))


def _oids(change: FileChange) -> tuple[bytes, bytes]:
    return change.old_oid.encode("ascii"), change.new_oid.encode("ascii")


def parse(output: bytes) -> Iterator[FileChange]:
    """Rows of ``diff-tree -r -z --raw --numstat``: all raw records first, then all line counts."""
    fields = output.split(b"\0")[:-1]
    raw: list[tuple[list[bytes], bytes | None, bytes]] = []
    at = 0
    # A raw record starts with a colon, a line count with a digit or a hyphen.
    while at < len(fields) and fields[at].startswith(b":"):
        meta = fields[at][1:].split(b" ")
        renamed = meta[4][:1] in (b"R", b"C")
        raw.append((meta, fields[at + 1] if renamed else None, fields[at + 2 if renamed else at + 1]))
        at += 3 if renamed else 2
    for meta, old_path, path in raw:
        added, deleted, named = fields[at].split(b"\t", 2)
        at += 1 if named else 3  # of a rename the two names follow, each a field of its own
        yield FileChange(
            path=path,
            old_path=old_path,
            status=meta[4][:1].decode("ascii"),
            old_mode=int(meta[0], 8),
            new_mode=int(meta[1], 8),
            old_oid=meta[2].decode("ascii"),
            new_oid=meta[3].decode("ascii"),
            added=None if added == b"-" else int(added),
            deleted=None if deleted == b"-" else int(deleted),
        )
