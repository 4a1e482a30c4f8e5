"""Names that no path of a tree may have, because some file system or Git would read them as ``.git``.

Pure functions on bytes, after Git's own rules: ``verify_path`` (read-cache.c), ``is_hfs_dotgit`` (utf8.c),
``is_ntfs_dotgit`` (path.c). All three sets hold on every platform: a patch travels.
"""

from __future__ import annotations

from collections.abc import Iterable

# Code points that HFS+ leaves out when it compares names (next_hfs_char in Git's utf8.c).
HFS_IGNORED = frozenset(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)  # fmt: skip
FIRST_BYTES = (b".", b"g", b"G", b"\xe2", b"\xef")  # of .git, GIT~1 and the ignored characters in UTF-8
LONGEST_PATH = 4095  # PATH_MAX of limits.h less its NUL: longer ones cannot be named to the kernel at once


def is_dotgit(name: bytes) -> bool:
    """Whether one component is ``.git`` to Git, HFS+ or NTFS: any case, ignored characters, ``GIT~1``."""
    if len(name) < 4 or (name[:1] not in FIRST_BYTES and b"\\" not in name):
        return False
    return _is_hfs_dotgit(name) or any(_is_ntfs_dotgit(part) for part in name.split(b"\\"))


def _is_hfs_dotgit(name: bytes) -> bool:
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return "".join(c for c in text if ord(c) not in HFS_IGNORED).lower() == ".git"


def _is_ntfs_dotgit(name: bytes) -> bool:
    # A colon begins the name of a stream; dots and spaces at the end are dropped.
    return name.split(b":", 1)[0].rstrip(b". ").lower() in (b".git", b"git~1")


def hostile(path: bytes) -> str:
    """Why ``path`` (relative, ``/`` between components) must not be written or carried, "" when it may."""
    if not path or path.startswith(b"/"):
        return "the path is empty or absolute"
    if len(path) > LONGEST_PATH:
        return f"the path is longer than {LONGEST_PATH} bytes"
    for name in path.split(b"/"):
        why = hostile_name(name)
        if why:
            return why
    return ""


def hostile_name(name: bytes) -> str:
    """Why one component must not be written or carried, "" when it may."""
    if name in (b"", b".", b".."):
        return "the path steps out of its folder"
    if b"\0" in name:
        return "the path holds a NUL byte"
    if is_dotgit(name):
        return "some system reads this name as .git"
    return ""


def embedded_repositories(paths: Iterable[bytes]) -> tuple[bytes, ...]:
    """Folders that Git would take for a repository although none is named ``.git``, sorted.

    ``is_git_directory`` (setup.c) asks for ``HEAD`` with ``objects`` and ``refs``, or with a ``commondir``
    that tells where those two are. The root of the tree is named ``b"."``.
    """
    folders: dict[bytes, set[bytes]] = {}
    for path in paths:
        parts = path.split(b"/")
        for index, part in enumerate(parts):
            name = part.lower()
            if name in EMBEDDED_NAMES:
                folders.setdefault(b"/".join(parts[:index]) or b".", set()).add(name)
    return tuple(sorted(folder for folder, names in folders.items() if is_embedded(names)))


EMBEDDED_NAMES = frozenset({b"head", b"objects", b"refs", b"commondir"})


def is_embedded(names: Iterable[bytes]) -> bool:
    """Whether a folder with these (lower-case) names in it is a repository to Git."""
    present = set(names)
    return b"head" in present and (b"commondir" in present or {b"objects", b"refs"} <= present)


def quote(path: bytes) -> bytes:
    """A path as a C-style quoted string, the form that git-fast-import(1) and alternates files read."""
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
