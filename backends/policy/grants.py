"""Settling the file grants of a draft on this host: absolute, existing, real, without contradiction.

Five rules. A default that this host lacks is left out, while a missing path that a person named is an
error. A grant through symbolic links becomes the real path, and the links themselves as read grants. A mask
is kept only below a grant, because elsewhere there is nothing to hide. A grant at or below a mask
contradicts it, unless the mask is only a default. Folders that decide about boxes (cloche's own, the
repository's git directory) are never granted, and hidden where a grant covers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from backends.errors import Refused, UsageError
from backends.policy import identity, paths
from backends.policy.merge import Draft, Held
from backends.record import NamedTuple


class Settled(NamedTuple):
    """For each list of paths its host paths, sorted, and the source of each as ``fs.read[/usr]``."""

    paths: dict[str, tuple[str, ...]]
    sources: dict[str, str]
    hidden: tuple[tuple[str, str], ...]  # masks below a write grant, with what each is now


class _Grants(NamedTuple):
    real: dict[str, Held]
    derived: set[str]  # real paths that nobody wrote: where a link led
    links: dict[str, Held]


def settle(
    draft: Draft, folders: Mapping[int, Path], home: Path, hidden: Sequence[Path], guarded: Sequence[Path]
) -> Settled:
    """The grants of ``draft`` on this host.

    ``folders`` anchors the relative paths of each layer. ``hidden`` are never readable nor writable,
    ``guarded`` are never writable. UsageError or Refused names file and line.
    """
    read = _existing(draft, "fs.read", folders, home)
    write = _existing(draft, "fs.write", folders, home)
    kept_out = [_real(place) for place in hidden]
    for place in (*kept_out, *(_real(place) for place in guarded)):
        _never(write.real, "fs.write", place, below_only=False)
    for place in kept_out:
        _never(read.real, "fs.read", place, below_only=True)
    deny = _masks(_absolute(draft, "fs.deny", folders, home), read.real, write.real)
    for place in kept_out:
        if _covered(place, read.real):
            deny[place] = Held(place, "built-in rule: no box sees this folder", 0, False)
    hiding = {path: held for path, held in deny.items() if not _covered(path, deny)}
    lists = {"fs.read": _readable(read, write), "fs.write": _pruned(write), "fs.deny": hiding}
    return Settled(
        {key: tuple(sorted(found)) for key, found in lists.items()},
        {f"{key}[{path}]": held.where for key, found in lists.items() for path, held in found.items()},
        tuple(_identities(lists["fs.deny"], lists["fs.write"])),
    )


def _real(place: Path) -> str:
    return str(place.resolve())


def _absolute(draft: Draft, key: str, folders: Mapping[int, Path], home: Path) -> dict[str, Held]:
    found = {}
    for text, held in draft.lists[key].items():
        try:
            found[paths.absolute(text, folders.get(held.layer, home), home)] = held
        except ValueError as error:
            raise _bad_path(key, held, error) from None
    return found


def _existing(draft: Draft, key: str, folders: Mapping[int, Path], home: Path) -> _Grants:
    grants = _Grants({}, set(), {})
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
            try:
                links, real = paths.trail(one)
            except (ValueError, OSError) as error:
                raise _bad_path(key, held, error) from None
            if real != one and real not in grants.real:
                grants.derived.add(real)
            elif real == one:
                grants.derived.discard(real)
            grants.real[real] = held
            grants.links.update(dict.fromkeys(links, held))
    return grants


def _bad_path(key: str, held: Held, error: Exception) -> UsageError:
    return UsageError(
        f"{key} has a path that cannot be used", f"{held.where}: {error}", "correct the line", code="bad-path"
    )


def _pruned(grants: _Grants) -> dict[str, Held]:
    """The real paths, without those that only a link led to and that another grant covers anyway."""
    return {
        path: held
        for path, held in grants.real.items()
        if path not in grants.derived or not _covered(path, grants.real)
    }


def _readable(read: _Grants, write: _Grants) -> dict[str, Held]:
    """The read grants with every link of both lists; what is writable is readable and is not listed twice."""
    found = {path: held for path, held in _pruned(read).items() if path not in write.real}
    granted = {**read.real, **write.real}
    for path, held in {**write.links, **read.links}.items():
        if not _covered(path, granted):
            found[path] = held
    return found


def _covered(path: str, granted: Mapping[str, Held]) -> bool:
    return any(paths.covers(grant, path) and grant != path for grant in granted)


def _masks(masks: Mapping[str, Held], read: Mapping[str, Held], write: Mapping[str, Held]) -> dict[str, Held]:
    """The masks below a grant, by real path. Below a read grant a name is hidden before the host makes it."""
    granted = {**read, **write}
    found: dict[str, Held] = {}
    for mask, held in masks.items():
        expanded = paths.expand(mask)
        for one in expanded or (mask,):
            real = _led_to(one, held)
            inside = next((grant for grant in granted if paths.covers(real, grant)), None)
            fixed = paths.fixed_part(real)
            around = any(paths.covers(grant, fixed) for grant in granted)
            if inside is not None and (_covered(real, granted) or held.explicit):
                raise UsageError(
                    "a path is granted and denied at once",
                    f"{granted[inside].where}: grants {inside}; {held.where}: fs.deny hides {real}",
                    f'remove the grant, or take the mask away with fs.deny = ["!{held.value}"]',
                    code="granted-and-denied",
                )
            if inside is not None or not around:
                continue
            if expanded or not (paths.is_pattern(real) or _covered(real, write)):
                found[real] = held
            elif held.explicit:
                raise UsageError(
                    "fs.deny names a path that does not exist",
                    f"{held.where}: {mask}, a pattern or below a write grant, must exist to be hidden",
                    "make it, or grant less than the folder above it",
                    code="no-such-path",
                )
    return found


def _identities(masks: Mapping[str, Held], write: Mapping[str, Held]) -> Iterator[tuple[str, str]]:
    for mask in sorted(masks):
        # The outermost grant, which the mask is laid into at launch.
        grant = min((path for path in write if paths.covers(path, mask)), key=len, default=None)
        if grant is not None:
            yield mask, identity.identify(grant, mask)


def _led_to(path: str, held: Held) -> str:
    try:
        return paths.trail(path).real
    except (ValueError, OSError) as error:
        raise _bad_path("fs.deny", held, error) from None


def _never(granted: Mapping[str, Held], key: str, place: str, *, below_only: bool) -> None:
    for grant, held in granted.items():
        if paths.covers(place, grant) or (not below_only and paths.covers(grant, place)):
            raise Refused(
                "a box cannot be given what decides about it",
                f"{held.where}: {key} grants {grant}, and {place} must stay out of reach",
                "grant a folder that neither holds it nor lies in it",
                code="own-folder",
            )
