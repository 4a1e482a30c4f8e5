"""What was tried is read back from the journal as it was written, and nothing else passes for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.evidence.journal import Journal
from backends.gate import tried
from backends.snapshots import Trial

TREE = "5e" * 20
ONE = Trial(
    "9c" * 20, TREE, False, "", TREE, ("npm", "test"), 1, 3.25, 2, (("net", "x:443", 2),), "try-b", False,
    "ann", 0.0,
)  # fmt: skip
TEXTS = st.text(max_size=20)


def kept(tmp_path: Path, *trials: Trial) -> tuple[Trial, ...]:
    journal = Journal(tmp_path / "journal.jsonl")
    for one in trials:
        journal.append(tried.KIND, tried.data_of(one))
    return tried.read(journal.path, "9c" * 20)


def test_a_try_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    (found,) = kept(tmp_path, ONE)
    assert found._replace(time=0.0) == ONE and found.time > 0


@given(
    argv=st.lists(TEXTS, max_size=4),
    code=st.integers(0, 255),
    wall=st.floats(0, 1e6),
    who=TEXTS,
    denials=st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 99)), max_size=30),
)
def test_any_try_survives_its_record(
    argv: list[str], code: int, wall: float, who: str, denials: list[tuple[str, str, int]]
) -> None:
    one = ONE._replace(argv=tuple(argv), exit=code, wall=wall, who=who, denials=tuple(denials))
    back = tried.trial_of(tried.data_of(one), 0.0)
    assert back == one._replace(denials=tuple(denials[: tried.MOST_DENIALS]))


@given(
    st.dictionaries(
        st.sampled_from(list(tried.data_of(ONE))),
        st.one_of(st.none(), st.booleans(), st.integers(), TEXTS, st.lists(st.none(), max_size=3)),
        min_size=1,
    )
)
def test_a_record_of_another_shape_is_none_or_a_try(changed: dict[str, object]) -> None:
    found = tried.trial_of({**tried.data_of(ONE), **changed}, 0.0)
    assert found is None or (isinstance(found.exit, int) and isinstance(found.tree, str))


@pytest.mark.parametrize("missing", sorted(tried.data_of(ONE)))
def test_a_record_without_a_member_is_none(missing: str) -> None:
    data = {name: value for name, value in tried.data_of(ONE).items() if name != missing}
    assert tried.trial_of(data, 0.0) is None


def test_what_a_command_says_never_passes_for_a_record(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append("exec", {"argv": ['"kind":"tried"', "x"], "kind": "tried", "snapshot": "9c" * 20})
    journal.append("session-start", {**tried.data_of(ONE)})
    with open(journal.path, "ab") as file:
        file.write(b'{"data":{},"kind":"tried"}\n[1,"kind":"tried"]\n"kind":"tried" unfinished')
    assert tried.read(journal.path, "9c" * 20) == ()


def test_another_proposals_tries_are_left_out_and_the_latest_kept(tmp_path: Path) -> None:
    many = [ONE._replace(exit=n % 256) for n in range(tried.MOST + 5)]
    found = kept(tmp_path, ONE._replace(snapshot="ff" * 20), *many)
    assert len(found) == tried.MOST and found[-1].exit == (tried.MOST + 4) % 256
    assert tried.read(tmp_path / "nothing", "9c" * 20) == ()


def test_a_combination_ran_where_exactly_its_tree_was_tried() -> None:
    trials = (ONE, ONE._replace(exit=0), ONE._replace(tree="aa" * 20, exit=9))
    assert tried.combination(TREE, trials) == "combination ran, exit 0"
    assert tried.combination("bb" * 20, trials) == "combination not run"
    assert tried.combination(TREE, ()) == "combination not run"
