"""How a frozen engine answers a request for changes, and what it says changed since the last review."""

from __future__ import annotations

from typing import Any

from backends.snapshots import Diff
from backends.snapshots_request import RequestOutcome
from tests.workbench.frozen_diff import DIFF


class FrozenAnswers:
    """What :class:`tests.workbench.frozen.FrozenEngine` is by this."""

    asked: list[tuple[str, Any]]
    moved: Diff = DIFF

    def request_changes(
        self,
        ref: str,
        who: str,
        *,
        summary: str | None = None,
        to_session: int | None = None,
        scripted: bool = False,
    ) -> RequestOutcome:
        self.asked.append(("request", (ref, who, summary, to_session)))
        state = "idle" if to_session is None else "running"
        session = None if to_session is None else to_session or 1
        return RequestOutcome(ref, DIFF.tree, ".cloche-review.md", "d" * 64, 1, 0, state, session)

    def interdiff(self, ref: str) -> Diff:
        self.asked.append(("interdiff", (ref,)))
        return self.moved
