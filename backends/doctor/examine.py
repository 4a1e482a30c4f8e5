"""All checks of one box, in the order in which one failure explains the next; none ends the others."""

from __future__ import annotations

from collections.abc import Callable

from backends.boxes import liveness
from backends.boxes.layout import BoxPaths
from backends.boxes.manifest import load
from backends.doctor import (
    base,
    chain,
    clock,
    egress,
    image,
    keeper,
    leftovers,
    manifest,
    owner,
    policy,
    room,
    secrets,
    tree,
)
from backends.doctor.proof import Proofs
from backends.doctor.rows import FAIL, Box, Voice, command
from backends.errors import ClocheError
from backends.snapshots import Finding
from backends.trees.values import Source

Check = Callable[[Box], list[Finding]]

CHECKS: tuple[tuple[str, Check], ...] = (
    ("manifest", manifest.check),
    ("policy", policy.check),
    ("journal", chain.check),
    ("base", base.check),
    ("tree", tree.check),
    ("keeper", keeper.check),
    ("image", image.check),
    ("secrets", secrets.check),
    ("egress", egress.check),
    ("disk", room.check),
    ("clock", clock.check),
    ("leftovers", leftovers.check),
)
UNREADABLE = "what cannot be looked at cannot be relied on"


def opened(paths: BoxPaths, here: Source | None) -> Box:
    """The box to look at. Raises what reading its manifest raises."""
    return Box(paths, load(paths), liveness.read(paths), here)


def examine(paths: BoxPaths, here: Source | None, proofs: Proofs | None) -> list[Finding]:
    """Every finding of one box. ``proofs`` None: without trying its policy."""
    rows = _guarded(paths, "owner", lambda: owner.check(paths))
    try:
        box = opened(paths, here)
    except ClocheError as error:
        return [*rows, Voice(paths.key, "manifest").error(error, manifest.WHY)]
    except OSError as error:
        return [*rows, _unreadable(paths, "manifest", error)]
    checks = list(CHECKS)
    if proofs is not None:
        checks.insert(2, ("proof", proofs.check))
    for name, check in checks:
        rows += _guarded(paths, name, lambda check=check: check(box))  # type: ignore[misc]
    return rows


def _guarded(paths: BoxPaths, name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except ClocheError as error:
        return [Voice(paths.key, name).error(error, UNREADABLE)]
    except OSError as error:
        return [_unreadable(paths, name, error)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # A damaged file of the box holds something else than was written; which one, the check's name says.
        text = f"what the box's files say of its {name} cannot be read"
        remedy = command("cloche", "rm", "--force", paths.key)
        return [Voice(paths.key, name).fail(text, f"{type(error).__name__}: {error}", UNREADABLE, remedy)]


def _unreadable(paths: BoxPaths, name: str, error: OSError) -> Finding:
    where = error.filename or paths.root
    said = f"{where}: {error.strerror or error}"
    remedy = command("ls", "-la", where)
    return Voice(paths.key, name).fail(f"its {name} cannot be looked at", said, UNREADABLE, remedy)


def failed(rows: list[Finding]) -> bool:
    """Whether a claim does not hold."""
    return any(row.verdict == FAIL for row in rows)
