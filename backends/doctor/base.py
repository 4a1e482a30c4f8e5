"""Whether the commit that a box started from is kept, and where it is looked for."""

from __future__ import annotations

from pathlib import Path

from backends.doctor import relocation
from backends.doctor.rows import Box, Voice, command
from backends.errors import ClocheError
from backends.snapshots import Finding
from backends.trees import borrowing, source
from backends.trees.git import Git
from backends.trees.values import Source

WHY = "Git may prune the commit; then nothing of the box can be compared, applied or rebased"


def check(box: Box) -> list[Finding]:
    """The base and its reference, then the host's objects that the box borrows."""
    rows = [_base(box)]
    gone = [str(folder) for folder in borrowing.borrowed(box.paths) if not folder.is_dir()]
    if gone:
        rows.append(
            Voice(box.paths.key, "objects").fail(
                "objects of the base that the box borrows are gone",
                "; ".join(gone[:2]),
                "Git inside the box cannot read its own history",
                command("cloche", "run", box.paths.key, "--", "true"),
            )
        )
    return rows


def _base(box: Box) -> Finding:
    voice, known = Voice(box.paths.key, "base"), box.manifest
    if known.detached:
        if Git(box.paths.origin).call("cat-file", "-e", f"{known.base}^{{commit}}").status == 0:
            return voice.ok("the box is detached and holds its base itself", known.base)
        remedy = command("cloche", "rm", "--force", box.paths.key)
        return voice.fail("the box's own copy of its base is damaged", str(box.paths.origin), WHY, remedy)
    if not Path(known.git_dir).is_dir():
        return relocation.finding(box)
    place = Source(known.repository, known.git_dir, known.git_dir)
    ref = source.base_ref(known.name)
    kept = source.tip(place, ref)
    if kept == known.base:
        unfinished = relocation.unfinished(box)
        return unfinished or voice.ok("the base is kept alive in the source repository", kept)
    evidence = f"{ref} is {kept or 'gone'} and should be {known.base}"
    if _has(place, known.base):
        remedy = command("git", "-C", known.repository, "update-ref", ref, known.base)
        fix = "" if kept else "base-ref"
        return voice.fail("the base is no longer kept in the source repository", evidence, WHY, remedy, fix)
    if relocation.candidates(box):
        return relocation.finding(box, another=True)
    evidence += ", which this repository does not have"
    remedy = command("cloche", "export", box.paths.key, "--out", f"{box.paths.name}-export")
    return voice.fail("the base is gone from the source repository", evidence, WHY, remedy)


def _has(place: Source, commit: str) -> bool:
    return source.git(place).call("cat-file", "-e", f"{commit}^{{commit}}").status == 0


def keep(box: Box) -> str:
    """The repair: write the reference anew where it is gone and its commit is there. ``Busy`` otherwise."""
    known = box.manifest
    place = Source(known.repository, known.git_dir, known.git_dir)
    if not _has(place, known.base):
        raise ClocheError(
            f"the base of {known.name} cannot be kept",
            f"{known.git_dir} does not have {known.base} any more",
            command("cloche", "doctor", box.paths.key),
            code="base-gone",
        )
    from backends.trees.values import Base

    source.keep(place, known.name, Base(known.base, known.base_tree, known.base_ref))
    return f"{source.base_ref(known.name)} is {known.base} again"
