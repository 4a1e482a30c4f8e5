"""What the gate warns of, taken upon oneself before anything is applied: by keys, or asked one by one."""

from __future__ import annotations

import sys

from app.cli.context import Context
from backends.errors import Refused
from backends.evidence.visible import visible
from backends.snapshots import ApplyPlan, CheckRow

ALL = "all"
SHOWN = 8  # digits of a key that people are shown
LEAST = 4  # digits that name one


def sentence(check: CheckRow) -> str:
    """What a check says and of what, escaped."""
    where = visible(check.path) + ": " if check.path is not None else ""
    return f"{where}{visible(check.reason)}"


def named(context: Context, box: str, plan: ApplyPlan, wish: str, as_name: str | None) -> None:
    """Acknowledge the warnings of ``plan`` that ``wish`` names: keys or beginnings of them, or all."""
    if wish == ALL:
        keys = [row.key for row in plan.standing]
    else:
        keys = [_key(plan, part.strip().lower(), box) for part in wish.split(",") if part.strip()]
    _keep(context, box, keys, plan, as_name)


def one_by_one(context: Context, box: str, plan: ApplyPlan) -> None:
    """Ask a person about each warning that stands; anything but yes is a refusal. Answers are kept."""
    for number, row in enumerate(plan.standing, 1):
        sys.stderr.write(
            f"warning {number} of {len(plan.standing)}: {sentence(row)}\ntype y to acknowledge: "
        )
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Refused(
                f"box {box} was not applied",
                f"you did not acknowledge: {sentence(row)}",
                f"read it first: cloche diff {box}",
                code="not-confirmed",
            )
        _keep(context, box, [row.key], plan, None)


def _key(plan: ApplyPlan, beginning: str, box: str) -> str:
    found = [row.key for row in plan.checks if row.key and row.key.startswith(beginning)]
    if len(beginning) >= LEAST and len(found) == 1:
        return found[0]
    raise Refused(
        f"box {box} was not applied",
        f"{visible(beginning[:64])} names {len(found) if len(beginning) >= LEAST else 'no single'} warning"
        " of what would be applied",
        f"see their keys: cloche apply {box} --dry-run; all of them: --acknowledge all",
        code="no-such-warning",
    )


def _keep(context: Context, box: str, keys: list[str], plan: ApplyPlan, as_name: str | None) -> None:
    from backends.verbs.passage import person

    if not keys:
        return
    who = as_name if as_name is not None else person()
    with context.engine.decisions(box, who, scripted=as_name is not None) as desk:
        desk.acknowledge(keys, also=plan.checks)
