"""The terminal emulator: what everyday programs say works, what hostile output says is bounded (rule S15)."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.widgets.drawn import bench, text_of
from widgets.keys import bytes_of, paste_bytes
from widgets.terminal import TerminalView
from widgets.terminal_bounds import Bounds
from widgets.terminal_screen import SLICE, Image, TerminalScreen
from widgets.visible import visible


def screen(data: bytes, columns: int = 80, lines: int = 24) -> TerminalScreen:
    made = TerminalScreen(columns, lines)
    for start in range(0, len(data), SLICE):
        made.feed(data[start : start + SLICE])
    return made


def rows(image: Image) -> list[str]:
    return ["".join(cell.text for cell in row).rstrip() for row in image.rows]


def shown(data: bytes, columns: int = 80, lines: int = 24) -> list[str]:
    return rows(screen(data, columns, lines).image())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"hello\r\nworld", ["hello", "world"]),
        (b"abc\rX", ["Xbc"]),
        (b"abc\x08\x08Z", ["aZc"]),
        (b"\x1b[3;5Hx", ["", "", "    x"]),
        (b"junk\x1b[2J\x1b[Hclean", ["clean"]),
        (b"one\x1b7\x1b[5;5Hfar\x1b8!", ["one!", "", "", "", "    far"]),
        (b"shell\x1b[?1049hvim\x1b[?1049l$", ["shell$"]),
        (b"\x1b(0lqk\x1b(B lqk", ["┌─┐ lqk"]),
        (b"\x0e\x1b)0qq\x0fq", ["──q"]),
        (b"-\x1b[9b", ["-" * 10]),
        (b"a\r\nb\r\nc\x1b[2S", ["c"]),
        ("日本".encode(), ["日本"]),
        ("e\u0301".encode(), ["e\u0301"]),
        ("a\u200db".encode(), ["ab"]),
        (b"\x1b]0;title\x07x\x1b]52;c;aGk=\x1b\\y", ["xy"]),
        (b"\x1bPq#0;2\x1b\\x\x1b_apc\x1b\\y\x1b^pm\x1b\\z", ["xyz"]),
        (b"\xff\xfe!", ["\ufffd\ufffd!"]),
        (b"\xc2\x9b31mx", ["\ufffd31mx"]),
        (b"\x1b[>4;2mplain\x1b[?4m\x1b[=1u", ["plain"]),
    ],
)
def test_programs_say_and_the_screen_shows(data: bytes, expected: list[str]) -> None:
    lines = shown(data)
    assert lines[: len(expected)] == expected
    assert not any(lines[len(expected) :])


def test_sequences_cut_anywhere_are_put_together_again() -> None:
    data = b"a\x1b[31mb\x1b]0;t\x07c\x1b(0q\x1b(Bd\xe2\x94\x80e"
    whole = shown(data)
    for cut in range(1, len(data)):
        made = TerminalScreen(80, 24)
        made.feed(data[:cut])
        made.feed(data[cut:])
        assert rows(made.image()) == whole
    slowly = TerminalScreen(80, 24)
    for byte in data:
        slowly.feed(bytes([byte]))
    assert rows(slowly.image()) == whole


@pytest.mark.parametrize(
    "data",
    [
        ("a" + "\u0301" * 32_768).encode(),
        ("a" + "\u0301\x1b[m" * 20_000).encode(),
        b"\x1b[" + b"9" * 100_000 + b"m",
        b"\x1b[" + b"9;" * 50_000 + b"m",
        b"\x1b[" + b"9" * 10 + b"A" * 60_000,
        b"\x1b]0;" + b"x" * 1_000_000,
        b"\x1b7" * 50_000,
        b"\x1b[99999999b" * 50,
        b"\x1b[9999S\x1b[9999T\x1b[9999L\x1b[9999M\x1b[9999@\x1b[9999P\x1b[9999X" * 20,
        b"\x1b[?3h" * 10_000,
        b"\x1b[6n" * 20_000,
        b"y\n" * 60_000,
    ],
    ids=lambda data: repr(data[:16]),
)
def test_hostile_output_costs_what_its_length_costs(data: bytes) -> None:
    start = time.process_time()
    made = screen(data)
    made.image()
    assert time.process_time() - start < 30.0
    assert made.resets == 0


def test_marks_on_one_cell_are_bounded_however_they_arrive() -> None:
    made = screen(("a" + "\u0301\x1b[m" * 5_000).encode())
    assert len(rows(made.image())[0]) <= 5


def test_an_endless_number_is_cut_before_it_is_parsed() -> None:
    assert Bounds().pass_on(b"\x1b[" + b"9" * 3_000 + b";5H") == "\x1b[9999;5H"
    assert shown(b"\x1b[" + b"9" * 3_000 + b"Hx")[-1] == "x"


def test_the_pane_decides_its_width() -> None:
    made = screen(b"\x1b[?3h\x1b[?40h" + b"x" * 100, columns=40, lines=5)
    assert made.image().columns == 40


def test_answers_are_given_and_a_flood_of_questions_gets_no_flood() -> None:
    made = TerminalScreen(80, 24)
    assert made.feed(b"\x1b[5;7H\x1b[6n") == b"\x1b[5;7R"
    assert made.feed(b"\x1b[c") == b"\x1b[?6c"
    assert len(made.feed(b"\x1b[6n" * 1000)) <= 256


def test_a_failure_of_the_parser_resets_this_screen_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made, other = TerminalScreen(20, 5), screen(b"other", 20, 5)
    made.feed(b"before")

    def broken(text: str) -> None:
        raise ValueError("broken by the program")

    monkeypatch.setattr(made._screen, "draw", broken)
    monkeypatch.setattr(made._stream.listener, "draw", broken)
    made.feed(b"boom")
    assert made.resets == 1
    made.feed(b"after")
    assert rows(made.image())[0] == "after"
    assert rows(other.image())[0] == "other"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=12),
            st.sampled_from(
                [
                    b"\x1b[",
                    b"\x1b]",
                    b"\x1b(",
                    b"?",
                    b";",
                    b"9",
                    b"h",
                    b"l",
                    b"m",
                    b"r",
                    b"H",
                    b"J",
                    b"K",
                    b"\x1b#8",
                    b"\x1b[?6h",
                    b"\x1b[5d",
                    b"\xe2\x94",
                ]
            ),
        ),
        max_size=40,
    )
)
def test_no_bytes_break_the_emulator(parts: list[bytes]) -> None:
    made = TerminalScreen(20, 6)
    for part in parts:
        made.feed(part)
    image = made.image()
    assert made.resets == 0
    assert len(image.rows) == 6


def test_random_bytes_leave_a_drawable_screen() -> None:
    image = screen(os.urandom(100_000)).image()
    assert all(visible(row) == row for row in rows(image))


@pytest.mark.parametrize(
    ("key", "character", "expected"),
    [
        ("a", "a", b"a"),
        ("A", "A", b"A"),
        ("enter", "\r", b"\r"),
        ("tab", "\t", b"\t"),
        ("shift+tab", None, b"\x1b[Z"),
        ("backspace", "\x7f", b"\x7f"),
        ("escape", "\x1b", b"\x1b"),
        ("ctrl+c", "\x03", b"\x03"),
        ("ctrl+q", "\x11", b"\x11"),
        ("up", None, b"\x1b[A"),
        ("ctrl+right", None, b"\x1b[1;5C"),
        ("f5", None, b"\x1b[15~"),
        ("f1", None, b"\x1bOP"),
        ("delete", None, b"\x1b[3~"),
        ("alt+x", None, b"\x1bx"),
        ("ctrl+backslash", None, b"\x1c"),
        ("é", "é", "é".encode()),
        ("question_mark", "?", b"?"),
        ("shift+f7", None, b"\x1b[18;2~"),
    ],
)
def test_keys_type_what_a_program_expects(key: str, character: str | None, expected: bytes) -> None:
    assert bytes_of(key, character) == expected


def test_cursor_keys_follow_the_mode_that_the_program_set() -> None:
    assert screen(b"\x1b[?1h").image().application_cursor
    assert bytes_of("up", None, application_cursor=True) == b"\x1bOA"


def test_a_paste_cannot_end_its_own_bracket() -> None:
    assert paste_bytes("a\x1b[201~rm\n", bracketed=True) == b"\x1b[200~a[201~rm\r\x1b[201~"


async def test_the_view_takes_every_key_while_its_session_lives_and_none_after() -> None:
    view = TerminalView()
    async with bench(view, (40, 8)) as pilot:
        typed: list[bytes] = []
        view.post_message_was = view.post_message  # type: ignore[attr-defined]

        def note(message: object) -> bool:
            if isinstance(message, TerminalView.Typed):
                typed.append(message.data)
            return True if isinstance(message, TerminalView.Typed) else view.post_message_was(message)  # type: ignore

        view.post_message = note  # type: ignore[method-assign]
        view.show(screen(b"$ ", 40, 8).image())
        await pilot.press("l", "s", "enter", "ctrl+c", "escape", "question_mark")
        assert b"".join(typed) == b"ls\r\x03\x1b?"
        view.show(screen(b"$ exit", 40, 8).image(), alive=False)
        await pilot.press("x")
        assert b"".join(typed) == b"ls\r\x03\x1b?"
        assert text_of(view)[0] == "$ exit"


async def test_what_a_program_prints_reaches_the_terminal_as_cells_only() -> None:
    view = TerminalView()
    async with bench(view, (40, 4)):
        view.show(screen(b"\x1b]0;own\x07a\x1b[5mb\x9bc\x00d", 40, 4).image())
        for y in range(view.size.height):
            for segment in view.render_line(y):
                assert segment.text.isprintable()
                assert segment.control is None
