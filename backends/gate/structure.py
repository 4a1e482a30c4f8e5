"""What no repository may hold: names, shapes and links that reach outside or read as a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.evidence.visible import text_of
from backends.gate.links import escape_of
from backends.gate.names import folded, parents, refused_name
from backends.gate.objects import FOLDER, SYMLINK, Entry, contents, sizes
from backends.gate.rows import REFUSED, WARNED, Rows
from backends.trees.names import embedded_repositories

if TYPE_CHECKING:
    from backends.trees.git import Git


def check_shape(
    rows: Rows,
    base: dict[bytes, Entry],
    tree: dict[bytes, Entry],
    repeated: tuple[bytes, ...],
    known: frozenset[bytes],
) -> None:
    """Names, modes, parents and repositories. ``known``: folders that read as repositories in the base."""
    for path in repeated:
        rows.add("tree", REFUSED, "the tree names this path twice", path)
    by_fold: dict[str, bytes] = {}
    for path, entry in tree.items():
        if base.get(path) != entry:
            why = refused_name(path)
            if why:
                rows.add("name", REFUSED, why, path)
        for folder in parents(path)[-1:]:
            above = tree.get(folder)
            if above is None or above.mode != FOLDER:
                rows.add("tree", REFUSED, "lies below something that is no folder", path)
        other = by_fold.setdefault(folded(path), path)
        if other != path and (path not in base or other not in base):
            linked = SYMLINK in (entry.mode, tree[other].mode)
            rows.add(
                "tree" if linked else "invisible-name",
                REFUSED if linked else WARNED,
                f"is one with {text_of(other)} where case or normal form does not count",
                path,
            )
    for folder in embedded_repositories(tree):
        if folder not in known:
            rows.add("repository", REFUSED, "is a repository to Git: it could run programs there", folder)


def check_links(rows: Rows, git: Git, base: dict[bytes, Entry], tree: dict[bytes, Entry]) -> None:
    """Where the links of the tree lead, those of the base that a change bends included."""
    oids = {e.oid for side in (base, tree) for e in side.values() if e.mode == SYMLINK}
    targets = dict(contents(git, sizes(git, oids)))
    before = {path: targets[e.oid] for path, e in base.items() if e.mode == SYMLINK}
    after = {path: targets[e.oid] for path, e in tree.items() if e.mode == SYMLINK}
    for path in sorted(after):
        why = escape_of(path, after)
        # A link that led outside in the base already is the source's own; one that does so now is not.
        if why and not (before.get(path) == after[path] and escape_of(path, before)):
            rows.add("symlink", REFUSED, f"{why}: {text_of(after[path][:200])}", path)
