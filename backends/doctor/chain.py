"""Whether the journal is what was written: its chain, its end, and the anchors that lie outside it."""

from __future__ import annotations

import json
from pathlib import Path

from backends.doctor.rows import Box, Voice, command
from backends.errors import ClocheError
from backends.evidence import journal
from backends.snapshots import Finding
from backends.trees import source
from backends.trees.values import Source
from backends.verbs import passage

WHY = "what the box is said to have done can no longer be told from what somebody wrote later"
LONGEST = 256 << 20  # bytes; a longer journal is looked at by `cloche verify`


def check(box: Box) -> list[Finding]:
    """One row."""
    voice, known = Voice(box.paths.key, "journal"), box.manifest.journal
    size = box.paths.journal.stat().st_size if box.paths.journal.exists() else 0
    if size > LONGEST:
        why = "a walk over it takes long"
        remedy = command("cloche", "export", box.paths.key, "--out", f"{box.paths.name}-export")
        return [voice.note("the journal is too long to be walked here", f"{size} bytes", why, remedy)]
    result = journal.verify(box.paths.journal, (known["count"], known["head"]) if known else None)
    problems = list(result.problems)
    if not problems:
        problems += _elsewhere(box)
    if problems:
        remedy = command("cloche", "log", box.paths.key)
        keep = "keep the folder and do not apply the box"
        return [
            voice.fail(
                "the journal is not what was written", "; ".join(problems[:3]), f"{WHY}; {keep}", remedy
            )
        ]
    said = f"{result.count} records, head {result.head[:16]}"
    if result.torn:
        return [
            voice.warn(
                "the journal's last line is unfinished",
                f"{result.torn} bytes after record {result.count}; whoever wrote them was told of no success",
                "the disk was full, or the host stopped meanwhile; the next record cuts it off and says so",
                command("cloche", "doctor", box.paths.key, "--fix"),
                "torn" if box.ended else "",
            )
        ]
    if box.manifest.tier == "workspace":
        text = "the chain holds, but nothing confines this tier: the agent could have written it anew"
        why = "its evidence is the agent's own claim"
        remedy = command("cloche", "new", "--tier", "auto")
        return [voice.warn(text, said, why, remedy)]
    return [voice.ok("the journal is whole and reaches its anchor", said)]


def _elsewhere(box: Box) -> list[str]:
    """The anchor in the source repository, out of reach of whoever changes journal and manifest together."""
    known = box.manifest
    if known.detached or not Path(known.git_dir).is_dir():
        return []
    blob = source.read_anchor(Source(known.repository, known.git_dir, known.git_dir), known.name)
    if blob is None:
        return []
    try:
        value = json.loads(blob)
        found = journal.verify(box.paths.journal, (int(value["count"]), str(value["head"])))
    except (ValueError, KeyError, TypeError) as error:
        raise ClocheError(
            "the journal's anchor in the source repository cannot be read",
            str(error),
            command("git", "-C", known.git_dir, "show", f"{source.REFS}/{known.name}/anchor"),
            code="anchor",
        ) from error
    return [f"{one} (by the anchor in the source repository)" for one in found.problems]


def mend(box: Box) -> str:
    """The repair, for whoever appends a record next: that cuts the line off and says so first."""
    with passage.holding(box.paths, "doctor"):
        return "the unfinished line was cut off, and a record says how long it was"
