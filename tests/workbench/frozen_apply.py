"""The gate's last acts of a frozen engine: it plans, applies, undoes and rebases by what a test says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backends.snapshots import ApplyOutcome, ApplyPlan, BoxCommits, CheckRow, UnapplyOutcome
from backends.snapshots_moved import RebaseOutcome, UnapplyPlan

BASE = "3f2a9c1d" + "0" * 32
TRAILERS = ("Cloche-Box: shop-0123456789/docs-tour", "Cloche-Snapshot: " + "9c1d" * 10, "Cloche-Policy: 41aa")
PLAN = ApplyPlan(
    "refs/heads/main", False, BASE, BASE, "9c1d" * 10, "fast-forward", "9c1d" * 10, (BASE,),
    "Apply the work of box docs-tour\n\n" + "\n".join(TRAILERS) + "\n", False, 15, 0, "", (), TRAILERS,
    "Ann Author <ann@shop.example>",
)  # fmt: skip
UNDO = UnapplyPlan(
    "refs/heads/main", "b" * 40, BASE, "Apply the work of box docs-tour", 1, 3, "/home/dev/acme/shop",
    "proposed", None,
)  # fmt: skip


def keyed(checks: Iterable[CheckRow]) -> tuple[CheckRow, ...]:
    """As the gate gives them: each warning with a key."""
    return tuple(
        one._replace(key=one.key or f"{at:032x}") if one.verdict == "warn" else one
        for at, one in enumerate(checks)
    )


class FrozenActs:
    """What :class:`tests.workbench.frozen.FrozenEngine` is by this."""

    checks: tuple[CheckRow, ...]
    asked: list[tuple[str, Any]]

    def __init__(self) -> None:
        self.plan: ApplyPlan = PLAN
        self.plans: list[dict[str, Any]] = []  # how each plan was asked for
        self.undo: UnapplyPlan = UNDO
        self.errors: dict[str, list[Exception]] = {}  # of a verb, in order: raised once each
        self.acknowledged: list[str] = []
        self.commits: BoxCommits | None = None

    def _fail(self, verb: str) -> None:
        if self.errors.get(verb):
            raise self.errors[verb].pop(0)

    def plan_apply(self, ref: str, **how: Any) -> ApplyPlan:
        self.plans.append(how)
        self._fail("plan_apply")
        checks = keyed(self.checks)
        plan = self.plan._replace(checks=checks)
        standing = tuple(one for one in checks if one.verdict == "warn" and one.key not in self.acknowledged)
        if how.get("message"):
            plan = plan._replace(message=how["message"].rstrip() + "\n\n" + "\n".join(plan.trailers) + "\n")
        if how.get("onto"):
            new: dict[str, Any] = {
                "branch": f"refs/heads/{how['onto']}",
                "new_branch": True,
                "old": "",
                "mode": "fast-forward",
            }
            plan = plan._replace(**new, parents=(plan.base,))
        elif how.get("squash"):
            plan = plan._replace(mode="squash", parents=plan.parents[:1])
        if how.get("keep_commits") and self.commits is not None:
            top = self.commits.rows[-1]
            plan = plan._replace(
                commits=self.commits.rows, trailers=(), message=top.message, author=top.author
            )
        return plan._replace(standing=standing)

    def apply(self, ref: str, **how: Any) -> ApplyOutcome:
        self.asked.append(("apply", (ref, how)))
        self._fail("apply")
        seen = how["seen"]
        return ApplyOutcome(seen.branch, seen.old, "b" * 40, seen.mode, "person", partial=seen.partial,
            accepted=seen.accepted, left=seen.left, combination=seen.combination)  # fmt: skip

    def plan_unapply(self, ref: str) -> UnapplyPlan:
        self._fail("plan_unapply")
        return self.undo

    def unapply(self, ref: str, *, as_name: str | None = None, seen: Any = None) -> UnapplyOutcome:
        self.asked.append(("unapply", (ref, seen)))
        self._fail("unapply")
        return UnapplyOutcome(seen.branch, seen.old, seen.new, seen.state)

    def rebase(self, ref: str, *, as_name: str | None = None) -> RebaseOutcome:
        self.asked.append(("rebase", (ref,)))
        self._fail("rebase")
        return RebaseOutcome("refs/heads/main", BASE, "c" * 40, 4, ((b"src/a.ts", "contents"),))

    def decisions(self, ref: str, who: str, **rest: Any) -> Any:
        return Desk(self)


class Desk:
    """Takes acknowledgements and nothing else."""

    def __init__(self, engine: FrozenActs) -> None:
        self._engine = engine

    def acknowledge(
        self, keys: Iterable[str], *, withdraw: bool = False, also: Iterable[CheckRow] = ()
    ) -> None:
        self._engine._fail("acknowledge")
        for key in keys:
            (self._engine.acknowledged.remove if withdraw else self._engine.acknowledged.append)(key)

    def close(self) -> None:
        pass
