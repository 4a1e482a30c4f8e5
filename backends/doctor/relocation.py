"""A source repository that is not where it was: where it is now, and the box made to follow it.

A repository is known by what a box left in it: its reference holds exactly the box's base. A clone does not
have that reference, so what is found is the repository itself. Nothing is ever pruned for one that is gone.
"""

from __future__ import annotations

import os
from pathlib import Path

from backends.boxes import store
from backends.boxes.layout import BoxPaths, repository_key, socket_path, state_dir
from backends.boxes.manifest import Manifest, write_atomically
from backends.doctor.rows import Box, Voice, command
from backends.errors import Busy, ClocheError
from backends.policy import canonical
from backends.snapshots import Finding
from backends.trees import source, worktree
from backends.trees.names import quote
from backends.trees.values import Source
from backends.verbs import passage

WHY = "the box cannot be reviewed, applied or rebased; its own files are whole, and nothing of it was pruned"
MOST = 512  # folders that are looked into
UP = 3  # folders above the old place in which siblings are looked for


def candidates(box: Box) -> tuple[Source, ...]:
    """Repositories that hold exactly this box's reference: where one stands, and near the old place."""
    known = box.manifest
    found: dict[str, Source] = {}
    for place in _near(box):
        if place.common_dir in found or place.common_dir == known.git_dir:
            continue
        if source.tip(place, source.base_ref(known.name)) == known.base:
            found[place.common_dir] = place
    return tuple(found.values())


def belongs_here(manifest: Manifest, here: Source) -> bool:
    """Whether ``here`` is the repository of a box that looks for it elsewhere."""
    if manifest.detached or Path(manifest.git_dir).is_dir():
        return False
    return source.tip(here, source.base_ref(manifest.name)) == manifest.base


