"""Which repository a folder belongs to, found without starting Git.

Every command asks this before anything else, so it costs a few ``stat`` calls. What the repository holds is
asked of :mod:`backends.trees.source`, which does start Git.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from backends.boxes.layout import repository_key


class Place(NamedTuple):
    """A source repository as found on disk."""

    work_tree: Path | None  # None for a bare repository
    common_dir: Path

    @property
    def key(self) -> str:
        return repository_key(self.common_dir)


def _first_line(path: Path) -> str:
    """The first line of a small file that Git wrote, "" when there is none; paths keep their raw bytes."""
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read(65536).split(b"\n", 1)[0].rstrip(b"\r"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return ""


def _common(git_dir: Path) -> Path | None:
    """The common directory of ``git_dir`` (gitrepository-layout(5)), None when it is no git directory."""
    if not (git_dir / "HEAD").exists():
        return None
    common = _first_line(git_dir / "commondir")
    found = (git_dir / common) if common else git_dir
    if not (found / "objects").is_dir() or not (found / "refs").is_dir():
        return None
    return found.resolve()


def locate(start: Path) -> Place | None:
    """The repository that ``start`` lies in, or None; ``GIT_DIR`` in the environment is not looked at."""
    folder = start.resolve()
    for candidate in (folder, *folder.parents):
        dot_git = candidate / ".git"
        if dot_git.is_dir():
            common = _common(dot_git)
            if common:
                return Place(candidate, common)
        elif dot_git.is_file():
            line = _first_line(dot_git)
            if line.startswith("gitdir: "):
                common = _common(candidate / line.removeprefix("gitdir: "))
                if common:
                    return Place(candidate, common)
        common = _common(candidate)
        if common:
            return Place(None, common)
    return None
