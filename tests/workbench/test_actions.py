"""One table of actions feeds footer, help, palette, key bindings and docs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding

from app.action import CONTEXTS, Situation
from app.actions import ACTIONS, BY_ID, bindings, disabled_reason, of_context, shown_key
from app.keys_manual import markdown
from app.screens.base import WorkbenchScreen
from app.screens.box import BoxScreen
from app.screens.compare import CompareScreen
from app.screens.fleet import FleetScreen
from app.screens.help import RELATED, help_paragraphs
from app.screens.review import ReviewScreen
from app.workbench import Workbench
from backends.snapshots import CheckRow
from tests.workbench import frozen
from widgets.diff_view import DiffView
from widgets.ink import Run, plain
from widgets.lines import RowView
from widgets.process_tree import ProcessTree
from widgets.timeline import Timeline

SCREENS: tuple[type[WorkbenchScreen], ...] = (FleetScreen, BoxScreen, ReviewScreen, CompareScreen)


def test_ids_are_unique_and_contexts_known() -> None:
    assert len(BY_ID) == len(ACTIONS)
    assert all(set(action.contexts) <= set(CONTEXTS) for action in ACTIONS)
    assert all(action.tooltip and action.text and action.key for action in ACTIONS)


@pytest.mark.parametrize("screen", SCREENS)
def test_every_action_of_a_screen_is_bound_and_can_be_carried_out(screen: type[WorkbenchScreen]) -> None:
    given = (*Workbench.BINDINGS, *screen.BINDINGS)
    bound = {binding.id: binding for binding in given if isinstance(binding, Binding)}
    for action in of_context(*screen.CONTEXTS, "anywhere"):
        if not action.own:
            assert bound[action.id].key == action.key
            assert callable(getattr(screen, "do_" + action.id.replace("-", "_")))


@pytest.mark.parametrize("screen", SCREENS)
def test_no_key_means_two_things_on_one_screen(screen: type[WorkbenchScreen]) -> None:
    keys: dict[str, str] = {}
    for action in of_context(*screen.CONTEXTS, "anywhere"):
        for key in action.key.split(","):
            assert keys.setdefault(key, action.id) == action.id


@pytest.mark.parametrize(
    ("context", "widget"),
    [("tree", ProcessTree), ("timeline", Timeline), ("diff", DiffView), ("lists", RowView)],
)
def test_keys_that_a_widget_binds_are_the_ones_in_the_table(context: str, widget: Any) -> None:
    bound = {
        key
        for kind in widget.__mro__
        for binding in kind.__dict__.get("BINDINGS", ())
        for key in binding.key.split(",")
    }
    for action in of_context(context):
        assert set(action.key.split(",")) <= bound, action.id


@pytest.mark.parametrize("screen", SCREENS)
def test_help_shows_every_action_with_its_keys(screen: type[WorkbenchScreen]) -> None:
    rows = help_paragraphs(screen.CONTEXTS, {"stop": "s"})
    found: list[tuple[Any, ...]] = [row for row in rows if len(row) == 2]
    text = "\n".join(plain(row[0]) for row in found if not isinstance(row[0], Run))
    parts = [part for context in screen.CONTEXTS for part in RELATED.get(context, ())]
    for action in of_context(*screen.CONTEXTS, *parts, "lists", "anywhere"):
        keys = "s" if action.id == "stop" else shown_key(action.key, first=False)
        assert f"  {keys:<16} {action.tooltip}" in text


def test_the_documentation_is_what_the_table_says() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "keys.md"
    assert page.read_text() == markdown()


def test_bindings_are_made_only_for_what_screens_carry_out() -> None:
    assert {
        binding.id for binding in bindings("tree", "diff", "lists") if isinstance(binding, Binding)
    } == set()


LIVE, WAITING, PROPOSED, LOOSE, LOST = frozen.FLEET
REVIEW = frozen.FrozenEngine().review(PROPOSED.key)
REFUSED = REVIEW._replace(checks=(*REVIEW.checks, CheckRow("x", "refuse", "no", None)))


@pytest.mark.parametrize(
    ("action", "situation", "reason"),
    [
        ("stop", Situation(box=LIVE), ""),
        ("stop", Situation(box=PROPOSED), "nothing runs in this box"),
        ("stop", Situation(), "no box is selected"),
        ("stop", Situation(box=LIVE, busy="the box is being stopped"), "the box is being stopped"),
        ("terminal", Situation(box=LIVE), ""),
        ("terminal", Situation(box=PROPOSED), "the box is frozen as a proposal; reopen it first"),
        ("terminal", Situation(box=LOST), "its keeper was lost; abort or remove the box"),
        ("review", Situation(box=LIVE), "processes still run; stop the box before its result is frozen"),
        ("review", Situation(box=LOOSE), ""),
        ("review", Situation(box=PROPOSED), ""),
        ("reopen", Situation(box=PROPOSED), ""),
        ("reopen", Situation(box=LIVE), "only a proposal can be reopened"),
        ("abort", Situation(box=LIVE._replace(state="aborted")), "the box was aborted already"),
        ("kill", Situation(process=frozen.AGENT[0]), ""),
        ("kill", Situation(process_ended=True), "that process has ended; select another"),
        ("kill", Situation(), "no process is selected"),
        ("apply", Situation(review=REVIEW), ""),
        ("apply", Situation(), "the review is not read yet"),
        ("apply", Situation(review=REFUSED), "the gate refuses this result (1 checks)"),
        ("export", Situation(review=REFUSED), "the gate refuses this result (1 checks)"),
        ("apply", Situation(review=REFUSED, undo=True), ""),
        ("apply", Situation(review=REVIEW._replace(branch="", branch_tip="")), ""),
        (
            "apply",
            Situation(review=REVIEW._replace(row=PROPOSED._replace(repository=""))),
            "the box has no repository to apply to; export works",
        ),
        ("unapply", Situation(box=PROPOSED._replace(state="applied")), ""),
        ("unapply", Situation(box=LOOSE), ""),
        ("unapply", Situation(box=PROPOSED), "the box is frozen as a proposal; reopen it first"),
        ("unapply", Situation(box=LIVE), "the box is running: nothing of it was applied"),
        ("unapply", Situation(), "no box is selected"),
        ("rebase", Situation(box=LOOSE), ""),
        ("rebase", Situation(box=PROPOSED), "its branch has not moved on"),
        ("rebase", Situation(box=LIVE), "processes still run; stop the box before its files are changed"),
        (
            "rebase",
            Situation(box=LOOSE._replace(base_ref="")),
            "the box has no branch that it could be brought onto",
        ),
        ("open", Situation(box=LOST), ""),
        ("remove", Situation(box=LOST), ""),
        ("help", Situation(), ""),
    ],
)
def test_a_disabled_action_says_why(action: str, situation: Situation, reason: str) -> None:
    assert disabled_reason(action, situation) == reason
