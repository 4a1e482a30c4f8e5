"""What a program printed, as a pane shows it: readable after a terminal session, and harmless after any."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workbench import frozen
from widgets.box_table import BoxTable
from widgets.ink import plain, width_of
from widgets.pane import BoxPane
from widgets.printed import output_lines, printed_line

SHELL = (
    b"\x1b[?2004h\x1b[01;32mbox@fix\x1b[00m:/work$ lss\b\x1b[K\r\n"
    b"\x1b[?2004l\rREADME.md  src\r\n"
    b"\x1b[?2004h\x1b[01;32mbox@fix\x1b[00m:/work$ "
)
"""What bash on a terminal sends for one command, with a letter that was taken back."""


def shown(tail: bytes, limit: int = 9) -> list[str]:
    return [plain(one) for one in output_lines(tail, limit)]


def test_a_shell_on_a_terminal_is_read_as_it_looked() -> None:
    assert shown(SHELL) == ["box@fix:/work$ ls", "README.md  src", "box@fix:/work$ "]


def test_the_last_line_is_the_last_that_says_something() -> None:
    assert plain(printed_line(SHELL)) == "box@fix:/work$ "
    assert plain(printed_line("done\r\n\x1b[?2004l")) == "done"
    assert printed_line("\x1b[?2004h") == ()
    assert printed_line("") == ()


def test_pane_and_table_show_a_terminals_last_line_readably() -> None:
    row = frozen.box("a", last_line="\x1b[?2004hbox:/work$ make")
    pane = "\n".join(plain(one) for one in BoxPane(row).compose_lines(60, 9))
    table = plain(BoxTable().row_line(0, row, 160))
    for text in (pane, table):
        assert "box:/work$ make" in text
        assert "2004h" not in text
        assert "\\x1b" not in text


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"10%\r55%\r100%\r\ndone\n", ["…\\r100%", "done"]),
        (b"\x1b[1;31mred\x1b[0m \x1b[2Jgone\n", ["red gone"]),
        (b"one\x1b[4;1Hfour\x1b[3Cmoved\n", ["one", "four   moved"]),
        (b"\x1b[2K\x1b[1Gfetch 3/4\x1b[2K\x1b[1Gfetch 4/4", ["…\\rfetch 4/4"]),
        (b"a\x1b(Bc\x1b=\x0f\x07\n", ["ac"]),
        (b"x\x1b[999999999Cy", ["x" + " " * 200 + "y"]),
        (b"ab\b\b\b\bc", ["c"]),
        (b"a\tb\n\n\n", ["a   b"]),
        (b"", []),
        (b"\r\n", []),
    ],
)
def test_sequences_mean_to_a_reader_what_they_mean_on_a_screen(raw: bytes, lines: list[str]) -> None:
    assert shown(raw) == lines


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"a\x1b]0;never ended\nnext\n", ["a\\x1b]0;never ended", "next"]),
        (b"a\x1b]52;c;aGk=\x1b\\b", ["a\\x1b]52;c;aGk=\\x1b\\b"]),
        (b"a\x1bPq#0;2\x1b\\b", ["a\\x1bPq#0;2\\x1b\\b"]),
        (b"cut \x1b[3", ["cut \\x1b[3"]),
        (b"\xc2\x9b31mx \xff", ["\\x9b31mx \\xff"]),
        ("\u202eb".encode(), ["\\u202eb"]),
    ],
)
def test_strings_to_the_terminal_and_broken_sequences_stay_visible(raw: bytes, lines: list[str]) -> None:
    assert shown(raw) == lines


@given(st.text(st.sampled_from("\x1b[]PX0;?mHCGK\x07\\\b\r\n\x9b\u202ea "), max_size=60))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    for one in (*output_lines(text.encode(), 9), printed_line(text)):
        assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in plain(one))


def test_output_is_bounded_by_lines_and_by_bytes() -> None:
    assert len(output_lines(b"y\n" * 1_000_000, 20)) == 20
    assert sum(width_of(one) for one in output_lines(b"x" * 5_000_000, 20)) <= 4096


@pytest.mark.parametrize("piece", [b"\x1b]", b"\x1b[", b"\x1b[0;", b"\x1bP1", b"\x1b[9C", b"a\b", b"\r"])
def test_reading_is_linear_in_what_a_hostile_program_prints(piece: bytes) -> None:
    start = time.process_time()
    output_lines(piece * (800_000 // len(piece)), 400)
    assert time.process_time() - start < 20.0
