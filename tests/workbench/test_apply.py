"""The apply dialog on frozen plans: what it shows, what arms it, and what it does when something moved."""

from __future__ import annotations

import threading

import pytest
from textual.widgets import Input, TextArea

from app.screens.apply import ApplyScreen
from app.screens.apply_parts import Warnings
from app.screens.dialogs import Choice, ConfirmScreen
from app.screens.fleet import FleetScreen
from app.screens.review import ReviewScreen
from backends.errors import Busy, Conflict, Refused
from backends.snapshots import ApplyPlan, BoxCommit, BoxCommits
from tests.workbench import frozen
from tests.workbench.frozen_apply import PLAN, UNDO
from tests.workbench.stage import Play, play
from widgets.pane import BoxPane

SIZES = [(80, 24), (120, 40), (200, 50)]
KEY = frozen.FLEET[2].key
MOVED = PLAN._replace(old="d" * 40, mode="merge", parents=("d" * 40, "e" * 40))


async def to_dialog(stage: Play) -> ApplyScreen:
    await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
    await stage.press("w", "w", "E")
    await stage.until(lambda: isinstance(stage.app.screen, ReviewScreen))
    screen = stage.app.screen
    assert isinstance(screen, ReviewScreen)
    await stage.until(lambda: screen.review is not None)
    await stage.press("P")
    await stage.until(lambda: isinstance(stage.app.screen, ApplyScreen))
    dialog = stage.app.screen
    assert isinstance(dialog, ApplyScreen)
    await stage.until(lambda: dialog._planned is not None and not dialog._busy)
    return dialog


def without_warnings(plan: ApplyPlan = PLAN) -> frozen.FrozenEngine:
    engine = frozen.FrozenEngine()
    engine.checks = tuple(check for check in frozen.CHECKS if check.verdict == "pass")
    engine.plan = plan
    return engine


def armed(dialog: ApplyScreen) -> bool:
    return dialog.query_one("#apply", Choice).armed


async def give(stage: Play, dialog: ApplyScreen, what: str) -> None:
    dialog.query_one(what, Choice).focus()
    await stage.press("enter")


@pytest.mark.parametrize("size", SIZES)
async def test_the_exact_commit_is_shown_and_no_has_the_focus(size: tuple[int, int]) -> None:
    engine = without_warnings()
    async with play(engine, size) as stage:
        dialog = await to_dialog(stage)
        await stage.shows("Apply docs-tour", "branch    main", "fast-forward", PLAN.tree, PLAN.parents[0])
        await stage.shows("Ann Author <ann@shop.example>", frozen.SNAPSHOT.id, "3 files")
        assert sum(line.count("41aa" * 8) for line in stage.text().splitlines()) == 2  # in two halves
        await stage.shows("Apply the work of box docs-tour", "+ Cloche-Box: ", "No", "Apply")
        assert stage.app.focused is not None
        assert stage.app.focused.id == "no"
        assert armed(dialog)
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.app.screen, ReviewScreen))
        assert engine.asked == []


async def test_apply_hands_over_the_plan_that_was_shown_and_says_what_the_branch_is_now() -> None:
    engine = without_warnings()
    async with play(engine) as stage:
        await to_dialog(stage)
        await stage.press("right", "enter")
        await stage.until(lambda: engine.asked)
        ((verb, (ref, how)),) = engine.asked
        assert (verb, ref) == ("apply", KEY)
        assert (how["part"], how["expect"]) == (True, frozen.SNAPSHOT.id)
        assert (how["squash"], how["onto"], how["message"]) == (False, "", "")
        assert how["seen"] == PLAN._replace(checks=how["seen"].checks)
        await stage.shows("main is now bbbbbbbbbb (fast-forward)")
        await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))


async def test_nothing_is_planned_before_the_decisions_before_it_are_kept() -> None:
    engine = without_warnings()
    held = threading.Event()
    engine.wait = lambda verb, ref: None if verb != "decisions" else (held.wait(60), None)[1]
    async with play(engine) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("w", "w", "E")
        await stage.until(lambda: isinstance(stage.app.screen, ReviewScreen))
        screen = stage.app.screen
        assert isinstance(screen, ReviewScreen)
        await stage.until(lambda: screen.review is not None)
        await stage.press("P")
        assert stage.app.screen is screen and engine.plans == []
        held.set()
        await stage.until(lambda: isinstance(stage.app.screen, ApplyScreen) and engine.plans)


