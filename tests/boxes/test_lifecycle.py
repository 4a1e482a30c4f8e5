"""The life of a box as a table: what may follow what, and what a person is told otherwise."""

from __future__ import annotations

import pytest

from backends.boxes import lifecycle as life
from backends.errors import Busy, ClocheError, Refused

LEGAL = {
    ("created", "running"), ("created", "aborted"), ("created", "removed"),
    ("running", "idle"),
    ("idle", "running"), ("idle", "proposed"), ("idle", "aborted"), ("idle", "removed"),
    ("proposed", "idle"), ("proposed", "applied"), ("proposed", "aborted"), ("proposed", "removed"),
    ("applied", "proposed"), ("applied", "removed"), ("aborted", "removed"),
}  # fmt: skip


@pytest.mark.parametrize("source", life.STATES)
@pytest.mark.parametrize("target", life.STATES)
def test_exactly_the_transitions_of_the_design_are_legal(source: str, target: str) -> None:
    assert life.legal(source, target) == ((source, target) in LEGAL)


ALLOWED = {
    "run": {"created", "running", "idle"},
    "propose": {"idle"},
    "reopen": {"proposed"},
    "apply": {"proposed"},
    "unapply": {"idle", "applied"},
    "rebase": {"idle", "proposed"},
    "export": {"proposed", "applied"},
    "abort": {"created", "idle", "proposed"},
    "rm": {"created", "idle", "proposed", "applied", "aborted"},
}


@pytest.mark.parametrize("act", ALLOWED)
@pytest.mark.parametrize("state", [s for s in life.STATES if s != "removed"])
def test_an_act_that_does_not_fit_is_refused_with_a_way_on(state: str, act: str) -> None:
    if state in ALLOWED[act]:
        life.require("b", state, act)
        return
    with pytest.raises(ClocheError) as refused:
        life.require("b", state, act)
    error = refused.value
    assert isinstance(error, Busy if state == "running" else Refused)
    assert state in error.why
    assert "{box}" not in error.next_step and error.next_step
    assert (act, state) in life.REMEDIES, "a person is told what to do first"
