"""How paths of a tree relate: folders above, and names that some file system takes for one. Pure.

Which names are hostile by themselves is said in :mod:`backends.trees.names`, for reading and carrying alike.
"""

from __future__ import annotations

import unicodedata

from backends.trees.names import hostile, is_dotgit


def refused_name(path: bytes) -> str:
    """Why a path must not enter a repository, "" when it may. A backslash separates too, as on NTFS."""
    why = hostile(path)
    if not why and b"\\" in path and any(is_dotgit(part) for part in path.replace(b"\\", b"/").split(b"/")):
        why = "some system reads this name as .git"
    return why


def folded(path: bytes) -> str:
    """The form under which a case-folding, normalising file system (APFS, NTFS) finds a path."""
    return unicodedata.normalize("NFC", path.decode("utf-8", "surrogateescape").casefold())


def parents(path: bytes) -> list[bytes]:
    """The folders above a path, nearest the root first, without the root."""
    components = path.split(b"/")
    return [b"/".join(components[:depth]) for depth in range(1, len(components))]
