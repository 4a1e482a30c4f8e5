"""Patches as rows: numbers, folding of long lines, pairs; nothing but a line feed ends a line (kind U3)."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from tests.workbench.frozen import CHANGES, PATCH
from widgets.lexing import LANGUAGES, language_of, lex
from widgets.patch import (
    ADDED,
    FILE,
    HUNK,
    LONGEST,
    META,
    NOTE,
    REMOVED,
    SAME,
    index_patch,
)
from widgets.shown import two_columns
from widgets.word_marks import differing


def one_file(body: bytes, old: int, new: int) -> bytes:
    return b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,%d +1,%d @@\n" % (old, new) + body


def test_rows_are_numbered_on_both_sides() -> None:
    index = index_patch(one_file(b" a\n-b\n+c\n+d\n e\n", 3, 4))
    assert list(index.kinds) == [FILE, HUNK, SAME, REMOVED, ADDED, ADDED, SAME]
    assert list(index.old) == [0, 0, 1, 2, 0, 0, 3]
    assert list(index.new) == [0, 0, 1, 0, 2, 3, 4]
    assert index.text(4) == b"c"


def test_files_and_hunks_are_found_and_named_by_the_change_list() -> None:
    index = index_patch(PATCH, tuple(change.path for change in CHANGES))
    assert [file.path for file in index.files] == [change.path for change in CHANGES]
    assert [hunk.file for hunk in index.hunks] == [0, 0, 1, 2]
    assert index.hunk_at(index.hunks[1].first) == 1
    assert index.hunk_at(0) is None


def test_a_line_that_looks_like_a_header_within_a_hunk_is_a_line() -> None:
    body = b"-@@ -1 +1 @@\n+diff --git a/evil b/evil\n+-- a/x\n"
    index = index_patch(one_file(body, 1, 2))
    assert len(index.files) == 1
    assert len(index.hunks) == 1
    assert index.text(3) == b"diff --git a/evil b/evil"


def test_a_file_that_becomes_a_link_is_one_file_and_the_next_keeps_its_name() -> None:
    patch = (
        b"diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        b"diff --git a/a b/a\nnew file mode 120000\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+b\n"
        b"diff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n"
    )
    index = index_patch(patch, (b"a", b"b"))
    assert [file.path for file in index.files] == [b"a", b"b"]
    assert [hunk.file for hunk in index.hunks] == [0, 0, 1]
    assert [index.kinds.count(kind) for kind in (FILE, REMOVED, ADDED)] == [2, 2, 2]


def test_only_a_line_feed_ends_a_line() -> None:
    odd = "a\rb\x0cc\x0b\x1c\u2028\u0085d".encode()
    index = index_patch(one_file(b"+" + odd + b"\n+z\n", 0, 2))
    assert [index.text(row) for row in (2, 3)] == [odd, b"z"]


def test_no_final_newline_is_a_note_and_not_a_line() -> None:
    index = index_patch(
        one_file(b"-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", 1, 1)
    )
    assert list(index.kinds)[2:] == [REMOVED, NOTE, ADDED, NOTE]


def test_modes_renames_and_binary_are_shown_and_repetitions_are_not() -> None:
    patch = (
        b"diff --git a/x b/y\nold mode 100644\nnew mode 100755\nsimilarity index 90%\nrename from x\n"
        b"rename to y\nindex 11..22\nBinary files a/x and b/y differ\n"
    )
    index = index_patch(patch)
    assert [index.text(row) for row in range(1, len(index))] == [
        b"old mode 100644",
        b"new mode 100755",
        b"similarity index 90%",
        b"rename from x",
        b"rename to y",
        b"Binary files a/x and b/y differ",
    ]
    assert set(list(index.kinds)[1:]) == {META}


def test_a_long_line_is_folded_and_no_byte_of_it_is_lost() -> None:
    long = ("ä" * 2_500_000).encode()
    index = index_patch(one_file(b"+" + long + b"\n", 0, 1))
    rows = [index.text(row) for row in range(2, len(index))]
    assert b"".join(rows) == long
    assert max(map(len, rows)) <= LONGEST
    for row in rows:
        row.decode("utf-8")  # no sequence is cut
    assert list(index.new)[2:5] == [1, 0, 0]


def test_a_hundred_thousand_lines_are_indexed_at_once() -> None:
    body = b"".join(b"%c line %d\n" % (b"-+ "[n % 3], n) for n in range(99_999))
    patch = one_file(body, 66_666, 66_666)
    start = time.process_time()
    index = index_patch(patch)
    assert len(index) == 99_999 + 2
    assert time.process_time() - start < 10.0


def test_sides_stand_beside_each_other() -> None:
    index = index_patch(one_file(b" a\n-b\n-c\n+B\n d\n", 4, 3))
    shown = two_columns(index, 0, len(index))
    assert list(zip(shown.left, shown.right, strict=True)) == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 5),
        (4, -1),
        (6, 6),
    ]


def test_what_differs_is_found_from_both_ends() -> None:
    assert differing("const t = load()", "const t = loadOnce()") == (14, 14, 18)
    assert differing("same", "same") == (4, 4, 4)
    assert differing("", "x") == (0, 0, 1)


@given(st.text(max_size=80), st.sampled_from(sorted(LANGUAGES)))
def test_lexing_changes_no_character(text: str, name: str) -> None:
    language = LANGUAGES[name]
    state = ""
    for part in text.split("\n"):
        found, state = lex(part, language, state)
        assert "".join(run.text for run in found) == part


def test_strings_comments_and_words_have_their_ink() -> None:
    language = language_of(b"a/b.ts")
    assert language is not None
    found, state = lex('return "a\\"b" + f(1) // no', language)
    assert [(run.text, run.ink) for run in found if run.ink] == [
        ("return", "word"),
        ('"a\\"b"', "string"),
        ("f", "name"),
        ("1", "number"),
        ("// no", "comment"),
    ]
    assert state == ""


def test_an_open_comment_goes_on_in_the_next_line() -> None:
    language = LANGUAGES["c"]
    _, state = lex("int x; /* open", language)
    found, state = lex("still */ int y;", language, state)
    assert found[0] == ("still */", "comment")
    assert state == ""


def test_hostile_source_is_lexed_in_linear_time() -> None:
    for text in ('"' * 20_000, "/*" * 20_000, "a" * 100_000, "\\" * 50_000, "'\\" * 20_000, "((((" * 20_000):
        for name in ("py", "ts", "c", "sh"):
            start = time.process_time()
            lex(text, LANGUAGES[name])
            assert time.process_time() - start < 10.0
