"""Grants as they are written ("~/.nvm", "../sdk", "/etc/python3*") and the host paths they stand for."""

from __future__ import annotations

import os
from pathlib import Path

from backends.record import NamedTuple

PATTERN = frozenset("*?[")
MOST_LINKS = 40  # path_resolution(7)


class Trail(NamedTuple):
    """Where a path leads: the symbolic links that are passed on the way, and the path without any."""

    links: tuple[str, ...]
    real: str


def absolute(text: str, folder: Path, home: Path) -> str:
    """``text`` as an absolute, normalized path: ``~`` is ``home``, relative paths start at ``folder``.

    ValueError for ``~name`` (another user's home).
    """
    if text == "~" or text.startswith("~/"):
        text = str(home) + text[1:]
    elif text.startswith("~"):
        raise ValueError(f"{text}: only your own home (~/...) can be named so; write the full path")
    # Two leading slashes are kept by normpath (POSIX leaves their meaning open); on Linux they are one.
    return os.path.normpath("/" + os.path.join(folder, text).lstrip("/"))  # noqa: PTH118


def is_pattern(path: str) -> bool:
    """True if the path has to be expanded against the file system."""
    return not PATTERN.isdisjoint(path)


def expand(path: str) -> tuple[str, ...]:
    """The existing host paths that ``path`` stands for, sorted; empty when there is none.

    A path that exists as written is taken as written, even with a pattern's characters in it. A link whose
    target is missing does not count: nothing could be granted through it.
    """
    if os.path.exists(path):  # noqa: PTH110
        return (path,)
    if not is_pattern(path):
        return ()
    from glob import glob

    return tuple(sorted(found for found in glob(path) if os.path.exists(found)))  # noqa: PTH110, PTH207


def fixed_part(path: str) -> str:
    """The part of a pattern before its first component that is one, the whole path if there is none."""
    if not is_pattern(path):
        return path
    parts = path.split("/")
    for index, part in enumerate(parts):
        if is_pattern(part):
            return "/".join(parts[:index]) or "/"
    return path


def trail(path: str) -> Trail:
    """Follows ``path`` (absolute, existing) link by link, each named by its own real path.

    A box that gets the real path and the links sees what the host sees under the name that was written, and
    every comparison with a mask is one between real paths. ValueError where links never end.
    """
    links: dict[str, None] = {}
    real, rest = "", path.split("/")[1:]
    followed = 0
    while rest:
        part, rest = rest[0], rest[1:]
        if part in ("", "."):
            continue
        if part == "..":
            real = real.rpartition("/")[0]
            continue
        here = f"{real}/{part}"
        if not os.path.islink(here):  # noqa: PTH114
            real = here
            continue
        followed += 1
        if followed > MOST_LINKS:
            raise ValueError(f"{path} passes more than {MOST_LINKS} symbolic links")
        links[here] = None
        target = os.readlink(here)  # noqa: PTH115
        if target.startswith("/"):
            real = ""
        rest = [*target.split("/"), *rest]
    return Trail(tuple(links), real or "/")


def covers(outer: str, inner: str) -> bool:
    """True if ``inner`` is ``outer`` or lies below it. Lexical: both absolute and normalized."""
    return outer == "/" or inner == outer or inner.startswith(outer + "/")
