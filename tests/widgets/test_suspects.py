"""Characters that are not what they seem are found by kind; what people write in their languages is left."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.diff_paint import compose
from widgets.ink import Run, plain
from widgets.patch import index_patch
from widgets.suspects import BIDI, BYTES, CONTROL, INVISIBLE, LOOKALIKE, named, survey, suspects


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("plain = 1", []),
        ("p\u0430ypal", [LOOKALIKE]),  # Cyrillic a within a Latin word
        ("\u0441\u043e\u0440 = 1", [LOOKALIKE] * 3),  # a Cyrillic word that reads as Latin
        ("\u042d\u0442\u043e \u0441\u043e\u0440", []),  # a Russian comment
        ("\u03c3\u03c5\u03bd", []),  # Greek, with letters that no Latin one looks like
        ("\u03b1 = 0.5 * \u03c1", []),  # letters of a formula
        ("\uff41dmin", [LOOKALIKE]),
        ("\U0001d41adm", [LOOKALIKE]),
        ("if (x)\u037e", [LOOKALIKE]),  # a Greek question mark reads as a semicolon
        ("a\u00a0b", [LOOKALIKE]),  # a blank that is none
        ("na\u00efve fa\u00e7ade \u00b5m \u65e5\u672c\u8a9e \u00df", []),
        ("x\u202ey", [BIDI]),
        ("x\u2066y", [BIDI]),
        ("x\u200by", [INVISIBLE]),
        ("x\x1b[31m", [CONTROL]),
        ("mid\rdle", [CONTROL]),
        ("dos\r", [""]),  # the line end of the file: shown, no suspect
        (b"x\xff".decode("utf-8", "surrogateescape"), [BYTES]),
        ("tab\there", []),
    ],
)
def test_kinds(text: str, kinds: list[str]) -> None:
    assert [suspect.kind for suspect in suspects(text)] == kinds


@given(st.text(alphabet=st.characters(), max_size=60))
def test_suspects_are_in_order_apart_and_drawn_as_escapes(text: str) -> None:
    text = text.replace("\t", " ")
    found = suspects(text)
    assert all(one.end <= two.start for one, two in pairwise(found))
    drawn = compose(text, (Run(text),), found, [[(0, len(text), "found")]])
    expected = ""
    place = 0
    for suspect in found:
        expected += text[place : suspect.start] + suspect.shown
        place = suspect.end
    assert plain(drawn) == expected + text[place:]
    assert all("escape" in run.ink.split() or run.text in text for run in drawn)


def test_names_show_look_alikes_and_all_that_names_must_not_hide() -> None:
    assert named(b"src/plain.py", "x") == (Run("src/plain.py", "x"),)
    drawn = named("src/p\u0430y\t\u202e.py".encode(), "x")
    assert plain(drawn) == "src/p\\u0430y\\t\\u202e.py"
    assert drawn[1] == Run("\\u0430", "escape")


def test_a_survey_names_the_added_rows_and_the_files() -> None:
    patch = (
        "diff --git a/a b/a\n@@ -1,2 +1,2 @@\n ctx \u202e\n-old\u200b\n+new\n"
        "diff --git a/b b/b\n@@ -0,0 +1,3 @@\n+ok\n+\u0430dmin\n+x\u200b\u202e\n"
    ).encode()
    index = index_patch(patch)
    found = survey(index)
    assert [index.text(row).decode() for row in found.rows] == ["\u0430dmin", "x\u200b\u202e"]
    assert found.files == {1: (2, LOOKALIKE)}
    assert found.whole


def test_plain_text_has_nothing_to_survey() -> None:
    assert len(survey(index_patch(b"diff --git a/a b/a\n@@ -0,0 +1 @@\n+\tplain\n")).rows) == 0