@pytest.mark.parametrize("size", SIZES)
async def test_warnings_are_acknowledged_one_by_one_and_the_name_is_typed(size: tuple[int, int]) -> None:
    engine = frozen.FrozenEngine()
    async with play(engine, size) as stage:
        dialog = await to_dialog(stage)
        await stage.shows("2 of 2 warnings not acknowledged")
        dialog.query_one("#apply", Choice).focus()
        await stage.press("enter")
        assert engine.asked == []
        assert isinstance(stage.app.focused, Warnings)  # led to what is missing
        await stage.press("space")
        await stage.shows("1 of 2 warnings not acknowledged")
        assert len(engine.acknowledged) == 1
        dialog.query_one("#typed", Input).focus()
        await stage.type("docs-tour")
        assert not armed(dialog)
        dialog.query_one(Warnings).focus()
        await stage.press("space")
        await stage.until(lambda: len(set(engine.acknowledged)) == 2 and not dialog._busy)
        assert armed(dialog)
        await stage.press("space")  # again: the one under the cursor stands again
        await stage.until(lambda: len(engine.acknowledged) == 1 and not dialog._busy)
        assert not armed(dialog)
        await stage.press("space")
        await stage.until(lambda: len(engine.acknowledged) == 2 and not dialog._busy)
        await give(stage, dialog, "#apply")
        await stage.until(lambda: engine.asked)
        assert engine.asked[0][0] == "apply"


async def test_what_somebody_acknowledged_before_counts_and_the_name_has_still_to_be_typed() -> None:
    engine = frozen.FrozenEngine()
    engine.acknowledged = [f"{at:032x}" for at in range(len(engine.checks))]
    async with play(engine) as stage:
        dialog = await to_dialog(stage)
        await stage.shows("2 acknowledged", "all acknowledged; type docs-tour")
        dialog.query_one("#typed", Input).focus()
        await stage.type("docs-tou")
        assert not armed(dialog)
        await stage.type("r")
        assert armed(dialog)


async def test_only_the_ways_that_are_possible_can_be_chosen_and_the_commit_follows() -> None:
    engine = without_warnings(MOVED)
    async with play(engine) as stage:
        dialog = await to_dialog(stage)
        await stage.shows("merge commit", "moved on since the base", "● merge", "○ squash")
        await give(stage, dialog, "#way-squash")
        await stage.shows("one commit (squash)", "● squash")
        await stage.until(lambda: not dialog._busy)
        assert engine.plans[-1]["squash"] is True
        await give(stage, dialog, "#apply")
        await stage.until(lambda: engine.asked)
        assert engine.asked[0][1][1]["squash"] is True
    for plan in (PLAN, MOVED._replace(partial=True, left=2)):
        engine = without_warnings(plan)
        async with play(engine) as stage:
            dialog = await to_dialog(stage)
            assert not dialog.query_one("#modes").display


async def test_the_boxs_own_commits_can_be_kept_where_they_are_sound() -> None:
    who = ("Agent", "a@b.invalid", 0.0)
    mine = BoxCommit("c" * 40, "9c1d" * 10, (PLAN.base,), "do \x1b[31mit", "do it", *who, *who, "")
    for keepable in (True, False):
        engine = without_warnings()
        engine.commits = BoxCommits(mine.id, (mine,), keepable, "" if keepable else "they lie")
        async with play(engine) as stage:
            dialog = await to_dialog(stage)
            if not keepable:
                await stage.shows("the box's own commits cannot be kept: they lie")
                assert not dialog.query_one("#modes").display
                continue
            await stage.shows("● one commit", "○ keep the box's commits")
            await give(stage, dialog, "#way-keep")
            await stage.shows(
                "● keep the box's commits", "cccccccccccc  do \\x1b[31mit", "claimed by the box"
            )
            await stage.until(lambda dialog=dialog: armed(dialog))  # type: ignore[misc]
            assert not dialog.query_one("#message").display
            await give(stage, dialog, "#apply")
            await stage.until(lambda engine=engine: engine.asked)  # type: ignore[misc]
            how = engine.asked[0][1][1]
            assert (how["keep_commits"], how["squash"], how["message"]) == (True, False, "")
            assert how["seen"].commits == (mine,)


