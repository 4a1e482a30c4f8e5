"""The evidence pane: parts that fold, a cursor that stays in sight, and the way from an item to its file."""

from __future__ import annotations

from typing import Any

from textual import on

from backends.snapshots import Acknowledgement, CheckRow, ReviewProgress, ReviewView
from backends.snapshots_evidence import (
    Bulk,
    Dependency,
    InnerEnd,
    InnerRun,
    InnerTest,
    LockFile,
    Outside,
    ProposalEvidence,
    Ran,
    Secret,
)
from backends.snapshots_tried import Ignored, Trial
from tests.widgets.drawn import Bench, text_of
from tests.workbench import frozen
from widgets.checks import Evidence
from widgets.evidence import Part, evidence_parts
from widgets.ink import Line

FOUND = ProposalEvidence(
    ran=(
        Ran(1, ("claude", "--resume"), False, 0, 700.0, "during"),
        Ran(2, ("npm", "test"), True, 1, 41.0, "before"),
    ),
    inner=(
        InnerTest(
            ("pytest", "-q"),
            3,
            (InnerEnd(0, "", "", 2), InnerEnd(137, "SIGKILL", "", 1)),
            InnerRun(0, "", "", 2.0, "after"),
        ),
        InnerTest(("tox",), 1, (InnerEnd(None, "", "it went unseen", 1),)),
        InnerTest(("make", "test"), 1, (InnerEnd(1, "", "", 1),), InnerRun(1, "", "", 3.0, "", ("true",))),
    ),
    last_change=100.0,
    untimed=2,
    outside=(Outside(b"src/planted.ts", 99.0, False),),
    more_outside=4,
    alive=2,
    locks=(
        LockFile(
            b"package-lock.json",
            1,
            0,
            1,
            1,
            (
                Dependency("left", "rewritten", "1.0.0", "1.0.0"),
                Dependency("new", "added", "", "3.0.0"),
                Dependency("right", "changed", "2.0.0", "2.1.0"),
            ),
            "",
        ),
        LockFile(b"go.sum", 0, 0, 0, 0, (), "the one of the proposal cannot be read: it is nested too deep"),
    ),
    secrets=(
        Secret(b"src/auth/refresh.ts", 4, "Hex High Entropy String", "8f14… (32 characters)", False),
        Secret(b"src/auth/refresh.ts", 2, "AWS Access Key", "AKI… (20 characters)", True),
    ),
    unsearched=((b"", "3 files were not searched"),),
    bulk=(Bulk(b"dist/app.min.js", "generated", "its name: .min.js"),),
    examiner="Landlock ABI 7, seccomp",
    more_inner=4,
    unseen=("3 programs went by",),
)
HELD = CheckRow("ci-file", "warn", "is run by CI", b"src/auth/refresh.ts", "k" * 32)
TRIAL = Trial(
    "s", "t", False, "", "t", ("make", "test"), 0, 3.0, 1, (), "try-b", False, "ann", 1.0, fits=True
)


def view(**changes: Any) -> ReviewView:
    made = frozen.FrozenEngine().review(frozen.FLEET[2].key)
    return made._replace(evidence=FOUND, **changes)


def plain(line: Line) -> str:
    return "".join(run.text for run in line)


def lines(part: Part) -> list[str]:
    return [plain(item.text) for item in part.items]


def parts_of(review: ReviewView) -> dict[str, Part]:
    return {part.id: part for part in evidence_parts(review)}


def test_each_part_says_what_is_known_and_what_is_not() -> None:
    parts = parts_of(view(tried=(TRIAL,), ignored=Ignored(3, (b"build/",))))
    assert list(parts) == [
        "gate", "tests", "outside", "secrets", "locks", "ran", "denied", "ignored", "bulk", "passed"
    ]  # fmt: skip
    assert lines(parts["tests"]) == [
        "npm test  exit 1  41s  before the last change",
        "none began after the last change",
        "2 removals or links have no time",
        "pytest -q  ×3 inside  2 exit 0  1 SIGKILL  last exit 0  2s  after the last change",
        "tox  ×1 inside  end not recorded: it went unseen",
        "make test  ×1 inside  exit 1  3s  of what it became: true",
        "and 4 more inside",
        "not known: 3 programs went by",
        "make test  exit 0  3s  tried on what was accepted  1 denied",
    ]
    assert plain(parts["outside"].title) == "Changed while no session ran 5"
    assert (
        lines(parts["outside"])[1].startswith("src/planted.ts  ")
        and "nothing of the box lived" in (lines(parts["outside"])[1])
    )
    assert lines(parts["secrets"]) == [
        "src/auth/refresh.ts:2  AWS Access Key  AKI… (20 characters)",
        "src/auth/refresh.ts:4  Hex High Entropy String  8f14… (32 characters)  only random",
        "not all  3 files were not searched",
    ]
    assert lines(parts["locks"]) == [
        "package-lock.json  +1  ~1  !1",
        "! left 1.0.0  same version, another source or hash",
        "+ new 3.0.0",
        "~ right 2.0.0 → 2.1.0",
        "go.sum  the one of the proposal cannot be read: it is nested too deep",
    ]
    assert "2 processes still alive" in lines(parts["ran"])
    assert [part.id for part in parts.values() if part.folded] == ["ignored", "bulk", "passed"]


