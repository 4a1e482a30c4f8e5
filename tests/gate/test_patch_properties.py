"""Whatever is selected of whatever change: the patch applies, and gives the composed tree byte for byte."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.gate.patch import (
    ACCEPTED,
    REJECTED,
    Decisions,
    History,
    Marks,
    compose_tree,
    counts,
    everything,
    select,
    selected_patch,
)
from backends.gate.patch.marks import bits, from_text, mask, ranges, to_text
from tests.gate.selections import acts, applied, decide, pairs, patch_of, some, trees
from tests.gate.world import World

SLOW = settings(
    max_examples=30,
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


@given(pair=pairs(), data=st.data())
@SLOW
def test_the_order_of_decisions_does_not_matter(world: World, pair: Any, data: Any) -> None:
    old, new = trees(world, *pair)
    patch = patch_of(world, old, new)
    final = decide(data.draw(acts(patch)))
    single = [
        (path, one, state)
        for path, decision in final.files.items()
        for marks, state in zip(decision, (ACCEPTED, REJECTED), strict=True)
        for one in atoms(marks)
    ]
    assert decide(data.draw(st.permutations(single))) == final
    assert compose_tree(world.quarantine, select(patch, decide(single[::-1]))) == compose_tree(
        world.quarantine, select(patch, final)
    )


@given(pair=pairs(), data=st.data())
@SLOW
def test_rejecting_is_the_complement_of_accepting(world: World, pair: Any, data: Any) -> None:
    old, new = trees(world, *pair)
    patch = patch_of(world, old, new)
    wanted = [(file.path, data.draw(some(file))) for file in patch.files]
    others = [
        (file.path, file.all.minus(marks)) for file, (_, marks) in zip(patch.files, wanted, strict=True)
    ]
    one = Decisions().set(wanted, ACCEPTED).set(others, REJECTED)
    two = Decisions().set(everything(patch), ACCEPTED).set(others, REJECTED)
    three = Decisions().set(everything(patch), REJECTED).set(wanted, ACCEPTED)
    assert one == two == three
    undecided = Decisions().set(wanted, ACCEPTED)
    for file in patch.files:
        assert counts(file, undecided.of(file.path)).accepted == counts(file, one.of(file.path)).accepted


@given(pair=pairs(), data=st.data())
@SLOW
def test_every_step_can_be_undone_and_redone(world: World, pair: Any, data: Any) -> None:
    old, new = trees(world, *pair)
    patch = patch_of(world, old, new)
    history = History()
    seen = [history.now]
    for path, marks, state in data.draw(acts(patch)):
        after = history.set([(path, marks)], state)
        if after != history:
            seen.append(after.now)
        history = after
    last = history
    for earlier in reversed(seen[:-1]):
        history = history.undo()
        assert history.now == earlier
    assert history.undo() == history
    for later in seen[1:]:
        history = history.redo()
        assert history.now == later
    assert history == last and history.redo() == last


@given(value=st.integers(0, 1 << 900).map(lambda n: n & ~1))
def test_lines_as_text_are_the_same_lines(value: int) -> None:
    text = to_text(value)
    assert from_text(text, value.bit_length()) == value
    assert mask([(a, b - a + 1) for a, b in ranges(value)], value.bit_length()) == value
    assert [n for n, one in enumerate(bits(value, 5)) if one == "1"] == [
        n for n in range(value.bit_length()) if value >> n & 1
    ]


@given(text=st.text("0123456789-, ", max_size=20) | st.from_regex(r"x[0-9a-f]{0,1300}", fullmatch=True))
def test_other_text_is_no_lines(text: str) -> None:
    try:
        value = from_text(text, 5000)
    except ValueError:
        return
    assert from_text(to_text(value), 5000) == value
    assert value.bit_length() <= 5001


def atoms(marks: Marks) -> list[Marks]:
    """Each thing of a set alone."""
    found = [Marks(frozenset({part})) for part in sorted(marks.parts)]
    found += [Marks(frozenset(), 1 << n, 0) for n in range(marks.old.bit_length()) if marks.old >> n & 1]
    return found + [
        Marks(frozenset(), 0, 1 << n) for n in range(marks.new.bit_length()) if marks.new >> n & 1
    ]
