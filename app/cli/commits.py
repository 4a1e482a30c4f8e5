"""The commits of a box, as lines for a person: all of it is what the box says, so nothing is printed raw."""

from __future__ import annotations

from collections.abc import Iterable

from backends.evidence.visible import visible
from backends.snapshots import BoxCommit, BoxCommits

SHOWN = 20  # commits that are listed to a person; scripts get all


def lines(rows: Iterable[BoxCommit]) -> list[str]:
    """One line for each, oldest first."""
    listed = list(rows)
    out = [
        f"{visible(one.id[:12])} {visible(one.subject[:200])} (by {visible(one.author)} "
        f"<{visible(one.author_email)}>, as the box says)"
        for one in listed[:SHOWN]
    ]
    if len(listed) > SHOWN:
        out.append(f"and {len(listed) - SHOWN} more")
    return out


def summary(found: BoxCommits | None, box: str) -> list[str]:
    """What there is to know of a proposal's commits; nothing where the box made none. Without ``box`` nothing
    is offered."""
    if found is None:
        return []
    made = [f"commit {line}" for line in lines(found.rows)]
    if found.keepable and not box:
        return made
    if found.keepable:
        return [*made, f"these commits can be kept: cloche apply {visible(box)} --keep-commits"]
    return [*made, f"the commits of the box cannot be kept: {visible(found.why)}"]