def _near(box: Box) -> list[Source]:
    places = [box.here] if box.here is not None else []
    old = Path(box.manifest.repository or box.manifest.git_dir)
    granted = _granted()
    seen = 0
    for above in list(old.parents)[:UP]:
        if len(above.parts) < 2:
            break  # everything on the host is no sibling
        try:
            entries = [Path(one.path) for one in os.scandir(above) if one.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # gone as well, or closed to us
        for folder in sorted(entries):
            seen += 1
            if seen > MOST:
                return places
            real = Path(os.path.realpath(folder))
            if any(real.is_relative_to(one) or one.is_relative_to(real) for one in granted):
                continue
            if (folder / ".git").exists() or (folder / "HEAD").is_file():
                places += _at(folder)
        if entries and above == old.parent:
            break
    return places


def _granted() -> set[Path]:
    """Folders that some box may write: a repository there could be one that a box made to be found.

    Whoever stands in it chose it; it is never chosen for them.
    """
    found = {state_dir()}
    for paths in store.folders():
        try:
            policy = canonical.decode(paths.policy.read_bytes())
        except (ClocheError, OSError):
            continue  # such a box does not start
        found |= {Path(os.path.realpath(one)) for one in policy.fs.write}
    return found


def _at(folder: Path) -> list[Source]:
    try:
        place = source.discover(folder)
    except (ClocheError, OSError):
        return []  # not ours, or not to be read: no Git is asked in it
    return [place] if place is not None else []


def finding(box: Box, *, another: bool = False) -> Finding:
    """The source repository is not where it was: where to, and how the box follows."""
    voice, known = Voice(box.paths.key, "base"), box.manifest
    places = _meant(box, candidates(box))
    gone = f"{known.git_dir} {'is another repository now' if another else 'is gone'}"
    if not places:
        text = "the source repository is not where it was"
        at = "DIR"
        remedy = f"cd {at} && {command('cloche', 'doctor', box.paths.key, '--fix')}"
        return voice.fail(text, gone, f"{WHY}; DIR is where the repository lies now", remedy)
    shown = places[0].work_tree or places[0].common_dir
    remedy = f"cd {command(shown)} && {command('cloche', 'doctor', box.paths.key, '--fix')}"
    if len(places) > 1:
        more = ", ".join(place.common_dir for place in places)
        text = "the source repository was relocated, and there are several that it could be"
        return voice.fail(text, f"{gone}; its reference is in {more}", WHY, remedy)
    fix = "relocate" if box.ended else ""
    if not fix:
        remedy = f"{command('cloche', 'stop', box.paths.key)} && {remedy}"
    return voice.fail(
        "the source repository was relocated",
        f"{gone}; {places[0].common_dir} holds the box's reference and base",
        WHY,
        remedy,
        fix,
    )


def unfinished(box: Box) -> Finding | None:
    """A box that followed its repository half way: a command was killed between its two steps."""
    if box.paths.repository_key == repository_key(Path(box.manifest.git_dir)):
        return None
    return Voice(box.paths.key, "base").warn(
        "the box followed its repository half way",
        f"it lies below {box.paths.repository_key}",
        "cloche in that repository does not list it",
        command("cloche", "doctor", box.paths.key, "--fix"),
        "relocate" if box.ended else "",
    )


def follow(box: Box) -> tuple[BoxPaths, str]:
    """The repair: have the manifest name the repository's new place, and the box lie below its key.

    Returns where the box lies now, and what was done. ``Busy`` while the box is live, where another box of
    that name is there, or where several repositories fit. A crash in between leaves a box that works and is
    not listed in its repository; the next repair finishes it.
    """
    place = _chosen(box)
    key = repository_key(Path(place.common_dir))
    target = BoxPaths(state_dir() / key / box.paths.name)
    if key != box.paths.repository_key and os.path.lexists(target.root):
        raise Busy(
            f"box {box.paths.name} cannot follow its repository",
            f"{place.work_tree or place.common_dir} has another box of that name",
            f"remove one of the two: {command('cloche', 'rm', target.key)}",
            code="name-taken",
        )
    with passage.holding(box.paths, "relocate", end_idle=True) as held:
        old = held.manifest
        where = place.work_tree or place.common_dir
        held.record(
            "relocated", {"from": old.repository or old.git_dir, "to": where, "who": passage.person()}
        )
        administrative = worktree.find(box.paths, place) if old.tier == "workspace" else None
        _borrow(box.paths, Path(old.git_dir), Path(place.common_dir))
        held.change(repository=where, git_dir=place.common_dir, repository_key=key)
        if administrative is not None:
            write_atomically(administrative / "gitdir", os.fsencode(target.tree / ".git") + b"\n", 0o644)
            pointer = b"gitdir: " + os.fsencode(administrative) + b"\n"
            write_atomically(box.paths.tree / ".git", pointer, 0o644)
        if key != box.paths.repository_key:
            _move(box.paths, target)
    return target, f"{target.key} follows {where}"


def _borrow(paths: BoxPaths, old: Path, new: Path) -> None:
    """Have the box's quarantine read the base's objects where they are now (gitrepository-layout(5))."""
    file = paths.quarantine / "objects" / "info" / "alternates"
    if not file.is_file():
        return
    before, after = (quote(os.fsencode(one / "objects")) for one in (old, new))
    lines = [after if line == before else line for line in file.read_bytes().splitlines()]
    write_atomically(file, b"".join(line + b"\n" for line in lines), 0o644)


def _chosen(box: Box) -> Source:
    known = box.manifest
    if Path(known.git_dir).is_dir():
        place = Source(known.repository, known.git_dir, known.git_dir)
        if source.tip(place, source.base_ref(known.name)) == known.base:
            return place
    places = _meant(box, candidates(box))
    if len(places) != 1:
        raise Busy(
            f"box {box.paths.name} cannot follow its repository",
            f"{len(places)} repositories hold its reference",
            "go into the one that is meant and run: " + command("cloche", "doctor", box.paths.key, "--fix"),
            code="ambiguous",
        )
    return places[0]


def _meant(box: Box, places: tuple[Source, ...]) -> tuple[Source, ...]:
    """Of several repositories that fit, the one that the caller stands in."""
    here = tuple(one for one in places if box.here is not None and one.common_dir == box.here.common_dir)
    return here or places


def _move(paths: BoxPaths, target: BoxPaths) -> None:
    target.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    socket_path(paths).unlink(missing_ok=True)  # its name is made from where the box lay
    paths.root.rename(target.root)
    try:
        paths.root.parent.rmdir()
    except OSError:
        return  # other boxes still lie there
