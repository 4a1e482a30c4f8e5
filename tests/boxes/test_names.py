"""Which names a box can have, and what is said about the others."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.boxes import names
from backends.errors import UsageError


@pytest.mark.parametrize("name", ["a", "0", "fix-login", "v1.2_x", "a" * 48, "a.b", "lock", "x.locked"])
def test_a_good_name_is_taken_as_it_is(name: str) -> None:
    assert names.check(name) == name


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "empty"),
        ("a" * 49, "48"),
        ("-rf", "begin"),
        (".x", "begin"),
        ("A", "begin"),
        ("a b", "only"),
        ("a/b", "only"),
        ("aB", "only"),
        ("a\n", "only"),
        ("a\u0000", "only"),
        ("ä", "begin"),
        ("a\u0661", "only"),  # a digit to str.isdigit, not to the rule
        ("a..b", "two dots"),
        ("a.", "end"),
        ("a.lock", "end"),
    ],
)
def test_a_bad_name_is_refused_with_the_rule_it_breaks(name: str, word: str) -> None:
    with pytest.raises(UsageError) as refused:
        names.check(name)
    assert word in refused.value.why
    assert refused.value.exit_code == 2


@given(st.text(alphabet="ab0._-/~^: @{\\", max_size=12))
def test_every_allowed_name_makes_a_branch_that_git_takes(name: str) -> None:
    if names.problem(name):
        return
    assert "/" not in name and name not in (".", "..")
    git = ["git", "check-ref-format", f"refs/heads/cloche/{name}"]
    assert subprocess.run(git, check=False).returncode == 0


def test_a_random_name_is_readable_allowed_and_free() -> None:
    taken: set[str] = set()
    for _ in range(300):
        name = names.readable(taken)
        assert names.problem(name) == ""
        assert name not in taken
        taken.add(name)


def test_a_random_name_is_found_when_every_pair_of_words_is_taken() -> None:
    taken = {f"{a}-{p}" for a in names.ADJECTIVES for p in names.PLANTS}
    name = names.readable(taken)
    assert name not in taken and names.problem(name) == ""
