"""What the frozen engine answers about tries and about boxes beside each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from backends.snapshots import BoxRow, Diff, DiffStat, FileChange, Trial
from backends.snapshots_compare import ComparedBox, ComparedFile, Comparison, SuiteRun, Version
from backends.verbs.trying import TrialOutcome
from backends.verbs.values import RunResult

TREES = ("1a" * 20, "2b" * 20, "3c" * 20)
PATCH = (
    b"diff --git a/src/auth.ts b/src/auth.ts\nindex 1111111..2222222 100644\n--- a/src/auth.ts\n"
    b'+++ b/src/auth.ts\n@@ -1,3 +1,3 @@\n import { x } from "y"\n-const once = false\n'
    b"+const once = true\n export { once }\n"
)


def trial(argv: str, code: int = 0, **changes: Any) -> Trial:
    """A try that a journal could tell of."""
    made = Trial(
        "9c1d" * 10, "5e" * 20, False, "", "5e" * 20, tuple(argv.split()), code, 3.2, 0, (), "try-docs-tour",
        False, "ann", time.time() - 20, True,
    )  # fmt: skip
    return made._replace(**changes)


def version(number: int, added: int = 3, deleted: int = 1, status: str = "M") -> Version:
    return Version(number, status, 0o100644, f"{number}" * 40, added, deleted)


def column(row: BoxRow, place: int, **changes: Any) -> ComparedBox:
    tests = (SuiteRun(("npm", "test"), 1, 9.0), SuiteRun(("npm", "test"), place, 9.3))
    made = ComparedBox(
        row, TREES[place], row.state == "proposed", "3f2a9c1d" + "0" * 32, row.stat or DiffStat(0, 0, 0),
        4200 * (place + 1), 3, 71.0 * (place + 1), tests, row.denied, (),
    )  # fmt: skip
    return made._replace(**changes)


class FrozenCompare:
    """The verbs of this, for the frozen engine."""

    rows: tuple[BoxRow, ...]
    wait: Callable[[str, str], None]
    asked: list[tuple[str, Any]]
    one_base = True

    def try_accepted(
        self, ref: str, argv: Sequence[str], *, onto_tip: bool = False, streams: Any = None
    ) -> TrialOutcome:
        self.asked.append(("try", (ref, tuple(argv), onto_tip)))
        self.wait("try", ref)
        done = trial(" ".join(argv), 1, onto="4d" * 20 if onto_tip else "")
        return TrialOutcome(done, RunResult(1, 1, 3.2, 1.0, None), b"1 failed\n\x1b[31mred\n")

    def compare(self, refs: Sequence[str]) -> Comparison:
        self.asked.append(("compare", tuple(refs)))
        self.wait("compare", "")
        boxes = tuple(
            column(next(row for row in self.rows if row.key == ref), place) for place, ref in enumerate(refs)
        )
        count = len(refs)
        files = (
            ComparedFile(b"README.md", (version(1), *(None,) * (count - 1))),
            ComparedFile(b"src/auth.ts", (version(1), version(2, 40, 2), *(version(1),) * (count - 2))),
            ComparedFile(b"src/cart.ts", (version(1),) * count),
        )
        return Comparison(boxes, files, 0, self.one_base)

    def between(self, one: str, other: str, path: bytes, trees: tuple[str, str]) -> Diff:
        self.asked.append(("between", (one, other, path, trees)))
        self.wait("between", one)
        change = FileChange(path, None, "M", 0o100644, 0o100644, "11" * 20, "22" * 20, 1, 1)
        return Diff(trees[0], trees[1], (change,), PATCH.replace(b"src/auth.ts", path), ())