def test_a_tier_that_cannot_tell_says_so() -> None:
    parts = parts_of(view()._replace(evidence=FOUND._replace(alive=None)))
    assert "what still runs cannot be told at this tier" in lines(parts["ran"])


def test_who_acknowledged_a_warning_stands_behind_it() -> None:
    held = Acknowledgement(HELD.key, "ann", 1.0, False)
    progress = ReviewProgress((), 0, 0, 0, (), (), "", "", (), "", (held,))
    parts = parts_of(view(checks=(HELD,), progress=progress))
    assert plain(parts["gate"].title) == "Gate 1 warn · 1 acknowledged"
    assert lines(parts["gate"]) == ["! ci-file  is run by CI  src/auth/refresh.ts  acknowledged by ann"]


class Listening(Bench):
    @on(Evidence.Jump)
    def jumped(self, event: Evidence.Jump) -> None:
        self.seen.append((event.path, event.line))


async def test_enter_leads_to_the_file_and_folds_a_part() -> None:
    pane = Evidence()
    app = Listening(pane)
    async with app.run_test(size=(50, 14)) as pilot:
        pane.set_review(view(checks=(HELD,)))
        await pilot.pause()
        assert text_of(pane)[0].startswith("▾ Gate 1 warn")
        await pilot.press("down", "enter")
        assert app.seen == [(b"src/auth/refresh.ts", 0)]
        place = next(at for at, row in enumerate(pane._rows) if row[0].id == "secrets" and row[1] is not None)
        await pilot.press(*["down"] * (place - 1), "enter")
        assert app.seen[1:] == [(b"src/auth/refresh.ts", 2)]
        assert any("AWS Access Key" in line for line in text_of(pane)), "the cursor stays in sight"
        await pilot.press("left")
        assert pane.row is not None and pane.row[0].id == "secrets" and pane.row[1] is None
        assert "AWS" not in pane.plain() and "▸ Secrets 2" in pane.plain()
        await pilot.press("enter")
        assert "AWS" in pane.plain()
        await pilot.press("G", "right", "end")
        await pilot.pause()
        assert pane.row is not None and pane.row[0].id == "bulk" and pane.row[1] is not None
        await pilot.press("home")
        await pilot.pause()
        assert text_of(pane)[0].startswith("▾ Gate 1 warn")


async def test_a_review_that_comes_again_keeps_folds_and_cursor() -> None:
    pane = Evidence()
    app = Bench(pane)
    async with app.run_test(size=(60, 20)) as pilot:
        pane.set_review(view(checks=(HELD,)))
        await pilot.press("left")
        assert "is run by CI" not in pane.plain()
        pane.set_review(view(checks=(HELD._replace(reason="is run by CI too"),)))
        await pilot.pause()
        assert "▸ Gate 1 warn" in pane.plain() and "is run by" not in pane.plain()
        await pilot.press("right")
        assert "is run by CI too" in pane.plain()


async def test_a_flood_of_rows_is_wrapped_once_and_walked_by_pages() -> None:
    many = tuple(HELD._replace(reason=f"reason {number} " + "x" * 90) for number in range(2000))
    pane = Evidence()
    app = Bench(pane)
    async with app.run_test(size=(40, 12)) as pilot:
        pane.set_review(view(checks=many))
        await pilot.pause()
        await pilot.press("pagedown", "pagedown")
        assert pane.cursor > 2
        await pilot.press("pageup", "pageup")
        await pilot.pause()
        assert pane.cursor <= 2
        await pilot.press("end")
        await pilot.pause()
        assert pane.scroll_offset.y > 2000
