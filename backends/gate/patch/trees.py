"""The selection as a tree object, made of objects of the quarantine only.

Unchanged paths stay the entries that the base's tree has; a file that is taken whole gets the snapshot's own
blob, so that its bytes are not even read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import NamedTuple

from backends.gate.objects import contents, sizes
from backends.gate.patch.composing import compose
from backends.gate.patch.marks import CONTENT, EXISTS, MODE, NAME
from backends.gate.patch.model import EXECUTABLE, PLAIN
from backends.gate.patch.selecting import Chosen, Selection
from backends.gate.patch.text import blobs_of
from backends.trees.git import Git
from backends.trees.snapshot import IMPORT
from backends.trees.stream import Import

REF = b"refs/cloche/selection"
HELD = 64 << 20  # bytes of blobs that are held at once


class Placed(NamedTuple):
    """What a file of the selection becomes: an entry at ``path``, or nothing (mode 0)."""

    path: bytes
    mode: int
    oid: str  # of the blob; "" where it is composed


def placed(chosen: Chosen) -> Placed:
    """Where a file goes, how, and with whose bytes."""
    file, parts = chosen.file, chosen.takes.parts
    change = file.change
    path = file.path if NAME in parts or change.status == "A" else file.base_path
    if change.status == "D" and EXISTS in parts:
        return Placed(path, 0, "")
    mode = change.old_mode
    if change.status == "A":
        mode = change.new_mode if change.new_mode != EXECUTABLE or MODE in parts else PLAIN
    elif MODE in parts or (CONTENT in parts and change.status == "T"):
        mode = change.new_mode
    if mode & 0o170000 == 0o100000:  # old trees hold other permissions, which Git reads as these
        mode = EXECUTABLE if mode & 0o100 else PLAIN
    if file.by_line:
        if (chosen.takes.old, chosen.takes.new) == (file.all.old, file.all.new) and change.new_mode:
            return Placed(path, mode, change.new_oid)
        return Placed(path, mode, "" if chosen.takes.lines or change.status == "A" else change.old_oid)
    taken = change.status == "A" or CONTENT in parts
    return Placed(path, mode, change.new_oid if taken else change.old_oid)


def compose_tree(git: Git, selection: Selection) -> str:
    """The tree that holds the base with exactly the selection; the base's own when nothing is taken.

    ``git`` is that of the quarantine (:func:`backends.trees.quarantine.git`). ``ClocheError`` when Git
    refuses a name or an object is missing; nothing but unreferenced objects is left then.
    """
    if not selection.chosen:
        return selection.patch.base
    base = selection.patch.base
    stream = io.BytesIO()
    known = {one.file.change.new_oid.encode() for one in selection.chosen}
    known |= {one.file.change.old_oid.encode() for one in selection.chosen}
    places = [(one, placed(one)) for one in selection.chosen]
    name = "sha256" if len(base) == 64 else "sha1"
    gone = {one.file.base_path for one, place in places if not place.mode or NAME in one.takes.parts}
    work = Import(stream, name, {}, gone, known)
    ready: dict[bytes, str] = {}
    for one, blob in composed(git, [one for one, place in places if place.mode and not place.oid]):
        ready[one.file.path] = work.blob(blob).decode("ascii")
    for one, place in places:
        if place.mode:
            oid = place.oid or ready[one.file.path]
            work.place(place.path, b"%06o" % place.mode, oid.encode("ascii"))
    work.commit(base, REF, drop=True)
    answer = git.run(*IMPORT, input=stream.getvalue())
    # "040000 SP tree SP id HT LF", see "ls" in git-fast-import(1); an empty tree is "missing"
    if answer.startswith(b"missing"):
        return git.run("hash-object", "-w", "-t", "tree", "--stdin").decode("ascii").strip()
    return answer.split(b"\t", 1)[0].split(b" ")[2].decode("ascii")


def composed(git: Git, files: list[Chosen]) -> Iterator[tuple[Chosen, bytes]]:
    """The files that are taken in part, each with its composed bytes; few blobs are held at a time."""
    known = sizes(git, (oid for one in files for oid in blobs_of(one)))
    group: list[Chosen] = []
    held = 0
    for one in files:
        size = sum(known[oid] for oid in blobs_of(one))
        if group and held + size > HELD:
            yield from _compose(git, group, known)
            group, held = [], 0
        group.append(one)
        held += size
    if group:
        yield from _compose(git, group, known)


def _compose(git: Git, group: list[Chosen], known: dict[str, int]) -> Iterator[tuple[Chosen, bytes]]:
    blobs = dict(contents(git, {oid: known[oid] for one in group for oid in blobs_of(one)}))
    for one in group:
        change = one.file.change
        yield one, compose(blobs.get(change.old_oid, b""), blobs.get(change.new_oid, b""), one)


def selected_patch(git: Git, selection: Selection) -> bytes:
    """:func:`backends.gate.patch.text.patch_text` with the blobs read from the quarantine."""
    from backends.gate.patch.text import patch_text, wanted

    known = sizes(git, wanted(selection))
    return patch_text(selection, dict(contents(git, known)))
