"""Grants as they are written ("~/.nvm", "../sdk", "/etc/python3*") and the host paths they stand for."""

from __future__ import annotations

import os
from pathlib import Path

PATTERN = frozenset("*?[")


def absolute(text: str, folder: Path, home: Path) -> str:
    """``text`` as an absolute, normalized path: ``~`` is ``home``, relative paths start at ``folder``.

    ValueError for ``~name`` (another user's home) and for the root of an unknown home.
    """
    if text == "~" or text.startswith("~/"):
        text = str(home) + text[1:]
    elif text.startswith("~"):
        raise ValueError(f"{text}: only your own home (~/...) can be named so; write the full path")
    # Two leading slashes are kept by normpath (POSIX leaves their meaning open); on Linux they are one.
    return os.path.normpath("/" + os.path.join(folder, text).lstrip("/"))  # noqa: PTH118


def is_pattern(path: str) -> bool:
    """True if the path has to be expanded against the file system."""
    return any(char in PATTERN for char in path)


def expand(path: str) -> tuple[str, ...]:
    """The existing host paths that ``path`` stands for, sorted; empty when there is none.

    A link whose target is missing does not count: nothing could be granted through it.
    """
    if not is_pattern(path):
        return (path,) if os.path.exists(path) else ()  # noqa: PTH110
    from glob import glob

    return tuple(sorted(found for found in glob(path) if os.path.exists(found)))  # noqa: PTH110, PTH207


def covers(outer: str, inner: str) -> bool:
    """True if ``inner`` is ``outer`` or lies below it. Lexical: both absolute and normalized."""
    return outer == "/" or inner == outer or inner.startswith(outer + "/")