async def test_a_part_says_how_much_it_is_and_that_the_combination_was_not_run() -> None:
    engine = without_warnings(
        PLAN._replace(partial=True, accepted=7, left=8, combination="combination not run")
    )
    async with play(engine, (80, 24)) as stage:
        await to_dialog(stage)
        await stage.shows("7 accepted", "8 left", "combination not run", "a part of the")
        await stage.press("right", "enter")
        await stage.shows("7 accepted, 8 left")


async def test_a_new_branch_and_a_message_are_planned_before_they_are_applied() -> None:
    engine = without_warnings(MOVED)
    async with play(engine) as stage:
        dialog = await to_dialog(stage)
        go, plan = threading.Event(), engine.plan_apply
        engine.plan_apply = lambda ref, **how: (go.wait(60), plan(ref, **how))[1]  # type: ignore[method-assign]
        dialog.query_one("#onto", Input).focus()
        await stage.type("try/it")
        assert not armed(dialog)  # what is on the screen is not what is chosen
        go.set()
        await stage.shows("a new branch, made at")
        area = dialog.query_one(TextArea)
        area.focus()
        area.move_cursor(area.document.end)
        await stage.press("enter", "enter")
        await stage.type("because")
        await stage.until(lambda: armed(dialog))
        assert engine.plans[-1]["onto"] == "try/it"
        assert engine.plans[-1]["message"] == "Apply the work of box docs-tour\n\nbecause"
        await give(stage, dialog, "#apply")
        await stage.until(lambda: engine.asked)
        how = engine.asked[0][1][1]
        assert (how["onto"], how["squash"], how["seen"].new_branch) == ("try/it", False, True)
        assert "because" in how["seen"].message


async def test_an_empty_message_is_not_the_engines_own() -> None:
    engine = without_warnings()
    async with play(engine) as stage:
        dialog = await to_dialog(stage)
        dialog.query_one(TextArea).load_text("  \n")
        await stage.shows("the message is empty")
        assert not armed(dialog)


async def test_pasted_controls_are_written_out() -> None:
    from textual import events

    engine = without_warnings()
    async with play(engine) as stage:
        dialog = await to_dialog(stage)
        area = dialog.query_one(TextArea)
        area.focus()
        area.load_text("")
        area.post_message(events.Paste("a\x1b]0;owned\x07b\r\nc\u202ed"))
        await stage.until(lambda: area.text)
        assert area.text == "a\\x1b]0;owned\\x07b\nc\\u202ed"


@pytest.mark.parametrize("size", SIZES)
async def test_when_the_branch_moved_it_says_what_and_offers_what_would_be_done_now(
    size: tuple[int, int],
) -> None:
    engine = without_warnings()
    refusal = Busy("box docs-tour was not applied", "since it was shown", "again", code="plan-moved")
    engine.errors["apply"] = [refusal]
    async with play(engine, size) as stage:
        dialog = await to_dialog(stage)
        engine.plan = MOVED
        await stage.press("right", "enter")
        await stage.shows("Nothing was applied: this moved", "branch's tip 3f2a9c1d0000 is now dddddddddddd")
        await stage.until(lambda: armed(dialog))
        assert stage.app.focused is not None
        assert stage.app.focused.id == "no"  # nothing goes on by the same key
        await give(stage, dialog, "#apply")
        await stage.until(lambda: len(engine.asked) == 2)
        assert engine.asked[1][1][1]["seen"].old == "d" * 40
        await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))


