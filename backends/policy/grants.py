"""Settling the file grants of a draft on this host: absolute, existing, without contradiction.

Four rules. A default that this host lacks is left out, while a missing path that a person named is an
error. A mask is kept only below a grant, because elsewhere there is nothing to hide. A grant at or below
a mask contradicts it, unless the mask is only a default. Folders of cloche's own and the repository's git
directory are never writable, and hidden where a grant covers them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from backends.errors import Refused, UsageError
from backends.policy import paths
from backends.policy.merge import Draft, Held


class Settled(NamedTuple):
    """For each list of paths its host paths, sorted, and the source of each as ``fs.read[/usr]``."""

    paths: dict[str, tuple[str, ...]]
    sources: dict[str, str]


def settle(
    draft: Draft, folders: Mapping[int, Path], home: Path, hidden: Sequence[Path], guarded: Sequence[Path]
) -> Settled:
    """The grants of ``draft`` on this host.

    ``folders`` anchors the relative paths of each layer. ``hidden`` are never readable nor writable,
    ``guarded`` are never writable. UsageError or Refused names file and line.
    """
    read = _existing(draft, "fs.read", folders, home)
    write = _existing(draft, "fs.write", folders, home)
    for place in (*hidden, *guarded):
        _never_writable(write, str(place))
    deny = _masks(_absolute(draft, "fs.deny", folders, home), {**read, **write})
    for place in hidden:
        path = str(place)
        if any(paths.covers(grant, path) for grant in read) and paths.expand(path):
            deny[path] = Held(path, "built-in rule: no box sees this folder", 0, False)
    # What is writable is readable; a second, read-only grant of the same path would contradict it.
    for path in write:
        read.pop(path, None)
    lists = {"fs.read": read, "fs.write": write, "fs.deny": deny}
    return Settled(
        {key: tuple(sorted(found)) for key, found in lists.items()},
        {f"{key}[{path}]": held.where for key, found in lists.items() for path, held in found.items()},
    )


def _absolute(draft: Draft, key: str, folders: Mapping[int, Path], home: Path) -> dict[str, Held]:
    found = {}
    for text, held in draft.lists[key].items():
        try:
            found[paths.absolute(text, folders.get(held.layer, home), home)] = held
        except ValueError as error:
            raise UsageError(
                f"{key} has a path that cannot be used",
                f"{held.where}: {error}",
                "correct the line",
                code="bad-path",
            ) from None
    return found


def _existing(draft: Draft, key: str, folders: Mapping[int, Path], home: Path) -> dict[str, Held]:
    found: dict[str, Held] = {}
    for path, held in _absolute(draft, key, folders, home).items():
        expanded = paths.expand(path)
        if not expanded and held.explicit:
            raise UsageError(
                f"{key} grants a path that does not exist",
                f"{held.where}: {path} is not there, or you may not look at it",
                f"make it, or remove the line ({held.value})",
                code="no-such-path",
            )
        for one in expanded:
            found[one] = held
    return found


def _masks(masks: Mapping[str, Held], granted: Mapping[str, Held]) -> dict[str, Held]:
    found: dict[str, Held] = {}
    for mask, held in masks.items():
        inside = [grant for grant in granted if paths.covers(mask, grant)]
        around = [grant for grant in granted if paths.covers(grant, mask) and grant != mask]
        if inside and (around or held.explicit):
            raise UsageError(
                "a path is granted and denied at once",
                f"{granted[inside[0]].where}: grants {inside[0]}; {held.where}: fs.deny hides {mask}",
                f'remove the grant, or take the mask away with fs.deny = ["!{held.value}"]',
                code="granted-and-denied",
            )
        if not around:
            continue
        expanded = paths.expand(mask)
        if not expanded and held.explicit:
            raise UsageError(
                "fs.deny names a path that does not exist",
                f"{held.where}: {mask} lies below the grant {around[0]}, what is not there cannot be hidden",
                "make it, or grant less than the folder above it",
                code="no-such-path",
            )
        found.update(dict.fromkeys(expanded, held))
    return found


def _never_writable(write: Mapping[str, Held], place: str) -> None:
    for grant, held in write.items():
        if paths.covers(grant, place) or paths.covers(place, grant):
            raise Refused(
                "a box cannot be given what decides about it",
                f"{held.where}: fs.write grants {grant}, and {place} must not be writable from inside",
                "grant a folder that neither holds nor lies in it",
                code="own-folder",
            )
