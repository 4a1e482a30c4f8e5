"""Nothing that a terminal obeys or an eye misses passes, and two different texts never look the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.evidence.visible import hidden, name_of, text_of, visible, visible_lines


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"plain name.txt", "plain name.txt"),
        ("caf\u00e9 \u4e2d\u6587 \U0001f600", "caf\u00e9 \u4e2d\u6587 \U0001f600"),
        (b"\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        (b"\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        (b"\x9b31m", "\\x9b31m"),
        ("\x9b31m", "\\u009b31m"),
        (b"a\rb\nc\td", "a\\rb\\nc\\td"),
        (b"\xff", "\\xff"),
        ("\u202eexe.txt", "\\u202eexe.txt"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\U000e0041", "\\U000e0041"),
        ("a\u00a0b\u2028c\u3164", "a\\u00a0b\\u2028c\\u3164"),
        ("back\\slash", "back\\\\slash"),
        ("\\x1b", "\\\\x1b"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 6, "e" + "\u0301" * 4 + "\\u0301\\u0301"),
    ],
)
def test_hostile_text_becomes_visible(value: str | bytes, expected: str) -> None:
    assert visible(value) == expected


@given(st.text(max_size=40), st.text(max_size=40))
def test_different_texts_look_different(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


@given(st.binary(max_size=60))
def test_any_bytes_become_printable_text(value: bytes) -> None:
    shown = visible(value)
    assert shown.isprintable()
    assert hidden(shown) == ()


@given(st.text(max_size=60))
def test_lines_keep_their_number(text: str) -> None:
    assert len(visible_lines(text)) == text.count("\n") + 1
    assert all(line.replace("\t", "").isprintable() for line in visible_lines(text))


def test_hidden_characters_are_named_and_bytes_are_not_among_them() -> None:
    assert hidden("plain text") == ()
    assert hidden(text_of(b"latin \xe9")) == ()
    assert hidden("a\tb\u202e\u200b", keep="\t") == ("\u200b", "\u202e")
    assert name_of("\u202e") == "U+202E RIGHT-TO-LEFT OVERRIDE"
    assert name_of("\x1b") == "U+001B control character"
