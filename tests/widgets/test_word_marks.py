"""What differs within a line: whole words, nothing when nothing is common, bounded for hostile lines."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from widgets.word_marks import NO_SPANS, changed_words


def parts(text: str, spans: tuple[tuple[int, int], ...]) -> list[str]:
    return [text[start:end] for start, end in spans]


def test_words_are_marked_one_by_one() -> None:
    old, new = "if (t.expired) rotate(t, 5)", "if (t.expired) await renew(t, 60)"
    found = changed_words(old, new)
    assert parts(old, found.old) == ["rotate", "5"]
    assert parts(new, found.new) == ["await renew", "60"]


def test_what_was_only_added_marks_nothing_on_the_other_side() -> None:
    found = changed_words("load(a)", "load(a, b)")
    assert found.old == ()
    assert parts("load(a, b)", found.new) == [", b"]


def test_lines_that_have_little_in_common_are_not_marked_at_all() -> None:
    assert changed_words("return fetch(url)", "# everything is different now") == NO_SPANS


@given(st.text(alphabet="ab (=é\u0301", max_size=40), st.text(alphabet="ab (=é\u0301", max_size=40))
def test_without_the_marked_parts_both_lines_are_the_same(old: str, new: str) -> None:
    found = changed_words(old, new)
    if found == NO_SPANS:
        return

    def rest(text: str, spans: tuple[tuple[int, int], ...]) -> str:
        for start, end in reversed(spans):
            text = text[:start] + text[end:]
        return "".join(text.split())

    assert rest(old, found.old) == rest(new, found.new)


def test_hostile_lines_are_compared_in_bounded_time() -> None:
    for old, new in (
        ("a b " * 5000, "b a " * 5000),
        ("(" * 20000, ")" * 20000),
        ("x" * 10**6, "x" * 10**6 + "y"),
    ):
        start = time.process_time()
        changed_words(old, new)
        assert time.process_time() - start < 20.0
