"""Whatever is selected of whatever change: the patch applies, and gives the composed tree byte for byte."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.gate.patch import (
    ACCEPTED,
    Decisions,
    compose_tree,
    everything,
    select,
    selected_patch,
)
from tests.gate.selections import acts, applied, decide, pairs, patch_of, trees
from tests.gate.world import World

SLOW = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@given(pair=pairs(), data=st.data())
@SLOW
def test_any_selection_applies_and_gives_the_composed_tree(world: World, pair: Any, data: Any) -> None:
    old, new = trees(world, *pair)
    patch = patch_of(world, old, new)
    selection = select(patch, decide(data.draw(acts(patch))))
    text = selected_patch(world.quarantine, selection)
    assert applied(world, old, text) == compose_tree(world.quarantine, selection)


@given(pair=pairs())
@SLOW
def test_all_is_the_snapshot_and_none_the_base(world: World, pair: Any) -> None:
    old, new = trees(world, *pair)
    patch = patch_of(world, old, new)
    nothing = select(patch, Decisions())
    assert compose_tree(world.quarantine, nothing) == old
    assert selected_patch(world.quarantine, nothing) == b""
    selection = select(patch, Decisions().set(everything(patch), ACCEPTED))
    assert selection.whole and selection.blocked == ()
    assert compose_tree(world.quarantine, selection) == new
    text = selected_patch(world.quarantine, selection)
    assert text == b"".join(file.text for file in patch.files)
    assert applied(world, old, text) == new