async def test_another_proposal_has_to_be_read_again() -> None:
    engine = without_warnings()
    engine.errors["apply"] = [
        Refused("not applied", "its snapshot is another", "review", code="other-snapshot")
    ]
    async with play(engine) as stage:
        dialog = await to_dialog(stage)
        await stage.press("right", "enter")
        await stage.shows("its snapshot is another", "Look again")
        before = stage.app.screen_stack[-2]
        await give(stage, dialog, "#again")
        await stage.until(
            lambda: isinstance(stage.app.screen, ReviewScreen) and stage.app.screen is not before
        )


@pytest.mark.parametrize("size", SIZES)
async def test_conflicts_are_listed_and_the_rebase_is_offered(size: tuple[int, int]) -> None:
    files = ((b"src/a.ts", "contents"), (b"x\x1b[31m", "modify/delete"))
    engine = without_warnings()
    engine.errors["plan_apply"] = [Conflict("the proposal conflicts", "both changed", "rebase", files)]
    async with play(engine, size) as stage:
        dialog = await to_dialog(stage)
        await stage.shows("2 files conflict; nothing was changed", "src/a.ts", "modify/delete", "x\\x1b[31m")
        assert not armed(dialog)
        await give(stage, dialog, "#rebase")
        await stage.until(lambda: engine.asked)
        assert engine.asked == [("rebase", (KEY,))]
        await stage.shows("rebased, with conflicts")
        await stage.until(lambda: isinstance(stage.app.screen, FleetScreen))


async def test_a_checkout_that_is_not_clean_is_told_and_can_be_tried_again() -> None:
    engine = without_warnings()
    why = "these files have changes of your own: README.md"
    engine.errors["apply"] = [Busy("your checkout cannot be brought along", why, "git stash", code="x")]
    async with play(engine, (80, 24)) as stage:
        dialog = await to_dialog(stage)
        await stage.press("right", "enter")
        await stage.shows(why[:40], "git stash")
        await give(stage, dialog, "#apply")
        await stage.until(lambda: len(engine.asked) == 2)


@pytest.mark.parametrize("size", SIZES)
async def test_undo_says_exactly_what_goes_back_and_hands_that_over(size: tuple[int, int]) -> None:
    row = frozen.box("done", state="applied", live="", processes=0)
    engine = frozen.FrozenEngine((row,))
    async with play(engine, size) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("U")
        await stage.until(lambda: isinstance(stage.app.screen, ConfirmScreen))
        await stage.shows("Undo the last apply of done", "main  at bbbbbbbbbbbb  becomes 3f2a9c1d0000")
        await stage.shows(
            "1 commit leaves it", "Apply the work of box docs-tour", "3 files in /home/dev/acme/shop"
        )
        await stage.shows("proposed: the same proposal waits again")
        await stage.press("right", "enter")
        await stage.until(lambda: engine.asked)
        assert engine.asked == [("unapply", (row.key, UNDO))]
        await stage.shows("undone", "main is at 3f2a9c1d00")


async def test_undo_of_a_part_names_what_the_box_is_compared_with_and_what_is_gone() -> None:
    row = frozen.box("part", state="idle", live="", processes=0)
    engine = frozen.FrozenEngine((row,))
    engine.undo = UNDO._replace(new="", work_tree="", state="idle", base=("b" * 40, "a" * 40), commits=2)
    async with play(engine, (80, 24)) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("U")
        await stage.shows("gone: apply had made it", "2 commits leave it", "no file of yours changes")
        await stage.shows("idle: compared with aaaaaaaaaaaa again", "not with bbbbbbbbbbbb")
        await stage.press("enter")
        assert engine.asked == []


async def test_rebase_asks_first_and_names_the_branch() -> None:
    row = frozen.box("late", state="idle", live="", processes=0, drift=2)
    engine = frozen.FrozenEngine((row,))
    async with play(engine) as stage:
        await stage.until(lambda: isinstance(stage.app.focused, BoxPane))
        await stage.press("B")
        await stage.shows("Rebase late", "2 commits", "main")
        await stage.press("enter", "B", "right", "enter")
        await stage.until(lambda: engine.asked)
        assert engine.asked == [("rebase", (row.key,))]
        await stage.shows("rebased, with conflicts", "src/a.ts")
