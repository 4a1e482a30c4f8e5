"""Outside text becomes printable text, and never loses what it held (kinds U1, U2)."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from widgets.ink import crop_line, crop_line_left, fill_line, line, plain, spread, width_of, wrap_line
from widgets.visible import crop, crop_left, expand_tabs, fit, fitted, rich_text, runs, visible

ANY = st.text(st.characters(codec=None), max_size=60)


@pytest.mark.parametrize(
    ("outside", "shown"),
    [
        ("plain.py", "plain.py"),
        ("a\x1b]0;owned\x07b", "a\\x1b]0;owned\\x07b"),
        ("\x1b]52;c;aGk=\x1b\\", "\\x1b]52;c;aGk=\\x1b\\"),
        ("\x9b31m", "\\x9b31m"),
        (b"\x9b31m", "\\x9b31m"),
        (b"caf\xe9", "caf\\xe9"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("x\u202egnp.exe", "x\\u202egnp.exe"),
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        (".g\u200cit", ".g\\u200cit"),
        ("a\u2028b", "a\\u2028b"),
        ("\U000e0041", "\\U000e0041"),
        ("\u3164", "\\u3164"),
        ("日本語.txt", "日本語.txt"),
        ("naïve", "naïve"),
        ("cafe\u0301", "cafe\u0301"),
        ("[@click=app.apply]README.md[/]", "[@click=app.apply]README.md[/]"),
    ],
)
def test_what_a_terminal_would_obey_is_written_as_an_escape(outside: str | bytes, shown: str) -> None:
    assert visible(outside) == shown


def test_every_control_format_and_separator_character_of_unicode_is_escaped() -> None:
    obeyed = ("Cc", "Cf", "Cs", "Zl", "Zp")
    missed = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in obeyed and visible(chr(code)) == chr(code)
    ]
    assert missed == []


def test_a_tower_of_marks_is_bounded_and_the_rest_is_shown() -> None:
    shown = visible("e" + "\u0301" * 1000)
    assert shown == "e" + "\u0301" * 4 + "\\u0301" * 996


@given(ANY)
def test_nothing_obeyed_survives(text: str) -> None:
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in visible(text))


@given(ANY)
def test_runs_say_the_same_and_tell_escapes_from_literal_backslashes(text: str) -> None:
    parts = runs(text)
    assert plain(parts) == visible(text)
    assert "".join(run.text for run in parts if run.ink != "escape") == "".join(
        char for char in text if visible(char) == char
    ) or any(unicodedata.combining(char) for char in text)


def test_a_literal_backslash_is_not_an_escape() -> None:
    assert [run.ink for run in runs("\\x1b")] == [""]
    assert [run.ink for run in runs("\x1b")] == ["escape"]


@given(ANY, st.integers(0, 40))
def test_cropped_and_fitted_text_never_exceeds_its_room(text: str, width: int) -> None:
    shown = visible(text)
    assert cell_len(crop(shown, width)) <= width
    assert cell_len(crop_left(shown, width)) <= width
    assert cell_len(fit(shown, width)) == width
    assert width_of(fitted(text, width)) == width
    assert width_of(fitted(text, width, keep="tail")) == width


@given(st.lists(ANY, max_size=4), st.integers(0, 40))
def test_lines_of_runs_keep_to_their_room(texts: list[str], width: int) -> None:
    parts = line(*(runs(text, "quiet") for text in texts))
    assert width_of(crop_line(parts, width)) <= width
    assert width_of(crop_line_left(parts, width)) <= width
    assert width_of(fill_line(parts, width)) == width
    assert width_of(spread(parts, line("right"), width)) == max(width, 0)


@given(ANY, st.integers(8, 40), st.integers(0, 6))
def test_wrapping_loses_only_blanks(text: str, width: int, indent: int) -> None:
    parts = runs(text)
    wrapped = wrap_line(parts, width, indent)
    assert "".join(plain(one) for one in wrapped).replace(" ", "") == plain(parts).replace(" ", "")
    assert all(width_of(one) <= max(width, indent + 8) for one in wrapped)


def test_tabs_stop_by_cells() -> None:
    assert expand_tabs("a\tb") == "a   b"
    assert expand_tabs("日\tb") == "日  b"
    assert expand_tabs("\t\tx") == "        x"


def test_rich_text_reads_no_markup() -> None:
    text = rich_text("[bold]x[/] \x1b")
    assert text.plain == "[bold]x[/] \\x1b"
    assert [span.style for span in text.spans if span.style] == ["reverse"]
